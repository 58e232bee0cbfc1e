"""What UNets want in the loop: an embedded guidance scale, added conditions, pictures, and what is added inside."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import (
    AutoPipelineBlocks,
    BlockView,
    ComponentSpec,
    ModularPipelineBlocks,
    SequentialPipelineBlocks,
    needs,
)
from ...blocks.compose import Block
from ...guiders import Condition
from ...models.controlnets.multi import MultiControlNetModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from .adapter import ADAPTER_FEATURES, AutoAdapter, features_at
from .control import CONTROL, CONTROLNET, AutoControl, SteeredByControl
from .decode import Decode
from .denoise import DenoiseOrPaint, Predict, without_lora_scale
from .guidance import SetGuidance
from .image_prompt import IMAGE_PROMPTS, WITH, WITHOUT, AutoImagePrompt, require_no_adapters
from .painting import AutoPasteCrop
from .parts import DENOISER_OUTLINE, GUIDER, Components, played_by
from .several import nets_of
from .workflows import FROM_PICTURES, FROM_TEXT, PAINTING, AutoStart, steered

Tensor = torch.Tensor
PICTURE = "image_embeds_"  # and a number: what an IP-Adapter reads, as a condition that differs between the branches


class SetUNetGuidance(SetGuidance):
    """Gives the guider of this run its scale; a denoiser that was taught the scale needs no guider."""

    expected_components = [GUIDER, DENOISER_OUTLINE]

    def give(self, components: Components, state: BlockView) -> None:
        super().give(components, state)
        if components.denoiser.config.time_cond_proj_dim is not None:
            components.guider.disable()


class EmbedGuidance(ModularPipelineBlocks):
    """The guidance scale as an embedding, for denoisers that were taught it (arXiv:2310.04378)."""

    expected_components = [DENOISER_OUTLINE, GUIDER]
    inputs = [*needs("prompt_embeds")]
    outputs = ["timestep_cond"]

    def __call__(self, components: Components, state: BlockView) -> None:
        width = components.denoiser.config.time_cond_proj_dim
        state.timestep_cond = None
        if width is not None:
            scale = torch.tensor(components.guider.guidance_scale - 1).repeat(len(state.prompt_embeds))
            state.timestep_cond = guidance_embedding(scale, width).to(state.prompt_embeds)


def guidance_embedding(scale: Tensor, width: int) -> Tensor:
    """Sine and cosine of the scale at falling frequencies."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half) * -(torch.log(torch.tensor(10000.0)) / (half - 1)))
    angles = (scale * 1000.0)[:, None] * frequencies[None]
    return torch.nn.functional.pad(torch.cat([angles.sin(), angles.cos()], dim=1), (0, width % 2))


class PredictWithUNet(Predict):
    """The UNet's prediction for each branch that the guider asks for, and the guider's mix of them."""

    inputs = [*Predict.inputs, "timestep_cond", "cross_attention_kwargs", *IMAGE_PROMPTS, *ADAPTER_FEATURES]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        if inputs[WITH] is None:
            require_no_adapters(components.denoiser)

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        pictures = state[WITH] or []
        without = state[WITHOUT] or [None] * len(pictures)
        images = {f"{PICTURE}{k}": pair for k, pair in enumerate(zip(pictures, without, strict=True))}
        return {**super().conditions(state), **images}

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        sample = self.sample(state, inputs, repeats)
        residuals = self.residuals(components, state, t, sample, inputs)
        step = components.guider.get_state()["step"]
        features = features_at(state, step, len(state.timesteps), repeats)
        pictures = [rows for name, rows in inputs.items() if name.startswith(PICTURE)]
        added = {**(self.added_conditions(inputs) or {}), **({"image_embeds": pictures} if pictures else {})}
        condition = state.timestep_cond
        return components.denoiser(
            sample,
            t,
            encoder_hidden_states=inputs["encoder_hidden_states"],
            timestep_cond=None if condition is None else torch.cat([condition] * repeats),
            cross_attention_kwargs=without_lora_scale(components.denoiser, state.cross_attention_kwargs),
            added_cond_kwargs=added or None,
            class_labels=self.class_labels(state, sample),
            return_dict=False,
            **residuals,
            **features,
        )[0]

    def class_labels(self, state: BlockView, sample: Tensor) -> Tensor | None:
        """The class of each row, for a denoiser that knows classes."""
        return None

    def added_conditions(self, inputs: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """Conditions that are added to the time embedding."""
        return None

    def residuals(
        self, components: Components, state: BlockView, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        """What a ControlNet adds to the denoiser's skips."""
        return {}


class PredictWithControl(SteeredByControl, PredictWithUNet):
    """The same, steered by a ControlNet (arXiv:2302.05543)."""

    expected_components = [*PredictWithUNet.expected_components, CONTROLNET]
    inputs = [*PredictWithUNet.inputs, *CONTROL]

    def residuals(
        self, components: Components, state: BlockView, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        nets = nets_of(components.controlnet)
        scales = self.scales(components, state)
        guess = state.guess_mode or nets[0].config.global_pool_conditions
        rows = len(state.prompt_embeds)
        if guess and components.guider.is_unconditional and len(sample) == rows:
            return {}
        # guessing, the nets see the branch with the prompt alone: it comes last
        seen = (sample[-rows:] if guess else sample)[:, : nets[0].config.in_channels]
        told = {name: value[-len(seen) :] for name, value in inputs.items()}
        down, mid = MultiControlNetModel(nets)(
            seen,
            t,
            told["encoder_hidden_states"],
            [torch.cat([pixels] * (len(seen) // rows)) for pixels in state.control_pixels],
            scales,
            added_cond_kwargs=self.added_conditions(told),
            guess_mode=guess,
            return_dict=False,
        )
        if len(seen) < len(sample):
            down = [_with_zeros(one, len(sample)) for one in down]
            mid = _with_zeros(mid, len(sample))
        return {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}


def _with_zeros(rows: Tensor, total: int) -> Tensor:
    return torch.cat([rows.new_zeros(total - len(rows), *rows.shape[1:]), rows])


class AutoPredict(AutoPipelineBlocks):
    """With a ControlNet where there is a control picture."""

    block_classes = [PredictWithControl, PredictWithUNet]
    block_names = ["with_control", "plain"]
    block_trigger_inputs = ["control_image", None]


def unet_table(text_encoder: Block, **parts: Block | None) -> dict[str, Block]:
    """The blocks of a family of UNets in their order: the shared ones, and its own in their places."""
    shared: dict[str, Block | None] = {
        "guidance": SetUNetGuidance,
        "text_encoder": text_encoder,
        "ip_adapter": AutoImagePrompt,
        "embed_guidance": EmbedGuidance,
        "control": AutoControl,
        "adapter": AutoAdapter,
        "start": AutoStart,
        "sizes": None,  # of a family whose denoiser is told them
        "denoise": DenoiseOrPaint.with_parts(predict=AutoPredict),
        "decode": Decode,
        "safety": None,  # of a family that comes with a checker
        "paste_crop": AutoPasteCrop,
    }
    return {name: part for name, part in {**shared, **parts}.items() if part is not None}


class UNetPipelineBlocks(SequentialPipelineBlocks):
    """What the families of UNets have in common: who plays which role, and what they can be asked for."""

    roles = played_by(ComponentSpec("unet", UNet2DConditionModel))
    workflows = steered(FROM_TEXT | FROM_PICTURES | PAINTING)

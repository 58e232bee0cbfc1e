"""Twice the size, in latents: a denoiser on Karras's scales (arXiv:2206.00364, table 1) reads the small latents."""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

from ...blocks import BlockView, InputParam, SequentialPipelineBlocks, needs
from ...errors import InputError
from ...guiders import Condition
from ..common.beside import PrepareLatentsBeside
from ..common.denoise import Denoise, Predict
from ..common.guidance import SetGuidance
from ..common.parts import SCHEDULER, Components
from ..common.prompts import EncodeText, as_lists, per_picture
from ..common.start import EncodeImage, to_latents
from ..common.timesteps import SetTimesteps
from .blocks import StableDiffusionBlocks
from .encoders import EncodePrompt

Tensor = torch.Tensor
POOLED = ("pooled_prompt_embeds", "negative_pooled_prompt_embeds")
NO_NOISE = 64  # ones, and as many zeros: how the denoiser is told that the small latents have no noise


class EncodePromptPooled(EncodeText):
    """Prompts to CLIP's last hidden states before its last norm, and to its pooled vector."""

    expected_components = EncodePrompt.expected_components
    inputs = [
        *EncodeText.inputs,
        *[InputParam.template(name, required=False, given=True) for name in POOLED],
        "guidance_scale",
    ]
    outputs = [*EncodeText.outputs, *POOLED]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        for name in ("", "negative_"):
            if (inputs[f"{name}prompt_embeds"] is None) != (inputs[f"{name}pooled_prompt_embeds"] is None):
                raise InputError(
                    f"'{name}prompt_embeds' and '{name}pooled_prompt_embeds' belong together: give both, or neither."
                )

    def __call__(self, components: Components, state: BlockView) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        if state.guidance_scale == 0:  # as published: without any guidance, no prompt either
            prompts = [""] * len(prompts)
        given = {"": prompts, "negative_": negatives if components.guider.needs_unconditional else None}
        for name, texts in given.items():
            hidden, pooled = state[f"{name}prompt_embeds"], state[f"{name}pooled_prompt_embeds"]
            if texts is None:
                hidden = pooled = None
            elif hidden is None:
                hidden, pooled = self.encoded(components, texts)
            for kind, rows in (("prompt_embeds", hidden), ("pooled_prompt_embeds", pooled)):
                made = None if rows is None else per_picture(rows, state.num_images_per_prompt)
                setattr(state, f"{name}{kind}", made)

    @staticmethod
    def encoded(components: Components, texts: list[str]) -> tuple[Tensor, Tensor]:
        encoder, tokenizer = components.text_encoder, components.tokenizer
        room = {"padding": "max_length", "max_length": tokenizer.model_max_length, "truncation": True}
        ids = tokenizer(texts, **room, return_tensors="pt").input_ids.to(encoder.device)
        output = encoder(ids, output_hidden_states=True)
        return output.hidden_states[-1], output.pooler_output


class EnlargeLatents(EncodeImage):
    """The small picture's latents at twice the size."""

    def __call__(self, components: Components, state: BlockView) -> None:
        small = to_latents(components, self.pixels(components, state), state)
        state.image_latents = interpolate(small, scale_factor=2, mode="nearest")


class StartFromSmallLatents(SequentialPipelineBlocks):
    """The whole grid, from noise, with the small picture's latents beside it."""

    block_classes = [SetTimesteps, EnlargeLatents, PrepareLatentsBeside]
    block_names = ["timesteps", "picture", "latents"]


class PredictOnKarrasScales(Predict):
    """The denoiser's prediction of the clean latents for each branch, and the guider's mix of them."""

    expected_components = [*Predict.expected_components, SCHEDULER]
    inputs = [
        *Predict.inputs,
        *needs("latents", "image_latents", "pooled_prompt_embeds"),
        "negative_pooled_prompt_embeds",
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        if not hasattr(components.scheduler, "sigmas"):
            raise InputError(
                f"This model is told noise levels, which {type(components.scheduler).__name__} has not. "
                "Give it EulerDiscreteScheduler."
            )

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        pooled = state.pooled_prompt_embeds, state.negative_pooled_prompt_embeds
        return {**super().conditions(state), "pooled": pooled, "beside": state.image_latents}

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        sigma = components.scheduler.sigmas[components.guider.get_state()["step"]].to(state.latents)
        pooled = inputs["pooled"]
        without_noise = torch.cat([torch.ones(len(pooled), NO_NOISE), torch.zeros(len(pooled), NO_NOISE)], dim=1)
        predicted = components.denoiser(
            torch.cat([self.sample(state, inputs, repeats), inputs["beside"]], dim=1),
            sigma.log() / 4,
            encoder_hidden_states=inputs["encoder_hidden_states"],
            timestep_cond=torch.cat([without_noise.to(pooled), pooled], dim=1),
            return_dict=False,
        )[0]
        spread = sigma**2 + 1
        noisy = torch.cat([state.latents] * repeats)
        return noisy / spread + sigma / spread**0.5 * predicted[:, :-1]  # the last channel, a variance, has no use


class LatentUpscaleBlocks(StableDiffusionBlocks):
    """Makes a picture, or its latents, twice as large."""

    pipeline_class_name = "StableDiffusionLatentUpscalePipeline"
    block_classes = StableDiffusionBlocks.table(
        guidance=SetGuidance, text_encoder=EncodePromptPooled, start=StartFromSmallLatents,
        denoise=Denoise.with_parts(predict=PredictOnKarrasScales),
        embed_guidance=None, ip_adapter=None, control=None, adapter=None, safety=None, paste_crop=None,
    )  # fmt: skip
    outputs = ["images"]
    workflows = {"upscaling": ["image"]}

"""A small real pipeline for the tests: tiny torch models, a real scheduler and a real guider, in blocks."""

from typing import Any

import torch
from torch import nn

from lockstep import ClassifierFreeGuidance, DDIMScheduler, EulerAncestralDiscreteScheduler
from lockstep.blocks import (
    AutoPipelineBlocks,
    ComponentSpec,
    ConfigSpec,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
    randn_tensor,
)
from lockstep.configuration import ConfigMixin, register_to_config
from lockstep.errors import InputError
from lockstep.models.modeling import ModelMixin
from lockstep.schedulers import SchedulerMixin

WIDTH = 6


class TinyEncoder(ModelMixin, ConfigMixin):
    """Letters to vectors."""

    @register_to_config
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.table = nn.Embedding(128, width)
        self.calls = 0

    def forward(self, texts: list[str]) -> torch.Tensor:
        self.calls += 1
        return torch.stack([self.table(torch.tensor([ord(c) % 128 for c in text or " "])).mean(0) for text in texts])


class TinyDenoiser(ModelMixin, ConfigMixin):
    """Latents, time and condition to a prediction."""

    @register_to_config
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.first = nn.Linear(4 * 4 + width + 1, 32)
        self.last = nn.Linear(32, 4 * 4)
        self.calls = 0

    def forward(self, latents: torch.Tensor, t: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        time = (t.to(latents.dtype) / 1000).expand(len(latents), 1)
        hidden = torch.cat([latents.flatten(1), condition, time], dim=1)
        # each row by itself, so that a row of a batch is computed exactly as it is alone
        rows = [self.last(torch.tanh(self.first(row[None]))) for row in hidden]
        return torch.cat(rows).reshape(latents.shape)


class TinyDecoder(ModelMixin, ConfigMixin):
    """Latents to pixels and back."""

    @register_to_config
    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.out = nn.Conv2d(1, channels, 3, padding=1)
        self.back = nn.Conv2d(channels, 1, 3, padding=1)
        self.calls = 0

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.cat([self.out(one[None]) for one in latents.to(self.out.weight.dtype)])

    def encode(self, image: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.back(image)


ENCODER = ComponentSpec("text_encoder", TinyEncoder)
DENOISER = ComponentSpec("denoiser", TinyDenoiser)
DECODER = ComponentSpec("decoder", TinyDecoder)
SCHEDULER = ComponentSpec("scheduler", SchedulerMixin)
GUIDER = ComponentSpec(
    "guider", ClassifierFreeGuidance, config={"guidance_scale": 3.0}, default_creation_method="from_config"
)


class Encode(ModularPipelineBlocks):
    """Prompts to embeddings, one row per picture."""

    expected_components = [ENCODER]
    inputs = ["prompt", "negative_prompt", "num_images_per_prompt"]
    outputs = ["prompt_embeds", "negative_prompt_embeds"]

    def __call__(self, components: Any, state: Any) -> Any:
        prompts = [state.prompt] if isinstance(state.prompt, str) else state.prompt
        count = state.num_images_per_prompt
        state.prompt_embeds = components.text_encoder(prompts).repeat_interleave(count, dim=0)
        negative = components.text_encoder([state.negative_prompt or ""] * len(prompts))
        state.negative_prompt_embeds = negative.repeat_interleave(count, dim=0)
        return components, state


class SetTimesteps(ModularPipelineBlocks):
    """The scheduler's grid."""

    expected_components = [SCHEDULER]
    inputs = [InputParam.template("num_inference_steps", default=4), "timesteps"]
    outputs = ["timesteps"]

    def __call__(self, components: Any, state: Any) -> None:
        components.scheduler.set_timesteps(state.num_inference_steps)
        state.timesteps = components.scheduler.timesteps


class PrepareLatents(ModularPipelineBlocks):
    """Noise, one draw per picture."""

    expected_components = [SCHEDULER]
    expected_configs = [ConfigSpec("latent_size", default=4)]
    inputs = [*needs("prompt_embeds", "timesteps"), "generator", "latents", "height"]
    outputs = ["latents"]

    def check(self, components: Any, inputs: Any) -> None:
        if inputs.height is not None and inputs.height > 64:
            raise InputError(f"'height' can be 64 at most here, got {inputs.height}.")

    def __call__(self, components: Any, state: Any) -> None:
        shape = (len(state.prompt_embeds), 1, components.latent_size, components.latent_size)
        noise = state.latents if state.latents is not None else randn_tensor(shape, state.generator)
        state.latents = noise * components.scheduler.init_noise_sigma


class EncodeImage(ModularPipelineBlocks):
    """A picture to latents."""

    expected_components = [DECODER]
    inputs = [InputParam.template("image", required=True), "strength"]
    outputs = ["image_latents"]

    def __call__(self, components: Any, state: Any) -> None:
        state.image_latents = components.decoder.encode(state.image) * state.strength


class MixImage(ModularPipelineBlocks):
    """The picture's latents under the noise."""

    inputs = needs("latents", "image_latents")
    outputs = ["latents"]

    def __call__(self, components: Any, state: Any) -> None:
        state.latents = state.latents + state.image_latents


class AutoImage(AutoPipelineBlocks):
    """Only where there is a picture."""

    block_classes = [EncodeImage]
    block_names = ["encode"]
    block_trigger_inputs = ["image"]


class AutoMix(AutoPipelineBlocks):
    """Only where there are a picture's latents."""

    block_classes = {"mix": MixImage}
    block_trigger_inputs = ["image_latents"]


class Predict(ModularPipelineBlocks):
    """The guided prediction."""

    expected_components = [DENOISER, SCHEDULER, GUIDER]
    inputs = [*needs("latents", "timesteps", "prompt_embeds", "negative_prompt_embeds"), "guidance_scale"]
    outputs = ["noise_pred"]

    def __call__(self, components: Any, state: Any, i: int, t: torch.Tensor) -> None:
        guider = components.guider
        if state.guidance_scale is not None:
            guider.guidance_scale = state.guidance_scale
        guider.set_state(step=i, num_inference_steps=len(state.timesteps), timestep=t)
        scaled = components.scheduler.scale_model_input(state.latents, t)
        batches = guider.prepare_inputs({"condition": (state.prompt_embeds, state.negative_prompt_embeds)})
        for batch in batches:
            guider.prepare_models(components.denoiser)
            with components.denoiser.cache_context(getattr(batch, guider._identifier_key)):
                batch.noise_pred = components.denoiser(scaled, t, batch.condition)
            guider.cleanup_models(components.denoiser)
        state.noise_pred = guider(batches)[0]


class Step(ModularPipelineBlocks):
    """The scheduler's step."""

    expected_components = [SCHEDULER]
    inputs = [*needs("noise_pred", "latents"), "generator"]
    outputs = ["latents"]

    def __call__(self, components: Any, state: Any, i: int, t: torch.Tensor) -> None:
        options = {"generator": state.generator} if "Ancestral" in type(components.scheduler).__name__ else {}
        state.latents = components.scheduler.step(state.noise_pred, t, state.latents, **options)[0]


class Denoise(LoopSequentialPipelineBlocks):
    """Predict and step, once per timestep."""

    block_classes = [Predict, Step]
    loop_over = "timesteps"


class Decode(ModularPipelineBlocks):
    """Latents to pixels."""

    expected_components = [DECODER]
    inputs = needs("latents")
    outputs = [OutputParam("images", torch.Tensor, "The pictures.")]
    upcast_on_nonfinite = ("decoder",)

    def __call__(self, components: Any, state: Any) -> None:
        state.images = components.decoder.decode(state.latents)


class TinyBlocks(SequentialPipelineBlocks):
    """Text to pixels, or text and picture to pixels."""

    block_classes = [Encode, SetTimesteps, PrepareLatents, AutoImage, AutoMix, Denoise, Decode]
    block_names = ["text_encoder", "set_timesteps", "prepare", "image_encoder", "mix", "denoise", "decode"]
    outputs = [OutputParam("images", torch.Tensor, "The pictures.")]
    workflows = {"text2image": [], "image2image": ["image"]}


def models(seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    parts = {"text_encoder": TinyEncoder(), "denoiser": TinyDenoiser(), "decoder": TinyDecoder()}
    return {name: part.eval() for name, part in parts.items()} | {"scheduler": DDIMScheduler()}


def pipeline(blocks: Any = TinyBlocks, **parts: Any) -> Any:
    pipe = blocks().init_pipeline(**{**models(), **parts})
    pipe.set_progress_bar_config(disable=True)
    return pipe


def ancestral() -> EulerAncestralDiscreteScheduler:
    return EulerAncestralDiscreteScheduler()


def forwards(pipe: Any) -> int:
    return sum(getattr(part, "calls", 0) for part in pipe.components.values())

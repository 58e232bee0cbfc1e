"""What Wan reads besides noise and text: the first (and last) frame, as latents and as an image encoder sees it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from ...blocks import BlockView, ComponentSpec, ConfigSpec, InputParam, ModularPipelineBlocks, needs
from ...errors import InputError
from ...models.vision.clip_pictures import CLIPImageProcessor
from ...models.vision.clip_vision import CLIPVisionModel
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, Components
from ..common.prompts import check_shapes
from ..common.sizes import repeated
from ..common.video import (
    FRAMES,
    HEIGHT,
    WIDTH,
    PrepareVideoLatents,
    VideoComponents,
    latent_shape,
    video_processor,
    video_size,
)
from ..common.workflows import where_given

Tensor = torch.Tensor
EXPAND = ConfigSpec("expand_timesteps", default=False)  # a time for each token: what is given has no noise
IMAGE = InputParam.template("image", required=True, description="The first frame.")
ENCODER, READER = "image_encoder", "image_processor"


class PrepareLatentsForImage(PrepareVideoLatents):
    """Noise of the wanted length and size; the denoiser has room for a first frame beside it."""

    expected_configs = [EXPAND]

    def check_channels(self, components: Components) -> None:
        reads, latents = components.denoiser.config.in_channels, components.autoencoder.latent_channels
        wanted = latents if components.expand_timesteps else 2 * latents + components.autoencoder.temporal_scale_factor
        if reads != wanted:
            raise InputError(
                f"This denoiser reads {reads} channels; to start from an 'image' it would read {wanted}. Leave 'image' "
                "away, or load a model that was made for it (I2V, TI2V)."
            )


class EncodeImageTokens(ModularPipelineBlocks):
    """First and last frame as the image encoder sees them, for denoisers that read that (2.1)."""

    expected_components = [
        ComponentSpec(ENCODER, CLIPVisionModel, optional=True),
        ComponentSpec(READER, CLIPImageProcessor, optional=True),
        DENOISER_OUTLINE,
    ]
    inputs = [
        IMAGE,
        "last_image",
        *needs("prompt_embeds"),
        InputParam.template("image_embeds", required=False, given=True),
    ]
    outputs = ["image_embeds"]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return [] if inputs.image_embeds is None else [ENCODER, READER]

    def check(self, components: Components, inputs: BlockView) -> None:
        if components.denoiser.config.image_dim is None:
            if inputs.image_embeds is not None:
                raise InputError("'image_embeds' are for denoisers with an image_dim in their config; this has none.")
            return
        check_shapes(components.denoiser, inputs, ["image_embeds"])
        knows_both = components.denoiser.config.pos_embed_seq_len is not None
        if knows_both != (inputs.last_image is not None):
            asks = "a first and a last frame: give" if knows_both else "a first frame: leave away"
            raise InputError(f"This denoiser was taught the tokens of {asks} 'last_image'.")
        missing = [name for name in (ENCODER, READER) if getattr(components, name) is None]
        if missing and inputs.image_embeds is None:
            raise InputError(
                f"This denoiser reads the image's tokens: that needs {' and '.join(missing)}, which this pipeline does "
                "not have. Load the pipeline with them, or give ready 'image_embeds'."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        if components.denoiser.config.image_dim is None:
            state.image_embeds = None
            return
        columns = [one for one in (state.image, state.last_image) if one is not None]
        embeds = state.image_embeds
        if embeds is None:
            rows = torch.stack([self.tokens(components, listed(column)) for column in columns], dim=1)
        else:
            rows = embeds.unflatten(0, (-1, len(columns)))
        rows = repeated(rows, len(state.prompt_embeds), "image")
        state.image_embeds = rows.flatten(0, 1)

    @staticmethod
    def tokens(components: Components, pictures: list[Any]) -> Tensor:
        seen = components.image_processor(pictures, return_tensors="pt").pixel_values
        encoder = components.image_encoder
        return encoder(seen.to(encoder.device, encoder.dtype), output_hidden_states=True).hidden_states[-2]


class PrepareCondition(ModularPipelineBlocks):
    """First and last frame as latents; what the video has between them is grey, and a mask says so."""

    expected_components = [AUTOENCODER, DENOISER_OUTLINE]
    expected_configs = [EXPAND]
    inputs = [IMAGE, "last_image", *needs("latents"), HEIGHT, WIDTH, FRAMES]
    outputs = ["condition", "first_frame_mask"]

    def check(self, components: Components, inputs: BlockView) -> None:
        if components.expand_timesteps and inputs.last_image is not None:
            raise InputError("This model takes a first frame, no last one; leave 'last_image' away.")
        if inputs.last_image is not None and video_size(components, inputs, inputs.num_frames)[0] < 2:
            raise InputError("A video with a first and a last frame has 5 frames at least; raise 'num_frames'.")
        for name in ("image", "last_image"):
            if inputs[name] is not None:
                video_processor(components).preprocess(inputs[name], height=inputs.height, width=inputs.width)

    def __call__(self, components: VideoComponents, state: BlockView) -> None:
        frames, height, width = video_size(components, state, state.num_frames)
        vae, samples = components.autoencoder, len(state.latents)
        first, last = (self.pixels(components, one, height, width) for one in (state.image, state.last_image))
        given = 1 if components.expand_timesteps else frames
        video = first.new_zeros(*first.shape[:2], given, height, width)
        video[:, :, 0] = first
        if last is not None:
            video[:, :, -1] = last
        encoded = vae.encode(video.to(components.device, vae.dtype)).latent_dist.mode().float()
        latents = repeated(vae.normalize_latents(encoded), samples, "image")
        _, _, *sizes = latent_shape(components, state, samples, frames)
        mask = torch.zeros(samples, frames, *sizes[1:], device=components.device)
        mask[:, 0] = 1.0
        if last is not None:
            mask[:, -1] = 1.0
        state.first_frame_mask = None
        if components.expand_timesteps:
            state.condition = latents
            state.first_frame_mask = torch.ones(1, 1, *sizes, device=components.device)
            state.first_frame_mask[:, :, 0] = 0.0
            return
        time = vae.temporal_scale_factor
        mask = torch.cat([mask[:, :1].repeat_interleave(time, dim=1), mask[:, 1:]], dim=1)
        state.condition = torch.cat([mask.unflatten(1, (-1, time)).transpose(1, 2), latents], dim=1)

    @staticmethod
    def pixels(components: Components, picture: Any, height: int, width: int) -> Any:
        if picture is None:
            return None
        return video_processor(components).preprocess(picture, height=height, width=width).float()


class KeepFirstFrame(ModularPipelineBlocks):
    """The first frame as it was given, where the denoiser did not carry it along."""

    inputs = [*needs("latents"), "condition", "first_frame_mask"]
    outputs = ["latents"]

    def __call__(self, components: Components, state: BlockView) -> None:
        mask = state.first_frame_mask
        given = state.latents if mask is None else (1 - mask) * state.condition + mask * state.latents
        state.latents = given


AutoKeepFirstFrame = where_given("image", keep=KeepFirstFrame)


def listed(pictures: Any) -> list[Any]:
    return list(pictures) if isinstance(pictures, (list, tuple)) else [pictures]

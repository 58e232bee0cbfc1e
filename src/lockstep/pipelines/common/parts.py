"""The components that shared blocks use. Roles are played by what a family names: `unet` or `transformer`, `vae`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...blocks import ComponentSpec, ComponentsView, SequentialPipelineBlocks
from ...guiders import ClassifierFreeGuidance
from ...models.adapters.multi import MultiAdapter
from ...models.adapters.t2i_adapter import T2IAdapter
from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.autoencoders.of_others import AutoencoderOfOthers
from ...models.autoencoders.parts import AutoencoderMixin
from ...models.modeling import ModelMixin
from ...models.vision.clip_vision import CLIPVisionModelWithProjection
from ...schedulers import SchedulerMixin

DENOISER = ComponentSpec("denoiser", ModelMixin, role=True)
AUTOENCODER = ComponentSpec("autoencoder", AutoencoderMixin, role=True)
# Sizes and channels follow from configs: who asks for no more than these loads no weights.
DENOISER_OUTLINE = replace(DENOISER, outline=True)
AUTOENCODER_OUTLINE = replace(AUTOENCODER, outline=True, optional=True)

# What is given beside a prompt, where it is given.
ADAPTER = ComponentSpec("adapter", T2IAdapter | MultiAdapter, optional=True)
IMAGE_ENCODER = ComponentSpec("image_encoder", CLIPVisionModelWithProjection, optional=True)

SCHEDULER = ComponentSpec("scheduler", SchedulerMixin)
GUIDER = ComponentSpec("guider", ClassifierFreeGuidance, default_creation_method="from_config")


PICTURES = AutoencoderKL | AutoencoderTiny | AutoencoderOfOthers


def played_by(denoiser: ComponentSpec, autoencoder: Any = PICTURES) -> dict[str, ComponentSpec]:
    """The roles of a family; its pictures come from the field's autoencoders where it has none of its own."""
    return {"denoiser": denoiser, "autoencoder": ComponentSpec("vae", autoencoder)}


class TransformerBlocks(SequentialPipelineBlocks):
    """A family whose pictures come from a transformer: `face` is its pipeline's name, `transformer` who denoises, and
    `autoencoder` who makes pixels, where that is one of its own."""

    outputs = ["images"]

    def __init_subclass__(
        cls, face: str = "", transformer: type | None = None, autoencoder: Any = PICTURES, **kwargs: Any
    ) -> None:
        if face:
            cls.pipeline_class_name = face
        if transformer is not None:
            cls.roles = played_by(ComponentSpec("transformer", transformer), autoencoder)
        super().__init_subclass__(**kwargs)


class Components(ComponentsView):
    """The same to a type checker: what a shared block gets as `components`, as far as it declares it."""

    denoiser: ModelMixin
    autoencoder: AutoencoderKL | AutoencoderTiny
    scheduler: SchedulerMixin
    guider: ClassifierFreeGuidance

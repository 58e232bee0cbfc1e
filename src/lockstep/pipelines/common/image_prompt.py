"""Pictures as a prompt (IP-Adapter, arXiv:2308.06721): CLIP's encodings of them, for the adapters inside the UNet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from ...blocks import AutoPipelineBlocks, BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from ...models.adapters.image_projections import MultiIPAdapterImageProjection, reads_faces
from ...models.adapters.ip_adapter import MASKS
from .guidance import give_scale
from .parts import DENOISER, GUIDER, IMAGE_ENCODER, Components
from .safety import READER
from .sizes import repeated

Tensor = torch.Tensor
Pair = tuple[Tensor, Tensor]  # with the picture, and without it
NAME, READY = "ip_adapter_image", "ip_adapter_image_embeds"
WITH, WITHOUT = "ip_adapter_embeds", "negative_ip_adapter_embeds"
MEANING = {
    WITH: "Encodings of the pictures of each IP-Adapter.",
    WITHOUT: "The same for the unconditional prediction.",
}
# a person may give them where no block makes them
IMAGE_PROMPTS = [InputParam(name, list[Tensor], description=text) for name, text in MEANING.items()]


class ReadImagePrompts(ModularPipelineBlocks):
    """Encodings for each IP-Adapter, one row per picture to make; a subclass says where they come from."""

    expected_components = [DENOISER, GUIDER]
    inputs = [*needs("prompt_embeds"), "cross_attention_kwargs", "height", "width"]
    outputs = [OutputParam(name, list[Tensor], text) for name, text in MEANING.items()]

    def check_masks(self, components: Components, inputs: BlockView, pictures: list[int]) -> None:
        """As far as they can be checked before a sample is there."""
        denoiser: Any = components.denoiser
        known = isinstance(inputs.height, int) and isinstance(inputs.width, int)
        size = (inputs.height, inputs.width) if known else None
        denoiser.check_masks((inputs.cross_attention_kwargs or {}).get(MASKS), pictures, size)

    def give(self, components: Components, state: BlockView, pairs: list[tuple[Tensor, Tensor | None]]) -> None:
        """Put the encodings of each adapter, (rows, pictures, …), where the prediction reads them."""
        samples, like = len(state.prompt_embeds), state.prompt_embeds
        columns = list(zip(*pairs, strict=True))
        state[WITH] = [repeated(rows, samples, READY).to(like) for rows in columns[0]]
        guided = components.guider.needs_unconditional
        state[WITHOUT] = [repeated(rows, samples, READY).to(like) for rows in columns[1]] if guided else None


class EncodeImagePrompts(ReadImagePrompts):
    """The pictures of IP-Adapters through CLIP's vision model."""

    expected_components = [*ReadImagePrompts.expected_components, IMAGE_ENCODER, READER]
    inputs = [InputParam.template(NAME, required=True), *ReadImagePrompts.inputs]

    def check(self, components: Components, inputs: BlockView) -> None:
        projections = require_adapters(components.denoiser, NAME)
        require_encoder(components.image_encoder, components.feature_extractor, projections)
        rows = pictures_of(inputs[NAME], projections.num_ip_adapters, components.image_encoder)
        self.check_masks(components, inputs, [len(row) for row in rows])

    def __call__(self, components: Components, state: BlockView) -> None:
        encoder, reader = components.image_encoder, components.feature_extractor
        pairs = encode_all(require_adapters(components.denoiser, NAME), encoder, reader, state[NAME])
        self.give(components, state, [(rows[None], negative[None]) for rows, negative in pairs])


class TakeImageEmbeds(ReadImagePrompts):
    """Encodings that are ready; with guidance, those of the unconditional prediction come first."""

    inputs = [
        InputParam.template(READY, required=True, given=True),
        *ReadImagePrompts.inputs,
        *[NAME, "guidance_scale"],
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs[NAME] is not None:
            raise InputError(f"{NAME!r} and {READY!r} were both given: the second is what the first is encoded to.")
        projections = require_adapters(components.denoiser, READY)
        pairs = split_ready(inputs[READY], will_guide(components, inputs.guidance_scale))
        projections.check([rows for rows, _ in pairs])
        self.check_masks(components, inputs, [rows.shape[1] for rows, _ in pairs])

    def __call__(self, components: Components, state: BlockView) -> None:
        self.give(components, state, split_ready(state[READY], components.guider.needs_unconditional))


class AutoImagePrompt(AutoPipelineBlocks):
    """Only where there are pictures for IP-Adapters, or their encodings."""

    block_classes = [TakeImageEmbeds, EncodeImagePrompts]
    block_names = ["ready", "encode"]
    block_trigger_inputs = [READY, NAME]


def will_guide(components: Components, scale: float | None) -> bool:
    """Whether a run with this scale predicts without the prompt too, asked before its guider has the scale."""
    guider = components.guider.fresh()
    give_scale(guider, scale)
    return components.denoiser.config["time_cond_proj_dim"] is None and guider.needs_unconditional


def require_adapters(denoiser: Any, name: str) -> MultiIPAdapterImageProjection:
    """The projections of the adapters in a UNet."""
    projections = getattr(denoiser, "image_projections", None)
    if projections is None:
        raise InputError(f"{name!r} needs an IP-Adapter: load one with pipe.load_ip_adapter(…) before the call.")
    return projections


def require_no_adapters(denoiser: Any) -> None:
    """Refuse a run without pictures of a UNet that wants some."""
    projections = getattr(denoiser, "image_projections", None)
    if projections is not None:
        raise InputError(
            f"This pipeline has {projections.num_ip_adapters} IP-Adapters loaded and was given no picture for them: "
            f"give {NAME!r} (or {READY!r}), or take them out with pipe.unload_ip_adapter()."
        )


def require_encoder(encoder: Any, reader: Any, projections: MultiIPAdapterImageProjection) -> None:
    """An image encoder whose encodings the adapters read."""
    for index, project in enumerate(projections.image_projection_layers):
        if reads_faces(project):
            raise InputError(
                f"IP-Adapter {index} is FaceID: it reads the vectors of a face recogniser, {project.width} wide, not "
                f"pictures. Give them as {READY!r}: (rows, faces, 1, {project.width}), with guidance zeros before them."
            )
    if encoder is None or reader is None:
        missing = "image_encoder" if encoder is None else "feature_extractor"
        raise InputError(
            f"{NAME!r} needs the component {missing!r}, which this pipeline does not have. load_ip_adapter brings it "
            f"from the adapter's folder; or give ready {READY!r}."
        )
    for index, project in enumerate(projections.image_projection_layers):
        key = "hidden_size" if project.reads_hidden_states else "projection_dim"
        if encoder.config[key] != project.width:
            raise InputError(
                f"IP-Adapter {index} reads encodings that are {project.width} wide, this image encoder's ({key}) are "
                f"{encoder.config[key]}. Load the encoder that belongs to the adapter."
            )


def pictures_of(value: Any, adapters: int, encoder: Any) -> list[list[Image.Image] | Tensor]:
    """The pictures of each adapter: PIL, or a tensor that is ready for the encoder."""
    rows = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(rows) != adapters:
        raise InputError(
            f"{NAME!r} wants a picture, or a list of pictures, for each of {adapters} IP-Adapters, got {len(rows)}. "
            "Several pictures for one adapter are a list in the list: [[first, second]]."
        )
    found: list[list[Image.Image] | Tensor] = []
    for row in rows:
        side, channels = encoder.config["image_size"], encoder.config["num_channels"]
        if isinstance(row, Tensor):
            batch = row[None] if row.ndim == 3 else row
            if tuple(batch.shape[1:]) != (channels, side, side):
                raise InputError(
                    f"{NAME!r}: a tensor is what the encoder reads, ({channels}, {side}, {side}) or a batch of it, got "
                    f"{tuple(row.shape)}. Give a PIL picture to have it prepared."
                )
            found.append(batch)
            continue
        several = list(row) if isinstance(row, (list, tuple)) else [row]
        wrong = [one for one in several if not isinstance(one, Image.Image)]
        if wrong or not several:
            got = type(wrong[0]).__name__ if wrong else "an empty list"
            raise InputError(f"{NAME!r} wants PIL pictures, or tensors that are ready for the encoder, got {got}.")
        found.append(several)
    return found


def encode_all(projections: MultiIPAdapterImageProjection, encoder: Any, reader: Any, value: Any) -> list[Pair]:
    """The encodings of each adapter's pictures, (pictures, …), and those that stand for no picture."""
    rows = pictures_of(value, projections.num_ip_adapters, encoder)
    pairs = zip(rows, projections.image_projection_layers, strict=True)
    return [encode_pictures(encoder, reader, row, bool(project.reads_hidden_states)) for row, project in pairs]


def encode_pictures(encoder: Any, reader: Any, pictures: Any, hidden_states: bool) -> Pair:
    """One vector for each picture and zeros, or the last hidden states but one, and those of a black picture."""
    pixels = pictures if isinstance(pictures, Tensor) else reader(pictures, return_tensors="pt").pixel_values
    pixels = pixels.to(encoder.device, encoder.dtype)
    if not hidden_states:
        vectors = encoder(pixels).image_embeds
        return vectors, torch.zeros_like(vectors)
    encoded, blank = (
        encoder(one, output_hidden_states=True).hidden_states[-2] for one in (pixels, torch.zeros_like(pixels))
    )
    return encoded, blank


def split_ready(embeds: Sequence[Tensor], guided: bool) -> list[tuple[Tensor, Tensor | None]]:
    """Each adapter's encodings with pictures, and before them, where guidance is on, those without."""
    pairs: list[tuple[Tensor, Tensor | None]] = []
    for index, rows in enumerate(embeds):
        if not bool(torch.isfinite(rows).all()):
            raise InputError(f"{READY!r}: tensor {index} has NaN or Inf in it.")
        if guided and len(rows) % 2:
            raise InputError(
                f"{READY!r}: with guidance, tensor {index} has the rows of the unconditional prediction before the "
                f"others, so their number is even; got {len(rows)}. prepare_ip_adapter_image_embeds makes both."
            )
        without, rows = rows.chunk(2) if guided else (None, rows)
        pairs.append((rows, without))
    return pairs

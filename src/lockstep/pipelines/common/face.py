"""The face of a pipeline that makes pictures from latents: previews, and the autoencoder's switches."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from PIL.Image import Image
from torch.nn.functional import interpolate

from ...blocks import SequentialPipelineBlocks
from ...errors import InputError
from ...guiders import ClassifierFreeGuidance
from ...images import VaeImageProcessor
from ..pipeline import DiffusionPipeline
from .prompts import ENCODED, MASKS
from .sizes import latent_channels, packed_side, size_step, unpacked

PREVIEW_SIDE = 32  # latents along the longer side of a preview


class Processor:
    """What makes tensors of pictures: the pipeline's own, or one that is put in its place; None gives its own back."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, pipe: Any, owner: type) -> Any:
        if pipe is None:
            return self
        if self.name in pipe.component_names:  # some families have a component of this name
            return pipe._load(self.name)
        given = pipe.given_processors.get(self.name)
        return VaeImageProcessor(vae_scale_factor=pipe.vae_scale_factor, **self.options) if given is None else given

    def __set__(self, pipe: Any, processor: Any) -> None:
        if processor is not None and not hasattr(processor, "preprocess"):
            raise InputError(f"{self.name!r} wants a method 'preprocess', {type(processor).__name__} has none.")
        kept = {name: held for name, held in pipe.given_processors.items() if name != self.name}
        pipe.given_processors = kept if processor is None else {**kept, self.name: processor}


class PicturePipeline(DiffusionPipeline):
    """A pipeline whose blocks name the autoencoder among their roles."""

    @property
    def _autoencoder(self) -> Any:
        name = self.assembly.players["autoencoder"][0]
        found = self.held(name)
        if found is None:
            raise InputError(f"This needs the component {name!r}, which this pipeline does not have.")
        return found

    def input_limits(self) -> dict[str, dict[str, int]]:
        """Sizes are multiples of what autoencoder and denoiser divide them by."""
        models: Any = SimpleNamespace(**{role: self.outline(names[0]) for role, names in self.assembly.players.items()})
        if None in (getattr(models, "autoencoder", None), getattr(models, "denoiser", None)):
            return {}
        step = size_step(models)
        return {name: {"minimum": step, "multiple_of": step} for name in ("height", "width")}

    @property
    def vae_scale_factor(self) -> int:
        """Pixels per latent along a side."""
        return self._autoencoder.spatial_scale_factor

    image_processor = Processor()
    mask_processor = Processor(do_normalize=False, do_binarize=True, do_convert_grayscale=True)
    control_image_processor = Processor(do_normalize=False, do_convert_rgb=True)

    @torch.no_grad()
    def preview(self, latents: torch.Tensor) -> list[Image]:
        """Small pictures of latents on their way: shrunk where they are large, then through the autoencoder."""
        vae, latents = self._autoencoder, self._unpacked(latents)
        latents = self._side_by_side(latents)
        largest = max(latents.shape[-2:])
        if largest > PREVIEW_SIDE:
            latents = interpolate(latents.float(), scale_factor=PREVIEW_SIDE / largest, mode="area")
        latents = latents / latents.float().std().clamp(min=1.0)  # some schedulers carry the noise at its full size
        decoded = vae.decode(vae.denormalize_latents(latents.to(vae.dtype)), return_dict=False)[0]
        pictures: Any = VaeImageProcessor().postprocess(decoded.float(), output_type="pil")
        return pictures

    def _side_by_side(self, latents: torch.Tensor) -> torch.Tensor:
        """The things of a scene, whose latents lie as channels, beside each other."""
        parts = latents.shape[1] // latent_channels(self.outline(self.assembly.players["denoiser"][0]))
        return torch.cat(latents.chunk(parts, dim=1), dim=-1) if parts > 1 else latents

    def _unpacked(self, latents: torch.Tensor) -> torch.Tensor:
        """Latents that lie as tokens as the autoencoder takes them: of the run's size, else of a square."""
        denoiser = self.outline(self.assembly.players["denoiser"][0])
        if packed_side(denoiser) == 1:
            return latents
        run, factor = self._current.run, self._autoencoder.spatial_scale_factor
        square = math.isqrt(latents.shape[1]) * packed_side(denoiser)
        given = [None if run is None else run.state.get(name) for name in ("height", "width")]
        rows, columns = (square if side is None else side // factor for side in given)
        return unpacked(denoiser, latents, rows, columns)

    def encoded(
        self,
        pictures: int,
        guided: bool,
        lora_scale: float | None,
        given: dict[str, Any],
        negative: dict[str, Any],
        before: tuple[str, ...] = (),
    ) -> tuple[Any, ...]:
        """What the text encoding makes of prompts, in the published order of `encode_prompt`.

        `before` are blocks that make something which it reads.
        """
        if lora_scale is not None:
            self.use_lora_scale({"cross_attention_kwargs": {"scale": lora_scale}})
        block = self.blocks.block_at("text_encoder")
        blocks = {**{name: self.blocks.block_at(name) for name in before}, "text_encoder": block}
        encoding = DiffusionPipeline(blocks=SequentialPipelineBlocks(blocks))
        held = {name: getattr(self, name) for name in encoding.component_names if name != "guider"}
        encoding.update_components(**held, guider=ClassifierFreeGuidance(7.5 if guided else 1.0))
        encoding.update_components(**{name: self._config[name] for name in encoding._config})
        encoding.set_progress_bar_config(disable=True)
        names = [name for name in (*ENCODED, *MASKS) if name in block.output_names]
        found = encoding(**given, **(negative if guided else {}), num_images_per_prompt=pictures, output=names)
        return tuple(found[name] for name in names)

    def fuse_qkv_projections(self, unet: bool = True, vae: bool = True) -> None:
        """Compute query, key and value with one matrix in each attention of the denoiser and of the autoencoder."""
        for model in self._chosen(unet, vae):
            model.fuse_qkv_projections()

    def unfuse_qkv_projections(self, unet: bool = True, vae: bool = True) -> None:
        """Compute them one by one again."""
        for model in self._chosen(unet, vae):
            model.unfuse_qkv_projections()

    def _chosen(self, denoiser: bool, autoencoder: bool) -> list[Any]:
        roles = [role for role, wanted in (("denoiser", denoiser), ("autoencoder", autoencoder)) if wanted]
        return [self.held(self.assembly.players[role][0]) for role in roles]

    def enable_vae_slicing(self) -> None:
        """Decode the pictures of a batch one by one."""
        self._autoencoder.enable_slicing()

    def disable_vae_slicing(self) -> None:
        """Decode a batch at once."""
        self._autoencoder.disable_slicing()

    def enable_vae_tiling(self) -> None:
        """Encode and decode a large picture tile by tile."""
        self._autoencoder.enable_tiling()

    def disable_vae_tiling(self) -> None:
        """Encode and decode a picture whole."""
        self._autoencoder.disable_tiling()

"""A small call of a model with noise in place of what it usually sees, made from its config: to measure it by."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ..errors import InputError
from ..kernels.operators import ByTorch

Tensor = torch.Tensor
Call = Callable[[nn.Module], Tensor]
Config = Mapping[str, Any]
Noise = Callable[..., Tensor]

WORDS = 77


class TextCall:
    """A call of a UNet that reads what a text encoder says of some words (one row of ids).

    Torch computes the text, so that it is the same whatever the speed of the encoder is.
    """

    def __init__(self, unet: nn.Module, encoder: nn.Module, words: Tensor) -> None:
        self.unet, self.encoder, self.words = unet, encoder, words

    @functools.cached_property
    def text(self) -> Tensor:
        """What the encoder says."""
        with torch.no_grad(), ByTorch():
            place = next(self.encoder.parameters()).device
            said: Tensor = self.encoder(self.words.to(place)).last_hidden_state
        return said

    @functools.cached_property
    def _call(self) -> Call:
        call = example_call(self.unet, text=self.text)
        assert call is not None
        return call

    def __call__(self, model: nn.Module) -> Tensor:
        return self._call(model)


def text_call(model: nn.Module, encoder: nn.Module, words: Tensor) -> TextCall | None:
    """A call of a UNet with the text that it was trained to read; None for other models and other texts."""
    if type(model).__name__ != "UNet2DConditionModel" or type(encoder).__name__ != "CLIPTextModel":
        return None
    alike = model.config["cross_attention_dim"] == encoder.config["hidden_size"]  # type: ignore[index]
    return TextCall(model, encoder, words) if alike else None


def checked_example(example: Call | None) -> Call | None:
    """An example of the user's, which is to return a tensor."""
    if example is None or isinstance(example, TextCall):
        return example
    if not callable(example):
        raise InputError(f"'example' wants a function that calls the model it is given, got {example!r}.")
    given = example

    def call(model: nn.Module) -> Tensor:
        result = given(model)
        if not isinstance(result, Tensor):
            raise InputError(
                "'example' wants a function that returns a tensor, the model's result to measure by "
                f"(lambda model: model(…).sample); this one returned {type(result).__name__}."
            )
        return result

    return call


def example_call(model: nn.Module, size: int | None = None, batch: int = 1, text: Tensor | None = None) -> Call | None:
    """A call of a model of this class, on latents of `size`; None where the class is not known here.

    `text` (one row) is what a UNet reads in place of noise: attention of trained weights to noise can be so sharp that
    fp32's rounding decides it.
    """
    make = EXAMPLES.get(type(model).__name__)
    if make is None:
        return None
    config: Config = model.config  # type: ignore[assignment]
    random = torch.Generator().manual_seed(0)
    weight = next(model.parameters())

    def noise(*shape: int) -> Tensor:
        return torch.randn(batch, *shape, dtype=torch.float32, generator=random).to(weight.device, weight.dtype)

    if text is not None and make is _unet:
        return _unet(config, noise, size, text.to(weight.device, weight.dtype).expand(batch, -1, -1))
    return make(config, noise, size)


def _unet(config: Config, noise: Noise, size: int | None, text: Tensor | None = None) -> Call:
    side = size or min(32, config["sample_size"] or 32)
    width = config["cross_attention_dim"]
    sample = noise(config["in_channels"], side, side)
    if text is None and width is not None:
        text = noise(WORDS, width if isinstance(width, int) else width[0])
    added: dict[str, Tensor] = {}
    if config["addition_embed_type"] == "text_time":
        places = 6  # size, crop and wanted size, as SDXL is told them
        pooled = config["projection_class_embeddings_input_dim"] - places * config["addition_time_embed_dim"]
        added = {"text_embeds": noise(pooled), "time_ids": torch.full((len(sample), places), 8.0 * side).to(sample)}
    return lambda model: model(sample, torch.tensor(501), text, added_cond_kwargs=added or None).sample


def _autoencoder(config: Config, noise: Noise, size: int | None) -> Call:
    latents = noise(config["latent_channels"], size or 16, size or 16)
    return lambda model: model.decode(latents).sample  # type: ignore[operator]


def _flux(config: Config, noise: Noise, size: int | None) -> Call:
    side = size or 16
    picture, text = noise(side * side, config["in_channels"]), noise(WORDS, config["joint_attention_dim"])
    pooled = noise(config["pooled_projection_dim"])
    rows, columns = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    places = torch.stack([torch.zeros_like(rows), rows, columns], -1).flatten(0, 1).to(picture)
    time = torch.full((len(picture),), 0.5).to(picture)
    guidance = torch.full((len(picture),), 3.5).to(picture) if config["guidance_embeds"] else None
    ids = {"img_ids": places, "txt_ids": torch.zeros(WORDS, 3).to(picture)}
    return lambda model: model(picture, text, pooled, time, guidance=guidance, **ids).sample


def _sd3(config: Config, noise: Noise, size: int | None) -> Call:
    side = size or min(32, config["sample_size"])
    latents, text = noise(config["in_channels"], side, side), noise(WORDS, config["joint_attention_dim"])
    pooled, time = noise(config["pooled_projection_dim"]), torch.full((len(latents),), 501.0, dtype=torch.float32)
    return lambda model: model(latents, text, pooled, time).sample


def _wan(config: Config, noise: Noise, size: int | None) -> Call:
    video = noise(config["in_channels"], 2, size or 16, size or 16)
    text, time = noise(WORDS, config["text_dim"]), torch.full((len(video),), 501)
    return lambda model: model(video, time, text).sample


def _clip_text(config: Config, noise: Noise, size: int | None) -> Call:
    length = min(WORDS, config["max_position_embeddings"])
    words = (noise(length).float().abs() * 1e4).long() % config["vocab_size"]
    return lambda model: model(words).last_hidden_state


EXAMPLES: dict[str, Callable[[Config, Noise, int | None], Call]] = {
    "UNet2DConditionModel": _unet,
    "AutoencoderKL": _autoencoder,
    "AutoencoderTiny": _autoencoder,
    "FluxTransformer2DModel": _flux,
    "SD3Transformer2DModel": _sd3,
    "WanTransformer3DModel": _wan,
    "CLIPTextModel": _clip_text,
}

"""Words and pictures to what the denoiser reads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...blocks import ComponentSpec, InputParam, ModularPipelineBlocks
from ...errors import InputError
from ...guiders import BaseGuidance, ClassifierFreeGuidance
from ...models.text_encoders.clip import CLIPTextModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...tokenizers import CLIPTokenizer

Tensor = torch.Tensor
GUIDER = ComponentSpec("guider", ClassifierFreeGuidance, default_creation_method="from_config")
READY_EMBEDS = [
    InputParam.template(name, required=False, given=True) for name in ("prompt_embeds", "negative_prompt_embeds")
]


class SetGuidance(ModularPipelineBlocks):
    """Gives the guider of this run its scale; a denoiser that was taught the scale needs no guider."""

    expected_components = [GUIDER, ComponentSpec("unet", UNet2DConditionModel)]
    inputs = ["guidance_scale", "guidance_rescale"]

    def check(self, components: Any, inputs: Any) -> None:
        for name, unset in (("guidance_scale", None), ("guidance_rescale", 0.0)):
            if getattr(inputs, name) != unset and not hasattr(components.guider, name):
                kind = type(components.guider).__name__
                raise InputError(
                    f"{kind} has no {name!r}; give its own settings when you make it: pipe.guider = {kind}(…)."
                )

    def __call__(self, components: Any, state: Any) -> None:
        guider: BaseGuidance = components.guider
        if state.guidance_scale is not None:
            floor = 0.0 if getattr(guider, "use_original_formulation", False) else 1.0
            guider.guidance_scale = max(state.guidance_scale, floor)  # type: ignore[attr-defined]
        if state.guidance_rescale > 0.0:
            guider.guidance_rescale = state.guidance_rescale  # type: ignore[attr-defined]
        if components.unet.config.time_cond_proj_dim is not None:
            guider.disable()


class EncodePrompt(ModularPipelineBlocks):
    """Prompt and negative prompt to CLIP hidden states, one row per picture; long prompts in pieces."""

    checkpoint_name = "text_encoding"
    expected_components = [
        ComponentSpec("tokenizer", CLIPTokenizer, optional=True),  # ready embeddings need neither
        ComponentSpec("text_encoder", CLIPTextModel, optional=True),
        replace(GUIDER, config={"guidance_scale": 7.5}),
    ]
    inputs = [
        InputParam.template("prompt", required=False),
        "negative_prompt",
        "clip_skip",
        "num_images_per_prompt",
        *READY_EMBEDS,
    ]
    outputs = ["prompt_embeds", "negative_prompt_embeds"]

    def check(self, components: Any, inputs: Any) -> None:
        check_prompts(inputs)
        check_encoders(components, inputs, "tokenizer", "text_encoder")
        warn_of_unknown_words(components.tokenizer, inputs)
        check_clip_skip(inputs.clip_skip, components.text_encoder)

    def __call__(self, components: Any, state: Any) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        positive, negative = state.prompt_embeds, state.negative_prompt_embeds
        unguided = not components.guider.needs_unconditional
        pieces = [] if positive is not None else prompts
        pieces = pieces + ([] if unguided or negative is not None else negatives)
        count = num_pieces(components.tokenizer, pieces) if pieces else 1
        if positive is None:
            positive = self.encode(components, prompts, count, state.clip_skip)
        if unguided:
            negative = None
        elif negative is None:
            count = max(count, positive.shape[1] // components.tokenizer.model_max_length)
            negative = self.encode(components, negatives, count, None)
        state.prompt_embeds = per_picture(positive, state.num_images_per_prompt)
        state.negative_prompt_embeds = None if negative is None else per_picture(negative, state.num_images_per_prompt)

    def encode(self, components: Any, texts: list[str], count: int, clip_skip: int | None) -> Tensor:
        """Hidden states of each piece, one piece after the other."""
        encoder: CLIPTextModel = components.text_encoder
        uses_mask = bool(encoder.config.get("use_attention_mask"))
        hidden = []
        for ids, words in token_pieces(components.tokenizer, texts, count):
            mask = words.to(encoder.device) if uses_mask else None
            if clip_skip is None:
                hidden.append(encoder(ids.to(encoder.device), attention_mask=mask)[0])
            else:
                states = encoder(ids.to(encoder.device), attention_mask=mask, output_hidden_states=True).hidden_states
                hidden.append(encoder.text_model.final_layer_norm(states[-(clip_skip + 1)]))
        return torch.cat(hidden, dim=1).to(encoder.dtype)


def check_prompts(inputs: Any) -> None:
    """Either words or ready embeddings, and as many negative ones as positive ones."""
    if inputs.prompt is None and inputs.prompt_embeds is None:
        raise InputError("Give a 'prompt' (text, or a list of texts), or ready 'prompt_embeds'; got neither.")
    if inputs.prompt is not None and inputs.prompt_embeds is not None:
        raise InputError("Give 'prompt' or ready 'prompt_embeds', not both: which of them should the picture follow?")
    if inputs.negative_prompt is not None and inputs.negative_prompt_embeds is not None:
        raise InputError("Give 'negative_prompt' or ready 'negative_prompt_embeds', not both.")
    if inputs.prompt_embeds is not None and inputs.negative_prompt_embeds is not None:
        wanted, got = tuple(inputs.prompt_embeds.shape), tuple(inputs.negative_prompt_embeds.shape)
        if wanted != got:
            raise InputError(
                f"'negative_prompt_embeds' needs the shape of 'prompt_embeds', {list(wanted)}, got {list(got)}."
            )
    if isinstance(inputs.prompt, list) and not inputs.prompt:
        raise InputError("'prompt' is an empty list; give at least one text.")
    if isinstance(inputs.negative_prompt, list):
        rows = num_rows(inputs.prompt, inputs.prompt_embeds)
        if len(inputs.negative_prompt) != rows:
            raise InputError(
                f"'negative_prompt' needs one text for each of {rows} prompts (or one text for all), got {len(inputs.negative_prompt)}."
            )


def warn_of_unknown_words(tokenizer: Any, inputs: Any) -> None:
    """A model whose folder lists the words that it was taught tells of others, before it draws something else."""
    known = getattr(tokenizer, "known_words", None)
    if known is None:
        return
    texts = [text for given in (inputs.prompt, inputs.negative_prompt) for text in as_texts(given)]
    remark = known.remark_on(texts)
    if remark:
        warnings.warn(remark, UserWarning, stacklevel=2)


def as_texts(given: str | list[str] | None) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def check_encoders(components: Any, inputs: Any, *names: str) -> None:
    """Words need a tokenizer and a text encoder."""
    missing = [name for name in names if getattr(components, name) is None]
    if not missing:
        return
    words = [name for name in ("prompt", "negative_prompt") if getattr(inputs, name) is not None]
    if not words and inputs.negative_prompt_embeds is None and components.guider.needs_unconditional:
        words = ["guidance without 'negative_prompt_embeds'"]
    if words:
        raise InputError(
            f"{words[0]} needs {' and '.join(missing)}, which this pipeline does not have. Load the pipeline with them, "
            "or give ready 'prompt_embeds' and 'negative_prompt_embeds'."
        )


def check_clip_skip(clip_skip: int | None, encoder: Any) -> None:
    layers = encoder.config.num_hidden_layers if encoder is not None else None
    if clip_skip is not None and layers is not None and not 0 <= clip_skip < layers:
        raise InputError(
            f"'clip_skip' leaves out layers at the end; the text encoder has {layers}, so it takes 0 to {layers - 1}, got {clip_skip}."
        )


def num_rows(prompt: str | Sequence[str] | None, embeds: Tensor | None) -> int:
    """How many prompts there are."""
    if prompt is None:
        return embeds.shape[0]  # type: ignore[union-attr]
    return 1 if isinstance(prompt, str) else len(prompt)


def as_lists(prompt: Any, negative: Any, embeds: Tensor | None) -> tuple[list[str], list[str]]:
    """Prompts and negative prompts, one each per row; no negative prompt is the empty one."""
    rows = num_rows(prompt, embeds)
    prompts = [] if prompt is None else [prompt] if isinstance(prompt, str) else list(prompt)
    negatives = list(negative) if isinstance(negative, (list, tuple)) else [negative or ""] * rows
    return prompts, negatives


def num_pieces(tokenizer: CLIPTokenizer, texts: list[str]) -> int:
    """How many pieces of the tokenizer's length the longest text needs."""
    room = tokenizer.model_max_length - 2
    lengths = [len(tokenizer(text, add_special_tokens=False).input_ids) for text in texts]
    return max(1, math.ceil(max(lengths, default=0) / room))


def token_pieces(tokenizer: CLIPTokenizer, texts: list[str], count: int) -> list[tuple[Tensor, Tensor]]:
    """Token ids and mask of each of `count` pieces, every piece with its own begin and end mark."""
    length, room = tokenizer.model_max_length, tokenizer.model_max_length - 2
    pieces: list[tuple[list[list[int]], list[list[int]]]] = [([], []) for _ in range(count)]
    for text in texts:
        words = tokenizer(text, add_special_tokens=False).input_ids
        for index, (ids, masks) in enumerate(pieces):
            row = [tokenizer.bos_token_id, *words[index * room : (index + 1) * room], tokenizer.eos_token_id]
            padding = length - len(row)
            ids.append(row + [tokenizer.pad_token_id] * padding)
            masks.append([1] * len(row) + [0] * padding)
    return [(torch.tensor(ids), torch.tensor(masks)) for ids, masks in pieces]


def per_picture(rows: Tensor, num_images_per_prompt: int) -> Tensor:
    """Each row as often as its prompt has pictures, next to each other."""
    return rows.repeat_interleave(num_images_per_prompt, dim=0)

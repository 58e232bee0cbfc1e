"""What every text encoding checks and does with prompts, whatever the encoder."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, ClassVar

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks
from ...errors import InputError, UnsupportedError
from ...notes import say_once
from ...tokenizers.known_words import KnownWords
from .parts import DENOISER_OUTLINE, GUIDER, Components

Tensor = torch.Tensor
MOST_TOKENS = 512  # that T5 was taught, and a prompt may have
ENCODED = ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds")
MASKS = ("prompt_embeds_mask", "negative_prompt_embeds_mask")


class EncodeText(ModularPipelineBlocks):
    """Prompt and negative prompt to embeddings, one row per picture; a family says how texts are encoded.

    What it declares as optional is what encodes: ready embeddings need none of it.
    """

    checkpoint_name = "text_encoding"
    per_prompt: ClassVar[str] = "num_images_per_prompt"
    expected_components = [GUIDER]
    inputs = [
        InputParam.template("prompt", required=False),
        *["negative_prompt", "num_images_per_prompt"],
        *[InputParam.template(n, required=False, given=True) for n in ("prompt_embeds", "negative_prompt_embeds")],
    ]
    outputs = ["prompt_embeds", "negative_prompt_embeds"]

    @property
    def encoders(self) -> list[str]:
        return [spec.name for spec in self.expected_components if spec.optional and not spec.role]

    @property
    def required_encoders(self) -> Sequence[str]:
        """Those of them without which words cannot be encoded."""
        return self.encoders

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return self.encoders if all_ready(inputs) else ()

    def check(self, components: Components, inputs: BlockView) -> None:
        check_prompts(inputs)
        self.check_widths(components, inputs)
        self.check_ready(inputs)
        check_encoders(components, inputs, *self.required_encoders)
        self.warn(components, inputs)

    def warn(self, components: Components, inputs: BlockView) -> None:
        """What is not refused and not drawn as it was written is told."""
        warn_of_unknown_words([getattr(components, name) for name in self.encoders], inputs)

    def check_widths(self, components: Components, inputs: BlockView) -> None:
        """Ready embeddings are as wide as the denoiser reads them, where a family has that looked at."""

    def check_ready(self, inputs: BlockView) -> None:
        """Ready embeddings of both prompts fit together."""
        if inputs.prompt_embeds is None or inputs.negative_prompt_embeds is None:
            return
        wanted, got = tuple(inputs.prompt_embeds.shape), tuple(inputs.negative_prompt_embeds.shape)
        if wanted != got:
            raise InputError(
                f"'negative_prompt_embeds' needs the shape of 'prompt_embeds', {list(wanted)}, got {list(got)}."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        positive, negative = state.prompt_embeds, state.negative_prompt_embeds
        if positive is None:
            positive = self.encode_for(components, prompts, state)
        if not components.guider.needs_unconditional:
            negative = None
        elif negative is None:
            negative = self.encode_for(components, negatives, state)
        state.prompt_embeds = per_picture(positive, state[self.per_prompt])
        state.negative_prompt_embeds = None if negative is None else per_picture(negative, state[self.per_prompt])

    def encode_for(self, components: Components, texts: list[str], state: BlockView) -> Tensor:
        """The same as `encode`, for an encoding that depends on further inputs."""
        return self.encode(components, texts)

    def encode(self, components: Components, texts: list[str]) -> Tensor:
        """The embeddings of a list of texts, a row each."""
        raise UnsupportedError(f"{type(self).__name__} does not define encode(self, components, texts).")


class EncodeTextAndPooled(EncodeText):
    """The same with one vector per prompt besides; further encoders can be given texts of their own (`prompt_2` …).

    A family says how columns of texts, one for each encoder, are encoded.
    """

    expected_components = [GUIDER, DENOISER_OUTLINE]
    further: ClassVar[tuple[str, ...]] = ("_2",)  # endings of the prompts for the encoders after the first
    inputs = [
        *EncodeText.inputs,
        *["prompt_2", "negative_prompt_2", "max_sequence_length"],
        *[InputParam.template(name, required=False, given=True) for name in ENCODED[2:]],
    ]
    outputs = list(ENCODED)

    def check_widths(self, components: Components, inputs: BlockView) -> None:
        check_shapes(components.denoiser, inputs, ENCODED)

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        rows = num_rows(inputs.prompt, inputs.prompt_embeds)
        for name in (f"{kind}{ending}" for kind in ("prompt", "negative_prompt") for ending in self.further):
            if isinstance(inputs[name], (list, tuple)) and len(inputs[name]) != rows:
                raise InputError(f"{name!r} needs one text for each of {rows} prompts, got {len(inputs[name])}.")
        for name in ENCODED[:2]:
            pooled = name.replace("prompt_embeds", "pooled_prompt_embeds")
            if inputs[name] is not None and inputs[pooled] is None:
                raise InputError(f"Ready {name!r} need {pooled!r} of the same encoders beside them.")
            if inputs[name] is not None and len(inputs[name]) != len(inputs[pooled]):
                got = f"{len(inputs[name])} and {len(inputs[pooled])}"
                raise InputError(f"{name!r} and {pooled!r} want as many rows as each other, got {got}.")
        if inputs.max_sequence_length > MOST_TOKENS:
            raise InputError(f"'max_sequence_length' is at most {MOST_TOKENS}, got {inputs.max_sequence_length}.")

    def __call__(self, components: Components, state: BlockView) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        positive, pooled = state.prompt_embeds, state.pooled_prompt_embeds
        if positive is None:
            columns = [prompts, *(texts_for(state[f"prompt{ending}"], prompts) for ending in self.further)]
            positive, pooled = self.encode_columns(components, state, columns, negative=False)
        negative, negative_pooled = state.negative_prompt_embeds, state.negative_pooled_prompt_embeds
        if not components.guider.needs_unconditional:
            negative = negative_pooled = None
        elif negative is None:
            columns = [negatives, *(texts_for(state[f"negative_prompt{ending}"], negatives) for ending in self.further)]
            negative, negative_pooled = self.encode_columns(components, state, columns, negative=True)
        for name, rows in zip(ENCODED, (positive, negative, pooled, negative_pooled), strict=True):
            state[name] = None if rows is None else per_picture(rows, state.num_images_per_prompt)

    def encode_columns(
        self, components: Components, state: BlockView, columns: list[list[str]], *, negative: bool
    ) -> tuple[Tensor, Tensor]:
        """The embeddings and the pooled vectors of columns of texts (of negative prompts?), a row each."""
        raise UnsupportedError(f"{type(self).__name__} does not define encode_columns.")


def texts_for(own: str | Sequence[str] | None, first: list[str]) -> list[str]:
    """The texts for a further encoder: its own where given, else the first one's."""
    return [own] * len(first) if isinstance(own, str) and own else list(own or first)


def check_prompts(inputs: BlockView) -> None:
    """Either words or ready embeddings, and as many negative ones as positive ones."""
    if inputs.prompt is None and inputs.prompt_embeds is None:
        raise InputError("Give a 'prompt' (text, or a list of texts), or ready 'prompt_embeds'; got neither.")
    if inputs.prompt is not None and inputs.prompt_embeds is not None:
        raise InputError("Give 'prompt' or ready 'prompt_embeds', not both: which of them should the picture follow?")
    if inputs.negative_prompt is not None and inputs.negative_prompt_embeds is not None:
        raise InputError("Give 'negative_prompt' or ready 'negative_prompt_embeds', not both.")
    if isinstance(inputs.prompt, list) and not inputs.prompt:
        raise InputError("'prompt' is an empty list; give at least one text.")
    for name in ENCODED[:2]:
        check_tokens(name, inputs[name])
    if isinstance(inputs.negative_prompt, list):
        rows = num_rows(inputs.prompt, inputs.prompt_embeds)
        if len(inputs.negative_prompt) != rows:
            raise InputError(
                f"'negative_prompt' needs one text for each of {rows} prompts (or one text for all), got "
                f"{len(inputs.negative_prompt)}."
            )


def check_tokens(name: str, embeds: Tensor | Sequence[Tensor] | None) -> None:
    """Ready embeddings have a row for each prompt, and each row a token at least."""
    if not isinstance(embeds, (Tensor, list, tuple)) or (isinstance(embeds, Tensor) and embeds.ndim < 2):
        return
    if not len(embeds):
        raise InputError(f"{name!r} has no rows; give one for each prompt.")
    if any(not len(row) for row in embeds):
        raise InputError(f"{name!r} has a text of 0 tokens; the empty text '' has some, too: encode that.")


def check_mask(mask: str, counted: Tensor, name: str) -> None:
    """A mask says yes or no of each token, and of one of each text yes."""
    unclear = counted[(counted != 0) & (counted != 1)]
    if len(unclear):
        raise InputError(f"{mask!r} says 1 or True of a token that counts, 0 or False of others; got {unclear[0]}.")
    empty = (counted != 0).sum(1) == 0
    if bool(empty.any()):
        row = int(empty.nonzero()[0])
        raise InputError(f"{mask!r} leaves no token of row {row} of {name!r}; of each text one counts at least.")


def check_shapes(denoiser: Any, inputs: BlockView, names: Iterable[str]) -> None:
    """Ready encodings have as many channels as a denoiser reads of them."""
    for name in names:
        given, wanted = inputs[name], denoiser.condition_widths.get(name.removeprefix("negative_"))
        axes = ["rows", *["tokens"] * ("pooled" not in name), f"{wanted} channels"]
        if isinstance(given, list):
            axes = axes[1:]  # of each tensor
        for one in given if isinstance(given, list) else [given]:
            if isinstance(one, Tensor) and wanted and (one.ndim != len(axes) or one.shape[-1] != wanted):
                told, of = ", ".join(axes), "a list of " * isinstance(given, list)
                raise InputError(f"{name!r} has to be {of}({told}) for this denoiser, got {tuple(one.shape)}.")


def warn_of_unknown_words(
    encoders: Sequence[Any],
    inputs: BlockView,
    unread: Callable[[KnownWords, str], list[str]] = KnownWords.unknown_in,
) -> None:
    """A model whose tokenizer lists the words that it was taught tells of others, before it draws something else."""
    known = next((words for part in encoders if (words := getattr(part, "known_words", None))), None)
    if known is None:
        return
    given = [value for value in (inputs.prompt, inputs.negative_prompt) if value is not None]
    texts = [text for value in given for text in ([value] if isinstance(value, str) else value)]
    remark = known.remark_on(texts, lambda text: unread(known, text))
    if remark:
        warnings.warn(remark, UserWarning, stacklevel=2)


def check_encoders(components: Components, inputs: BlockView, *names: str) -> None:
    """Words need a tokenizer and a text encoder."""
    missing = [name for name in names if getattr(components, name) is None]
    if not missing:
        return
    words = [name for name in ("prompt", "negative_prompt") if getattr(inputs, name) is not None]
    if not words and inputs.negative_prompt_embeds is None and components.guider.needs_unconditional:
        words = ["guidance without 'negative_prompt_embeds'"]
    if words:
        raise InputError(
            f"{words[0]} needs {' and '.join(missing)}, which this pipeline does not have. Load the pipeline with "
            "them, or give ready 'prompt_embeds' and 'negative_prompt_embeds'."
        )


def all_ready(inputs: BlockView) -> bool:
    """Whether nothing is left to encode: then no text encoder is loaded."""
    ready = inputs.prompt_embeds is not None and inputs.negative_prompt_embeds is not None
    return ready and inputs.prompt is None and inputs.negative_prompt is None


def without_words(inputs: BlockView) -> bool:
    """Whether no words are to be encoded, by a family whose guidance is off unless it is asked for."""
    return inputs.prompt is None and inputs.negative_prompt is None and inputs.prompt_embeds is not None


def num_rows(prompt: str | Sequence[str] | None, embeds: Tensor | None) -> int:
    """How many prompts there are."""
    if prompt is None:
        return len(embeds)  # type: ignore[arg-type]
    return 1 if isinstance(prompt, str) else len(prompt)


def as_lists(prompt: Any, negative: Any, embeds: Tensor | None) -> tuple[list[str], list[str]]:
    """Prompts and negative prompts, one each per row; no negative prompt is the empty one."""
    rows = num_rows(prompt, embeds)
    prompts = [] if prompt is None else [prompt] if isinstance(prompt, str) else list(prompt)
    negatives = list(negative) if isinstance(negative, (list, tuple)) else [negative or ""] * rows
    return prompts, negatives


def per_picture(rows: Tensor, num_images_per_prompt: int) -> Tensor:
    """Each row as often as its prompt has pictures, next to each other."""
    return rows.repeat_interleave(num_images_per_prompt, dim=0)


def tell_of_cut(tokens: int, most: int) -> None:
    """A prompt that is longer than what is read of it is told about once."""
    if tokens > most:
        say_once(f"A prompt of {tokens} tokens is cut after {most} (max_sequence_length).")

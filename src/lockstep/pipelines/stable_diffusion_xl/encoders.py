"""Words to what the XL denoiser reads: hidden states of two text encoders, and one pooled vector."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...blocks import BlockView, ComponentSpec, ConfigSpec, InputParam
from ...errors import InputError
from ...models.text_encoders.clip import CLIPTextModel, CLIPTextModelWithProjection
from ...notes import say_once
from ...tokenizers import CLIPTokenizer
from ..common.clip_text import LONG_PROMPTS, check_clip_skip, side_by_side, token_pieces
from ..common.parts import GUIDER, Components
from ..common.prompt_weights import Reading, read_prompt
from ..common.prompts import ENCODED, EncodeText, as_lists, check_encoders, check_prompts, num_rows, per_picture
from ..common.weighted_text import (
    PROMPT_WEIGHTING,
    as_long,
    check_weighting,
    cut_pieces,
    pieces_of_rows,
    weighted_row,
)

Tensor = torch.Tensor


class EncodePrompt(EncodeText):
    """Prompts to the penultimate hidden states of both encoders side by side, and the second one's pooled vector."""

    expected_components = [
        ComponentSpec("tokenizer", CLIPTokenizer, optional=True),
        ComponentSpec("text_encoder", CLIPTextModel, optional=True),
        ComponentSpec("tokenizer_2", CLIPTokenizer, optional=True),  # ready embeddings need none of them
        ComponentSpec("text_encoder_2", CLIPTextModelWithProjection, optional=True),
        replace(GUIDER, config={"guidance_scale": 5.0}),
    ]
    expected_configs = [ConfigSpec("force_zeros_for_empty_prompt", default=True)]
    inputs = [
        *EncodeText.inputs,
        *["prompt_2", "negative_prompt_2", "clip_skip", LONG_PROMPTS, PROMPT_WEIGHTING],
        *[InputParam.template(name, required=False, given=True) for name in ENCODED[2:]],
    ]
    outputs = list(ENCODED)

    def check(self, components: Components, inputs: BlockView) -> None:
        check_prompts(inputs)
        for name in ("prompt_2", "negative_prompt_2"):
            rows = num_rows(inputs.prompt, inputs.prompt_embeds)
            if isinstance(inputs[name], (list, tuple)) and len(inputs[name]) != rows:
                raise InputError(f"{name!r} needs one text for each of {rows} prompts, got {len(inputs[name])}.")
        if inputs.prompt is not None or not self.zeros_for_negative(components, inputs):
            check_encoders(components, inputs, "tokenizer_2", "text_encoder_2")
        check_clip_skip(inputs.clip_skip, components.text_encoder_2)
        check_weighting(inputs, "prompt", "prompt_2", "negative_prompt", "negative_prompt_2")
        if inputs.prompt_embeds is not None and inputs.pooled_prompt_embeds is None:
            raise InputError("Ready 'prompt_embeds' need 'pooled_prompt_embeds' of the same encoders beside them.")
        if inputs.negative_prompt_embeds is not None and inputs.negative_pooled_prompt_embeds is None:
            raise InputError("Ready 'negative_prompt_embeds' need 'negative_pooled_prompt_embeds' beside them.")

    def __call__(self, components: Components, state: BlockView) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        prompts_2, negatives_2 = self.second(state, prompts, negatives)
        tokenizer, counts = components.tokenizer_2, []
        columns = [prompts, prompts_2] if state.prompt_embeds is None else []
        if self.encodes_negative(components, state):
            columns += [negatives, negatives_2]
        if columns:
            counts = pieces_of_rows(tokenizer, columns, state.prompt_weighting, state.long_prompts)
        if state.prompt_embeds is None:
            positive, pooled = self.encode_both(components, prompts, prompts_2, counts, state.clip_skip, state)
        else:
            positive, pooled = state.prompt_embeds, state.pooled_prompt_embeds
        negative, negative_pooled = state.negative_prompt_embeds, state.negative_pooled_prompt_embeds
        if not components.guider.needs_unconditional:
            negative = negative_pooled = None
        elif self.encodes_negative(components, state):
            if state.prompt is None:  # as long as what was given
                counts = [max(count, positive.shape[1] // tokenizer.model_max_length) for count in counts]
            negative, negative_pooled = self.encode_both(components, negatives, negatives_2, counts, None, state)
        elif negative is None:
            negative, negative_pooled = torch.zeros_like(positive), torch.zeros_like(pooled)
        encoded = (positive, negative, pooled, negative_pooled)
        for name, rows in zip(ENCODED, encoded, strict=True):
            state[name] = None if rows is None else per_picture(rows, state.num_images_per_prompt)

    def encodes_negative(self, components: Components, state: BlockView) -> bool:
        """Whether there is a negative prompt to encode, be it the empty one."""
        wanted = components.guider.needs_unconditional and state.negative_prompt_embeds is None
        return wanted and not self.zeros_for_negative(components, state)

    @staticmethod
    def zeros_for_negative(components: Components, state: BlockView) -> bool:
        """Whether the model was taught zeros for "no negative prompt"; the first one alone decides on that."""
        zeros = components.force_zeros_for_empty_prompt and state.negative_prompt is None
        if zeros and state.negative_prompt_2 is not None and state.negative_prompt_embeds is None:
            say_once(
                "'negative_prompt_2' alone does nothing where a model was taught zeros for no negative prompt "
                "(force_zeros_for_empty_prompt), here as elsewhere. Give 'negative_prompt' beside it."
            )
        return zeros

    @staticmethod
    def second(state: BlockView, prompts: list[str], negatives: list[str]) -> tuple[list[str], list[str]]:
        """The texts for the second encoder: its own where given, else the first one's."""
        texts = state.prompt_2, state.negative_prompt_2
        own, own_negative = ([text] * len(negatives) if isinstance(text, str) else text for text in texts)
        return list(own or prompts), list(own_negative or negatives)

    def encode_both(
        self,
        components: Components,
        texts: list[str],
        texts_2: list[str],
        counts: list[int],
        clip_skip: int | None,
        state: BlockView,
    ) -> tuple[Tensor, Tensor]:
        layer = -2 if clip_skip is None else -(clip_skip + 2)
        pairs = [
            (components.tokenizer, components.text_encoder, texts),
            (components.tokenizer_2, components.text_encoder_2, texts_2),
        ]
        columns, pooled = [], None
        for tokenizer, encoder, rows in pairs:
            if encoder is None:  # the refiner has the second encoder alone
                continue
            if state.prompt_weighting is not None:
                hidden, pooled = weighted_rows(tokenizer, encoder, rows, counts, layer, state)
                columns.append(hidden)
                continue
            outputs = [
                encoder(ids.to(encoder.device), output_hidden_states=True)
                for ids, _ in token_pieces(tokenizer, rows, max(counts))
            ]
            columns.append(side_by_side([output.hidden_states[layer] for output in outputs], counts))
            pooled = getattr(outputs[0], "text_embeds", None)
        dtype = components.text_encoder_2.dtype
        return torch.cat(columns, dim=-1).to(dtype), pooled.to(dtype)  # type: ignore[union-attr]


def weighted_rows(
    tokenizer: CLIPTokenizer, encoder: CLIPTextModel, rows: list[str], counts: list[int], layer: int, state: BlockView
) -> tuple[Tensor, Tensor | None]:
    """Hidden states of prompts with weights, and the pooled vectors of the same words without them."""
    form, long_prompts = state.prompt_weighting, state.long_prompts

    def encode(ids: Tensor, seen: Tensor) -> Tensor:
        mask = None if bool(seen.all()) else seen.to(encoder.device)
        states = encoder(ids.to(encoder.device), attention_mask=mask, output_hidden_states=True).hidden_states
        return states[layer]  # type: ignore[index]

    def pool(reading: Reading) -> Tensor | None:
        """Of the first piece; texts that are mixed mix theirs, and of those side by side the first counts."""
        texts = reading.texts if reading.how == "blend" else reading.texts[:1]
        firsts = [cut_pieces(tokenizer, text, long_prompts)[0].ids for text in texts]
        found = [getattr(encoder(torch.tensor([ids]).to(encoder.device)), "text_embeds", None) for ids in firsts]
        weights = reading.weights if reading.how == "blend" else (1.0,)
        return None if found[0] is None else sum(w * one for w, one in zip(weights, found, strict=True))  # type: ignore

    readings = [read_prompt(text, form) for text in rows]
    hidden = [
        weighted_row(tokenizer, encode, reading, form, count, long_prompts)
        for reading, count in zip(readings, counts, strict=True)
    ]
    pooled = [pool(reading) for reading in readings]
    return as_long(hidden, counts), None if pooled[0] is None else torch.cat(pooled)  # type: ignore[arg-type]

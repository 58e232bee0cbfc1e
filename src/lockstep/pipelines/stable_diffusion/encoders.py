"""Words to what the denoiser reads."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...blocks import BlockView, ComponentSpec
from ...models.text_encoders.clip import CLIPTextModel
from ...tokenizers import CLIPTokenizer
from ..common.clip_text import LONG_PROMPTS, check_clip_skip, side_by_side, token_pieces
from ..common.parts import GUIDER, Components
from ..common.prompt_weights import read_prompt
from ..common.prompts import EncodeText, as_lists, per_picture
from ..common.weighted_text import PROMPT_WEIGHTING, as_long, check_weighting, pieces_of_rows, weighted_row

Tensor = torch.Tensor


class EncodePrompt(EncodeText):
    """Prompt and negative prompt to CLIP hidden states, one row per picture; long prompts in pieces."""

    expected_components = [
        ComponentSpec("tokenizer", CLIPTokenizer, optional=True),  # ready embeddings need neither
        ComponentSpec("text_encoder", CLIPTextModel, optional=True),
        replace(GUIDER, config={"guidance_scale": 7.5}),
    ]
    inputs = [*EncodeText.inputs, "clip_skip", LONG_PROMPTS, PROMPT_WEIGHTING]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        check_clip_skip(inputs.clip_skip, components.text_encoder)
        check_weighting(inputs, "prompt", "negative_prompt")

    def __call__(self, components: Components, state: BlockView) -> None:
        prompts, negatives = as_lists(state.prompt, state.negative_prompt, state.prompt_embeds)
        positive, negative = state.prompt_embeds, state.negative_prompt_embeds
        unguided = not components.guider.needs_unconditional
        columns = [prompts] if positive is None else []
        columns += [] if unguided or negative is not None else [negatives]
        tokenizer, counts = components.tokenizer, []
        if columns:
            counts = pieces_of_rows(tokenizer, columns, state.prompt_weighting, state.long_prompts)
        if positive is None:
            positive = self.encode_pieces(components, prompts, counts, state.clip_skip, state)
        if unguided:
            negative = None
        elif negative is None:
            if state.prompt is None:  # as long as what was given
                counts = [max(count, positive.shape[1] // tokenizer.model_max_length) for count in counts]
            negative = self.encode_pieces(components, negatives, counts, None, state)
        state.prompt_embeds = per_picture(positive, state.num_images_per_prompt)
        state.negative_prompt_embeds = None if negative is None else per_picture(negative, state.num_images_per_prompt)

    def encode_pieces(
        self, components: Components, texts: list[str], counts: list[int], clip_skip: int | None, state: BlockView
    ) -> Tensor:
        """Hidden states of each piece, one piece after the other."""
        encoder: CLIPTextModel = components.text_encoder
        uses_mask, form = bool(encoder.config.get("use_attention_mask")), state.prompt_weighting
        if form is None:
            pieces = token_pieces(components.tokenizer, texts, max(counts))
            hidden = [self.hidden(encoder, ids, words if uses_mask else None, clip_skip) for ids, words in pieces]
            return side_by_side(hidden, counts).to(encoder.dtype)

        def encode(ids: Tensor, seen: Tensor) -> Tensor:
            return self.hidden(encoder, ids, None if bool(seen.all()) else seen, clip_skip)

        rows = [
            weighted_row(components.tokenizer, encode, read_prompt(text, form), form, count, state.long_prompts)
            for text, count in zip(texts, counts, strict=True)
        ]
        return as_long(rows, counts).to(encoder.dtype)

    @staticmethod
    def hidden(encoder: CLIPTextModel, ids: Tensor, mask: Tensor | None, clip_skip: int | None) -> Tensor:
        """The last hidden states, or those of an earlier layer under the last norm."""
        mask = None if mask is None else mask.to(encoder.device)
        if clip_skip is None:
            return encoder(ids.to(encoder.device), attention_mask=mask)[0]
        states = encoder(ids.to(encoder.device), attention_mask=mask, output_hidden_states=True).hidden_states or ()
        return encoder.text_model.final_layer_norm(states[-(clip_skip + 1)])

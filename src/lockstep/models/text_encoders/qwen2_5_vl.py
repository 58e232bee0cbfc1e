"""Qwen2.5-VL (arXiv:2502.13923) as an encoder of texts and pictures: what Qwen-Image reads prompts and edits with.

Axes: B batch, L tokens, D width. A tensor without suffix is BLD; any other shape is in the name. Tensor names are those
of transformers 5, files with the older ones serve too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import torch
from torch import nn

from ...configuration import config_defaults, register_to_config
from ...errors import ConfigError, InputError
from ...outputs import output_or_tuple
from ..modeling import check_divisible, checkpointed
from .decoder import DecoderLayer, HiddenStates, Table, base_of, check_decoder, half_turns, initialize
from .encoder import RMSNorm, TextEncoder, causal_mask, embedding
from .qwen2_5_vl_vision import Grid, Qwen2_5_VisionTransformer

Tensor = torch.Tensor
SECTIONS = [16, 24, 24]  # pairs of a head's numbers that turn by time, row and column


class Qwen2_5_VLTextModel(nn.Module):
    """The language model: hidden states of every token, each seeing what stands before it."""

    gradient_checkpointing = False

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.embed_tokens = embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(
            DecoderLayer(config, bias=True, out_bias=False, normed=False) for _ in range(config["num_hidden_layers"])
        )
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])

    def forward(self, embedded: Tensor, table: Table, mask_B1LL: Tensor | None) -> tuple[Tensor, ...]:
        states = [embedded]
        for layer in self.layers:
            states.append(checkpointed(self, layer, states[-1], table, mask_B1LL))
        return *states[:-1], self.norm(states[-1])


class Qwen2_5_VLModel(nn.Module):
    """The vision tower, and the language model that reads its tokens among those of the text."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.visual = Qwen2_5_VisionTransformer(config["vision_config"])
        self.language_model = Qwen2_5_VLTextModel(config)

    def forward(
        self, input_ids: Tensor, table: Table, mask_B1LL: Tensor | None, patches: Tensor | None,
        grids: Sequence[Grid], seen_BL: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        embedded = self.language_model.embed_tokens(input_ids)
        if patches is not None and seen_BL is not None:
            tokens = self.visual(patches, grids).to(embedded.dtype)
            embedded = embedded.masked_scatter(seen_BL[..., None], tokens)
        return self.language_model(embedded, table, mask_B1LL)


class Qwen2_5_VLForConditionalGeneration(TextEncoder):
    """Qwen2.5-VL without its head: the hidden states of a text, and of pictures in it."""

    model_type = "qwen2_5_vl"
    gradient_checkpointing = False
    _supports_gradient_checkpointing = True
    ignored_tensors = (r"^lm_head\.",)
    tensor_renames = (
        (r"^visual\.", "model.visual."),
        (r"^model\.(?!visual\.|language_model\.)", "model.language_model."),
    )

    @register_to_config
    def __init__(
        self, *, vocab_size: int = 152064, hidden_size: int = 3584, intermediate_size: int = 18944,
        num_hidden_layers: int = 28, num_attention_heads: int = 28, num_key_value_heads: int | None = 4,
        hidden_act: str = "silu", max_position_embeddings: int = 128_000, initializer_range: float = 0.02,
        rms_norm_eps: float = 1e-6, attention_dropout: float = 0.0, rope_theta: float = 1_000_000.0,
        rope_scaling: dict[str, Any] | None = None, rope_parameters: dict[str, Any] | None = None,
        use_sliding_window: bool = False, image_token_id: int = 151655, vision_config: dict[str, Any] | None = None,
        text_config: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.register_to_config(vision_config=dict(vision_config or {}))
        self.take_text_config(text_config or {})
        owner, config = type(self).__name__, self.config
        check_divisible(
            owner, "hidden_size", config["hidden_size"], "num_attention_heads", config["num_attention_heads"]
        )
        head = config["hidden_size"] // config["num_attention_heads"]
        self.head_width, self.sections = head, self.rotations.get("mrope_section", SECTIONS)
        check_decoder(owner, {**config, "head_dim": head})
        if sum(self.sections) * 2 != head:
            raise ConfigError(f"{owner}: mrope_section has to sum to half of a head, {head // 2}, got {self.sections}.")
        self.model = Qwen2_5_VLModel({**config, "head_dim": head})
        if self.model.visual.sizes["out_hidden_size"] != config["hidden_size"]:
            got = self.model.visual.sizes["out_hidden_size"]
            raise ConfigError(
                f"{owner}: out_hidden_size of vision_config has to be {config['hidden_size']}, got {got}."
            )
        initialize(self, config["initializer_range"])

    def take_text_config(self, given: dict[str, Any]) -> None:
        """Newer files keep what belongs to the language model by itself; here it stands beside the rest, as before."""
        known = config_defaults(type(self))
        self.register_to_config(text_config=None, **{name: value for name, value in given.items() if name in known})
        config, owner = self.config, type(self).__name__
        self.register_to_config(num_key_value_heads=config["num_key_value_heads"] or config["num_attention_heads"])
        self.register_to_config(rope_theta=base_of(owner, config["rope_theta"], self.rotations))

    @property
    def rotations(self) -> dict[str, Any]:
        """What the config says of rotations."""
        return self.config["rope_parameters"] or self.config["rope_scaling"] or {}

    def get_input_embeddings(self) -> nn.Embedding:
        return self.model.language_model.embed_tokens

    @output_or_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        pixel_values: Tensor | None = None,
        image_grid_thw: Tensor | Sequence[Grid] | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> HiddenStates | tuple[Tensor | tuple[Tensor, ...], ...]:
        """Hidden states of every token; a picture's patches take the places of its marks (`image_token_id`)."""
        self.check_tokens(input_ids, attention_mask, self.config["max_position_embeddings"])
        grids, seen = self.check_pictures(input_ids, pixel_values, image_grid_thw)
        like = self.model.language_model.embed_tokens.weight
        if seen is None:
            places = torch.arange(input_ids.shape[1], device=input_ids.device)
            table = half_turns(places, self.head_width, self.config["rope_theta"], like)
        else:
            places = places_of(seen, attention_mask, grids, self.model.visual.side)
            table = half_turns(places, self.head_width, self.config["rope_theta"], like, self.sections)
        states = self.model(input_ids, table, causal_mask(attention_mask), pixel_values, grids, seen)
        output = HiddenStates(states[-1], states if output_hidden_states else None)
        return output if return_dict else output.to_tuple()

    def check_pictures(
        self, input_ids: Tensor, patches: Tensor | None, image_grid_thw: Tensor | Sequence[Grid] | None
    ) -> tuple[list[Grid], Tensor | None]:
        """The grids of the pictures, and which tokens are theirs; refuse pictures without marks and the other way."""
        owner, mark = type(self).__name__, self.config["image_token_id"]
        if patches is None and image_grid_thw is None:
            return [], None
        if patches is None or image_grid_thw is None:
            raise InputError(
                f"{owner} wants pixel_values and image_grid_thw together. Qwen2VLImageProcessor makes both."
            )
        listed = image_grid_thw.tolist() if isinstance(image_grid_thw, Tensor) else image_grid_thw
        grids = [(int(frames), int(rows), int(columns)) for frames, rows, columns in listed]
        seen = input_ids == mark
        self.model.visual.check_patches(patches, grids)
        wanted, got = sum(t * h * w for t, h, w in grids) // self.model.visual.side**2, int(seen.sum())
        if wanted != got:
            raise InputError(f"{owner}: the pictures are {wanted} tokens, the text has marks (id {mark}) for {got}.")
        return grids, seen


def places_of(seen_BL: Tensor, mask_BL: Tensor | None, grids: Sequence[Grid], side: int) -> Tensor:
    """(3, B, L): time, row and column of each token; a text's are one number, which a picture moves by its side."""
    left, rows = iter(grids), []
    for number, seen in enumerate(seen_BL.cpu()):
        counted = torch.ones_like(seen) if mask_BL is None else mask_BL[number].bool().cpu()
        places = torch.zeros(3, len(seen), dtype=torch.long)
        places[:, counted] = torch.cat(list(runs(seen[counted].tolist(), left, side)), dim=1)
        rows.append(places)
    return torch.stack(rows, dim=1).to(seen_BL.device)


def runs(seen: list[bool], grids: Iterator[Grid], side: int) -> Iterator[Tensor]:
    """The places of words and of pictures as they follow each other, (3, tokens) each."""
    start = 0
    for is_picture, run in groupby(seen):
        if is_picture:
            frames, rows, columns = next(grids, (0, 0, 0))
            sides = [torch.arange(size) for size in (frames, rows // side, columns // side)]
            places, marks = torch.cartesian_prod(*sides).T, len(list(run))
            if places.shape[1] != marks:
                raise InputError(f"A picture of {places.shape[1]} tokens stands where the text has marks for {marks}.")
            yield places + start
            start += max(rows, columns) // side
        else:
            length = len(list(run))
            yield torch.arange(start, start + length).expand(3, -1)
            start += length

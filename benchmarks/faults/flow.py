"""What is got wrong in ports of flow transformers, planted in FLUX's: times, guidance, modulation, rotary axes, order.

A list for the work: it shows what has a name, and says nothing of the next fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from lockstep.models.layers import Timesteps
from lockstep.models.transformers import layers
from lockstep.models.transformers import transformer_flux as flux
from lockstep.models.transformers.rotary import rotate

from .planting import Fault, instances, line, setting

Tensor = torch.Tensor


def model() -> nn.Module:
    return flux.FluxTransformer2DModel(
        in_channels=16, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=24, pooled_projection_dim=20, guidance_embeds=True, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip


def inputs(generator: torch.Generator, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Tokens of a 4 × 4 grid, a text of 6, its pooled form, times, positions, guidance."""
    rows, columns = torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij")
    places = torch.stack([torch.zeros(16), rows.flatten(), columns.flatten()], -1)
    picture, text = torch.randn(2, 16, 16, generator=generator), torch.randn(2, 6, 24, generator=generator)
    pooled = torch.randn(2, 20, generator=generator)
    times, guidance = torch.tensor([0.7311, 0.3127]), torch.tensor([3.5, 3.5])
    return picture.to(dtype), text.to(dtype), pooled.to(dtype), times, places, torch.zeros(6, 3), guidance


def _rotated_in_halves(x: Tensor, table: Any) -> Tensor:
    cos, sin = (part.unsqueeze(-2) for part in table)
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat([-second, first], -1) * sin).to(x.dtype)


def _rotating(query: Callable[..., Tensor], key: Callable[..., Tensor]) -> Callable[[Any], set[str]]:
    """Every attention with other rotations of its query and its key."""

    class Planted(flux.FluxAttnProcessor):
        def __call__(
            self, attn: Any, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None,
            attention_mask: Tensor | None = None, image_rotary_emb: Any = None,
        ) -> Any:  # fmt: skip
            q, k, v = self.join(attn, hidden_states, encoder_hidden_states)
            mixed = self.mix(query(q, image_rotary_emb), key(k, image_rotary_emb), v, attention_mask)
            return mixed if encoder_hidden_states is None else self.part(attn, mixed, encoder_hidden_states.shape[1])

    def plant(target: Any) -> set[str]:
        changed = set()
        for path, part in instances(target):
            if isinstance(part, flux.FluxAttention):
                part.set_processor(Planted())
                changed.add(path)
        return changed

    return plant


def _f(name: str, plant: object, *causes: str) -> Fault:
    return Fault(name, "flux", plant, frozenset(causes))  # type: ignore[arg-type]


def _of(cls: type, old: str, new: str, method: str = "forward") -> Callable[[Any], set[str]]:
    return line(cls, (old, new), method=method)


_MODEL, _SINGLE = flux.FluxTransformer2DModel, flux.FluxSingleTransformerBlock
_EMBED = "embed_conditions"
_BRANCH = "gate[:, None] * self.proj_out(torch.cat([mixed, wide], dim=2))"
_ZERO, _LAST, _TIME = layers.AdaLayerNormZero, layers.AdaLayerNormContinuous, layers.TimeTextEmbedding

FAULTS = [
    _f("time not times 1000", _of(_MODEL, "timestep_B.to(dtype) * 1000", "timestep_B.to(dtype)", _EMBED),
       "left_out", "constant", "scale"),
    _f("guidance not times 1000", _of(_MODEL, "guidance_B.to(dtype) * 1000", "guidance_B.to(dtype)", _EMBED),
       "left_out", "constant", "scale"),
    _f("time as a whole number", _of(_MODEL, "timestep_B.to(dtype) * 1000", "(timestep_B * 1000).long()",
                                     _EMBED), "timestep_dtype", "extra_step", "precision"),
    _f("guidance by the time's layers", _of(_TIME, "self.guidance_embedder(self.time_proj",
                                            "self.timestep_embedder(self.time_proj"), "wrong_module", "tied_weight"),
    _f("pooled text forgotten", _of(_TIME, "return vector + self.text_embedder(pooled_BD)", "return vector"),
       "left_out"),
    _f("sines first", setting(Timesteps, "", "flip_sin_to_cos", False), "flip_sin_to_cos"),
    _f("last scale and shift", _of(_LAST, "scale, shift =", "shift, scale ="), "split_order"),
    _f("eps of the last norm", setting(_LAST, "norm", "eps", 1e-5), "norm_eps"),
    _f("shift and scale of the blocks", _of(_ZERO, "shift, scale, *rest", "scale, shift, *rest"), "split_order"),
    _f("scale without one", _of(_ZERO, "(self.norm(x), shift, scale)", "(self.norm(x), shift, scale - 1)"),
       "modulation", "extra_step", "left_out", "constant"),
    _f("conditions without SiLU", _of(_ZERO, "self.silu(emb_BD)", "emb_BD"), "activation", "left_out"),
    _f("norm forgotten", _of(_ZERO, "self.norm(x)", "x"), "left_out"),
    _f("rows and columns", _of(_MODEL, "ids.float(), self", "ids.float()[:, [0, 2, 1]], self", "positions"),
       "part_order", "extra_step", "wrong_index", "permutation"),
    _f("another theta", _of(_MODEL, '["axes_dims_rope"])', '["axes_dims_rope"], 1000.0)', "positions"), "constant"),
    _f("rotated in halves", _rotating(_rotated_in_halves, _rotated_in_halves), "rope_lanes", "other_computation"),
    _f("key not rotated", _rotating(rotate, lambda k, table: k), "rope_missing"),
    _f("rotated the other way", _rotating(*[lambda x, t: rotate(x, (t[0], -t[1]))] * 2), "sign", "extra_step"),
    _f("picture before text", _of(_SINGLE, "torch.cat([encoder_hidden_states, hidden_states], dim=1)",
                                  "torch.cat([hidden_states, encoder_hidden_states], dim=1)"), "concat_order"),
    _f("erf GELU", _of(_SINGLE, ', approximate="tanh"', ""), "gelu_variant"),
    _f("gate forgotten", _of(_SINGLE, "gate[:, None] * self.proj_out", "self.proj_out"), "left_out"),
    _f("feed-forward before attention", _of(_SINGLE, "torch.cat([mixed, wide]", "torch.cat([wide, mixed]"),
       "concat_order", "input_order"),
    _f("residual of the normed", _of(_SINGLE, "tokens = tokens + gate", "tokens = normed + gate"), "wrong_operand"),
    _f("attention of what is not normed", _of(_SINGLE, "self.attn(normed, ", "self.attn(tokens, "), "wrong_operand"),
    _f("feed-forward of what is not normed", _of(_SINGLE, "self.proj_mlp(normed)", "self.proj_mlp(tokens)"),
       "wrong_operand"),
]  # fmt: skip

HARMLESS = [
    # a rotation by the difference of two positions: where they begin does not matter
    Fault("positions from one", "flux", _of(_MODEL, "ids.float(), self", "ids.float() + 1, self", "positions"),
          harmless=True),
    Fault("sum from the other side", "flux", _of(_SINGLE, f"tokens + {_BRANCH}", f"{_BRANCH} + tokens"), harmless=True),
    Fault("one matrix for query, key and value", "flux", lambda target: (target.fuse_qkv_projections(), {"model"})[1],
          harmless=True),
]  # fmt: skip

ALL = [*FAULTS, *HARMLESS]

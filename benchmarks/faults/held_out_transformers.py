"""Of the second list: the faults of transformers, and how one is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import held_out_models as h
from . import models as m
from .planting import Fault, instances, line, setting, weight


def fault(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = (), only: str = "") -> Fault:
    return Fault(name, model, plant, frozenset(causes), where, only)  # type: ignore[arg-type]


def control(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def one_instance(path: str, change: Callable[[Any], None]) -> Callable[[Any], set[str]]:
    """One instance alone, by its path."""

    def plant(target: Any) -> set[str]:
        with torch.no_grad():
            change(dict(instances(target))[path])
        return {path}

    return plant


def _rounded(module: Any, dtype: torch.dtype) -> None:
    for parameter in module.parameters():
        parameter.copy_(parameter.to(dtype).to(parameter.dtype))


def _all_rounded(dtype: torch.dtype) -> Callable[[Any], set[str]]:
    def plant(target: Any) -> set[str]:
        with torch.no_grad():
            _rounded(target, dtype)
        return {path for path, part in instances(target) if list(part.parameters(recurse=False))}

    return plant


def _of_other_block(target: Any) -> set[str]:
    """The second block got the weights of the third."""
    target.blocks[1].load_state_dict(target.blocks[2].state_dict())
    return {f"model.blocks.1.{name}" if name else "model.blocks.1" for name, _ in target.blocks[1].named_modules()}


def _noisy(target: Any) -> set[str]:
    """A table that is drawn anew at each call."""
    return line(
        h.PatchEmbed, ("table = self.pos_embed", "table = (self.pos_embed + 0.01 * torch.randn(self.pos_embed.shape))")
    )(target)


MMDIT = [
    fault(
        "table: rows before columns",
        "mmdit",
        one_instance("model.pos", lambda p: p.pos_embed.copy_(torch.cat(p.pos_embed.chunk(2, -1)[::-1], -1))),
        "half_swap",
        "part_order",
        "concat_order",
        "weight_values",
        "buffer_values",
    ),
    fault(
        "table cut from the corner",
        "mmdit",
        line(h.PatchEmbed, ("(self.side - height) // 2, (self.side - width) // 2", "0, 0")),
        "wrong_index",
        "index_offset",
        "position_offset",
        "shifted",
        "wrong_slice",
        "constant",
    ),
    fault("table drawn anew", "mmdit", _noisy, "non_deterministic"),
    fault(
        "text before image in the joint softmax, cut as image before text",
        "mmdit",
        line(
            h.JointAttention,
            (
                "torch.cat([q, text_q], dim=2), torch.cat([k, text_k], dim=2), torch.cat([v, text_v], dim=2)",
                "torch.cat([text_q, q], dim=2), torch.cat([text_k, k], dim=2), torch.cat([text_v, v], dim=2)",
            ),
        ),
        "concat_order",
    ),
    fault(
        "query norm of the text used for the image",
        "mmdit",
        line(
            h.JointAttention, ("self.norm_q(self.split(self.to_q(x)))", "self.norm_added_q(self.split(self.to_q(x)))")
        ),
        "tied_weight",
        "swapped_weights",
        "wrong_operand",
        "wrong_module",
        where=("*norm_q|out", "*norm_q/*", "*norm_added_q*"),
    ),
    fault(
        "query norm over all heads at once",
        "mmdit",
        line(
            h.JointAttention,
            (
                "self.norm_q(self.split(self.to_q(x)))",
                "self.split(F.rms_norm(self.to_q(x), (x.shape[-1],), self.norm_q.weight.repeat(self.heads), 1e-6))",
            ),
        ),
        "reduced_axes",
        "norm_axis",
        "order_exchanged",
        where=("*norm_q*",),
    ),
    fault(
        "heads viewed before tokens",
        "mmdit",
        line(
            h.JointAttention,
            ("h.transpose(1, 2).reshape(x.shape[0], -1, x.shape[2])", "h.reshape(x.shape[0], -1, x.shape[2])"),
        ),
        "head_layout",
        "axes_swapped",
    ),
    fault(
        "text result through the image projection",
        "mmdit",
        line(h.JointAttention, ("self.add_out(text)", "self.to_out(text)")),
        "tied_weight",
        "wrong_module",
        "wrong_operand",
        "swapped_weights",
        where=("*add_out|out", "*add_out*", "*to_out*"),
    ),
    fault(
        "shift and scale as (scale, shift) at the end",
        "mmdit",
        line(h.MMDiT, ("scale, shift = self.ada_out", "shift, scale = self.ada_out")),
        "split_order",
    ),
    fault(
        "feed-forward of the text without gate",
        "mmdit",
        line(h.JointBlock, ("gate_tf[:, None] * self.ff_text", "self.ff_text")),
        "left_out",
    ),
    fault(
        "gate of the attention on the feed-forward",
        "mmdit",
        line(h.JointBlock, ("x = x + gate_ff[:, None]", "x = x + gate[:, None]")),
        "wrong_operand",
        "split_order",
    ),
    fault(
        "feed-forward normed before the attention",
        "mmdit",
        line(
            h.JointBlock,
            ("x, text = x + gate[:, None] * a", "before, x, text = x, x + gate[:, None] * a"),
            ("self.norm2(x)", "self.norm2(before)"),
        ),
        "wrong_operand",
        "order_exchanged",
    ),
    fault(
        "modulation without SiLU",
        "mmdit",
        line(h.JointBlock, ("self.ada_text(F.silu(emb))", "self.ada_text(emb)")),
        "activation",
        "left_out",
    ),
    fault(
        "SiLU twice",
        "mmdit",
        line(h.JointBlock, ("self.ada(F.silu(emb))", "self.ada(F.silu(F.silu(emb)))")),
        "call_twice",
        "extra_step",
        "activation",
    ),
    fault(
        "pooled from the first token",
        "mmdit",
        line(h.MMDiT, ("encoder_hidden_states[:, -1]", "encoder_hidden_states[:, 0]")),
        "pooling_index",
        "wrong_index",
    ),
    fault(
        "pixel order inside the patch",
        "mmdit",
        line(h.MMDiT, ("nhwpqc->nchpwq", "nhwqpc->nchpwq")),
        "axes_swapped",
        "head_layout",
    ),
    fault(
        "second block with the weights of the third",
        "mmdit",
        _of_other_block,
        "weight_values",
        "module_weights",
        "swapped_weights",
        "tied_weight",
    ),
    fault(
        "one block in float16",
        "mmdit",
        one_instance("model.blocks.1.ff", lambda b: _rounded(b, torch.float16)),
        "weights_precision",
        "precision",
        where=("model.blocks.1.ff*",),
        only="fp32",
    ),
    fault(
        "all weights stored in bfloat16",
        "mmdit",
        _all_rounded(torch.bfloat16),
        "weights_precision",
        "precision",
        where=("*",),
        only="fp32",
    ),
    fault(
        "text scaled in place for the second use",
        "mmdit",
        line(h.JointBlock, ("a, b = self.attn(", "text.mul_(1.01)\n    a, b = self.attn(")),
        "in_place",
        "scale",
        "extra_step",
        where=("*blocks.0*", "*context|out"),
    ),
]

T5 = [
    fault(
        "attention scaled as others are",
        "t5",
        line(
            h.T5Attention,
            (
                "torch.matmul(q, k.transpose(3, 2)) + bias",
                "torch.matmul(q, k.transpose(3, 2)) * q.shape[-1] ** -0.5 + bias",
            ),
        ),
        "attention_scale",
        "scale",
        "extra_step",
    ),
    fault(
        "distance seen from the other side",
        "t5",
        line(h.T5, ("place[None, :] - place[:, None]", "place[:, None] - place[None, :]")),
        "operand_order",
        "sign",
        "axes_swapped",
    ),
    fault(
        "bucket without the side",
        "t5",
        line(h.T5, ("return side + torch", "return torch"), method="bucket"),
        "left_out",
    ),
    fault(
        "far buckets from 32",
        "t5",
        line(h.T5, ("math.log(16 / exact)", "math.log(32 / exact)"), method="bucket"),
        "constant",
    ),
    fault(
        "bias in the first layer only",
        "t5",
        line(h.T5, ("x = layer(x, bias)", "x, bias = layer(x, bias), torch.zeros_like(bias)")),
        "wrong_operand",
        "left_out",
        "zeroed",
        where=("*layers.1*",),
    ),
    fault(
        "norm with the mean taken off",
        "t5",
        line(h.T5Layer, ("h = self.norm_ff(x)", "h = F.layer_norm(x, x.shape[-1:], self.norm_ff.weight, None, 1e-6)")),
        "norm_kind",
        where=("*norm_ff*",),
    ),
    fault(
        "gate and value exchanged",
        "t5",
        line(
            h.T5Layer,
            (
                'F.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h)',
                'F.gelu(self.wi_1(h), approximate="tanh") * self.wi_0(h)',
            ),
        ),
        "swapped_weights",
        "wrong_operand",
        "operand_order",
        "order_exchanged",
    ),
    fault("exact GELU", "t5", line(h.T5Layer, (', approximate="tanh"', "")), "gelu_variant"),
    fault(
        "final norm twice",
        "t5",
        line(h.T5, ("return self.final_norm(x)", "return self.final_norm(self.final_norm(x))")),
        "call_twice",
        "extra_step",
        where=("*final_norm*", "model|out"),
    ),
    fault(
        "softmax over heads",
        "t5",
        line(h.T5Attention, ("F.softmax(scores.float(), dim=-1)", "F.softmax(scores.float(), dim=1)")),
        "softmax_axis",
        "reduced_axes",
    ),
    fault("RMS eps 1e-3", "t5", setting(m.RMSNorm, "", "eps", 1e-3), "norm_eps"),
    fault(
        "output projection of attention transposed",
        "t5",
        weight(h.T5Attention, "o", "weight", lambda w, _: w.t()),
        "transposed_weight",
    ),
]

"""The second list: written without reading the causes, never used to extend them (docs/decisions: two lists of
faults)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import held_out_models as h
from . import models as m
from .planting import Fault, instances, line, setting, weight

_LOOP = ("@pipeline*", "unet|in.*", "@scheduler*", "@timesteps*", "@latents*", "@guider*")


def _f(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = (), only: str = "") -> Fault:
    return Fault(name, model, plant, frozenset(causes), where, only)  # type: ignore[arg-type]


def _h(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def _one(path: str, change: Callable[[Any], None]) -> Callable[[Any], set[str]]:
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
    _f(
        "table: rows before columns",
        "mmdit",
        _one("model.pos", lambda p: p.pos_embed.copy_(torch.cat(p.pos_embed.chunk(2, -1)[::-1], -1))),
        "half_swap",
        "part_order",
        "concat_order",
        "weight_values",
        "buffer_values",
    ),
    _f(
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
    _f("table drawn anew", "mmdit", _noisy, "non_deterministic"),
    _f(
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
    _f(
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
    _f(
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
    _f(
        "heads viewed before tokens",
        "mmdit",
        line(
            h.JointAttention,
            ("h.transpose(1, 2).reshape(x.shape[0], -1, x.shape[2])", "h.reshape(x.shape[0], -1, x.shape[2])"),
        ),
        "head_layout",
        "axes_swapped",
    ),
    _f(
        "text result through the image projection",
        "mmdit",
        line(h.JointAttention, ("self.add_out(text)", "self.to_out(text)")),
        "tied_weight",
        "wrong_module",
        "wrong_operand",
        "swapped_weights",
        where=("*add_out|out", "*add_out*", "*to_out*"),
    ),
    _f(
        "shift and scale as (scale, shift) at the end",
        "mmdit",
        line(h.MMDiT, ("scale, shift = self.ada_out", "shift, scale = self.ada_out")),
        "split_order",
    ),
    _f(
        "feed-forward of the text without gate",
        "mmdit",
        line(h.JointBlock, ("gate_tf[:, None] * self.ff_text", "self.ff_text")),
        "left_out",
    ),
    _f(
        "gate of the attention on the feed-forward",
        "mmdit",
        line(h.JointBlock, ("x = x + gate_ff[:, None]", "x = x + gate[:, None]")),
        "wrong_operand",
        "split_order",
    ),
    _f(
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
    _f(
        "modulation without SiLU",
        "mmdit",
        line(h.JointBlock, ("self.ada_text(F.silu(emb))", "self.ada_text(emb)")),
        "activation",
        "left_out",
    ),
    _f(
        "SiLU twice",
        "mmdit",
        line(h.JointBlock, ("self.ada(F.silu(emb))", "self.ada(F.silu(F.silu(emb)))")),
        "call_twice",
        "extra_step",
        "activation",
    ),
    _f(
        "pooled from the first token",
        "mmdit",
        line(h.MMDiT, ("encoder_hidden_states[:, -1]", "encoder_hidden_states[:, 0]")),
        "pooling_index",
        "wrong_index",
    ),
    _f(
        "pixel order inside the patch",
        "mmdit",
        line(h.MMDiT, ("nhwpqc->nchpwq", "nhwqpc->nchpwq")),
        "axes_swapped",
        "head_layout",
    ),
    _f(
        "second block with the weights of the third",
        "mmdit",
        _of_other_block,
        "weight_values",
        "module_weights",
        "swapped_weights",
        "tied_weight",
    ),
    _f(
        "one block in float16",
        "mmdit",
        _one("model.blocks.1.ff", lambda b: _rounded(b, torch.float16)),
        "weights_precision",
        "precision",
        where=("model.blocks.1.ff*",),
        only="fp32",
    ),
    _f(
        "all weights stored in bfloat16",
        "mmdit",
        _all_rounded(torch.bfloat16),
        "weights_precision",
        "precision",
        where=("*",),
        only="fp32",
    ),
    _f(
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
    _f(
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
    _f(
        "distance seen from the other side",
        "t5",
        line(h.T5, ("place[None, :] - place[:, None]", "place[:, None] - place[None, :]")),
        "operand_order",
        "sign",
        "axes_swapped",
    ),
    _f(
        "bucket without the side",
        "t5",
        line(h.T5, ("return side + torch", "return torch"), method="bucket"),
        "left_out",
    ),
    _f(
        "far buckets from 32",
        "t5",
        line(h.T5, ("math.log(16 / exact)", "math.log(32 / exact)"), method="bucket"),
        "constant",
    ),
    _f(
        "bias in the first layer only",
        "t5",
        line(h.T5, ("x = layer(x, bias)", "x, bias = layer(x, bias), torch.zeros_like(bias)")),
        "wrong_operand",
        "left_out",
        "zeroed",
        where=("*layers.1*",),
    ),
    _f(
        "norm with the mean taken off",
        "t5",
        line(h.T5Layer, ("h = self.norm_ff(x)", "h = F.layer_norm(x, x.shape[-1:], self.norm_ff.weight, None, 1e-6)")),
        "norm_kind",
        where=("*norm_ff*",),
    ),
    _f(
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
    _f("exact GELU", "t5", line(h.T5Layer, (', approximate="tanh"', "")), "gelu_variant"),
    _f(
        "final norm twice",
        "t5",
        line(h.T5, ("return self.final_norm(x)", "return self.final_norm(self.final_norm(x))")),
        "call_twice",
        "extra_step",
        where=("*final_norm*", "model|out"),
    ),
    _f(
        "softmax over heads",
        "t5",
        line(h.T5Attention, ("F.softmax(scores.float(), dim=-1)", "F.softmax(scores.float(), dim=1)")),
        "softmax_axis",
        "reduced_axes",
    ),
    _f("RMS eps 1e-3", "t5", setting(m.RMSNorm, "", "eps", 1e-3), "norm_eps"),
    _f(
        "output projection of attention transposed",
        "t5",
        weight(h.T5Attention, "o", "weight", lambda w, _: w.t()),
        "transposed_weight",
    ),
]

OLD = [
    _f(
        "time of the decoder half given to the norm",
        "unet",
        line(m.ResBlock, ("h = self.conv2(F.silu(self.norm2(h)))", "h = self.conv2(self.norm2(F.silu(h)))")),
        "order_exchanged",
        "norm_placement",
    ),
    _f(
        "key rotated before its norm",
        "dit",
        line(m.RotaryAttention, ("self.rotate(self.norm_k(k), angles)", "self.norm_k(self.rotate(k, angles))")),
        "order_exchanged",
        where=("*norm_k*", "*attn*"),
    ),
    _f(
        "up path after the residual block of the middle only",
        "unet",
        line(
            m.UNet,
            (
                "torch.cat([self.up(x), skip], dim=1)",
                "torch.cat([self.up(x), x.repeat_interleave(2, 2).repeat_interleave(2, 3)[:, :16]], dim=1)",
            ),
        ),
        "wrong_operand",
    ),
    _f(
        "skip averaged and blown up",
        "unet",
        line(
            m.UNet,
            (
                "torch.cat([self.up(x), skip], dim=1)",
                "torch.cat([self.up(x), F.interpolate(F.avg_pool2d(skip, 2), scale_factor=2.0)], dim=1)",
            ),
        ),
        "resized",
        "extra_step",
        "wrong_operand",
    ),
    _f(
        "encoder norm over channels of one pixel",
        "vae",
        line(
            m.VaeAttention,
            (
                "h = self.norm(x).flatten(2).transpose(1, 2)",
                "h = F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), self.norm.weight, self.norm.bias, "
                "1e-6).flatten(1, 2)",
            ),
        ),
        "reduced_axes",
        "norm_kind",
        "norm_groups",
        where=("*attn.norm*",),
    ),
    _f(
        "dropout of the positions",
        "clip",
        line(
            m.CLIP, ("self.position_embedding(positions)", "F.dropout(self.position_embedding(positions), 0.05, True)")
        ),
        "dropout",
        "non_deterministic",
        "random_stream",
    ),
]

EDM = [
    _f(
        "rho 5",
        "edm",
        _one("@scheduler", lambda s: setattr(s, "rho", 5.0)),
        "rho",
        "setting_rho",
        "constant",
        where=_LOOP,
    ),
    _f(
        "rho 5 inside the code",
        "edm",
        line(h.EulerScheduler, ("** self.rho\n", "** 5.0\n"), ("(1 / self.rho)", "(1 / 5.0)"), method="set_timesteps"),
        "constant",
        where=_LOOP,
    ),
    _f(
        "last sigma is sigma_min",
        "edm",
        line(h.EulerScheduler, ("[0.0]", "[self.sigma_min]"), method="set_timesteps"),
        "schedule_end",
        "constant",
        where=_LOOP,
    ),
    _f(
        "sigma of the step after",
        "edm",
        line(
            h.EulerScheduler,
            ("(self.sigmas[self.index] ** 2", "(self.sigmas[self.index + 1] ** 2"),
            method="scale_model_input",
        ),
        "wrong_index",
        "index_offset",
        where=_LOOP,
    ),
    _f(
        "input not scaled",
        "edm",
        line(
            h.ImageToImage, ("scaled = self.scheduler.scale_model_input(latents)", "scaled = latents"), method="denoise"
        ),
        "call_left_out",
        "left_out",
        where=_LOOP,
    ),
    _f(
        "input scaled twice",
        "edm",
        line(
            h.ImageToImage,
            ("scale_model_input(latents)", "scale_model_input(self.scheduler.scale_model_input(latents))"),
            method="denoise",
        ),
        "call_twice",
        "extra_step",
        where=_LOOP,
    ),
    _f(
        "posterior sampled",
        "edm",
        line(h.ImageToImage, ("Posterior(moments).mode()", "Posterior(moments).sample(generator)"), method="__call__"),
        "posterior_sample",
        where=(*_LOOP, "@rng*"),
    ),
    _f(
        "guider not reset between stages",
        "edm",
        line(h.ImageToImage, ("self.guider.reset()", "pass"), method="denoise"),
        "stale_state",
        "guider_state",
        "guidance",
        "call_left_out",
        where=_LOOP,
    ),
    _f(
        "guidance from the negative side",
        "edm",
        line(
            h.Guider,
            ("torch.lerp(negative, positive, self.scale)", "torch.lerp(positive, negative, self.scale)"),
            method="combine",
        ),
        "operand_order",
        "guidance",
        "wrong_operand",
        where=_LOOP,
    ),
    _f(
        "noise not scaled by sigma",
        "edm",
        line(h.ImageToImage, ("noise * self.scheduler.sigmas[0].to(latents.dtype)", "noise"), method="denoise"),
        "left_out",
        "scale",
        where=_LOOP,
    ),
    _f(
        "latents not scaled behind the encoder",
        "edm",
        line(h.ImageToImage, (".mode() * self.vae.scaling_factor", ".mode()"), method="__call__"),
        "left_out",
        "scale",
        where=_LOOP,
    ),
    _f(
        "timesteps rounded",
        "edm",
        line(
            h.EulerScheduler,
            ("250.0 * log_sigmas + 310.0)", "np.round(250.0 * log_sigmas + 310.0))"),
            method="set_timesteps",
        ),
        "timestep_dtype",
        "precision",
        "rounded",
        where=_LOOP,
    ),
]

CONTROLS = [
    _h(
        "joint softmax with the text first, cut as such",
        "mmdit",
        line(
            h.JointAttention,
            (
                "torch.cat([q, text_q], dim=2), torch.cat([k, text_k], dim=2), torch.cat([v, text_v], dim=2)",
                "torch.cat([text_q, q], dim=2), torch.cat([text_k, k], dim=2), torch.cat([text_v, v], dim=2)",
            ),
            (
                "image, text = h[:, : x.shape[1]], h[:, x.shape[1] :]",
                "text, image = h.split((text.shape[1], x.shape[1]), dim=1)",
            ),
        ),
    ),
    _h(
        "patches by unfolding",
        "mmdit",
        line(
            h.PatchEmbed,
            (
                "x = self.proj(sample)",
                "x = (self.proj.weight.flatten(1) @ F.unfold(sample, 2, stride=2) + self.proj.bias[:, "
                "None]).unflatten(-1, (sample.shape[2] // 2, -1))",
            ),
        ),
    ),
    _h(
        "modulation by addcmul",
        "mmdit",
        line(
            h.MMDiT,
            (
                "modulate(self.norm_out(x), shift, scale)",
                "torch.addcmul(shift[:, None], self.norm_out(x), 1 + scale[:, None])",
            ),
        ),
    ),
    _h(
        "query and key of both streams negated",
        "mmdit",
        line(
            h.JointAttention,
            ("h = F.scaled_dot_product_attention(q, k, v)", "h = F.scaled_dot_product_attention(-q, -k, v)"),
        ),
    ),
    _h(
        "bias as the mask of the fused kernel",
        "t5",
        line(
            h.T5Attention,
            ("scores = torch.matmul(q, k.transpose(3, 2)) + bias", ""),
            ("weights = F.softmax(scores.float(), dim=-1).type_as(scores)", ""),
            (
                "torch.matmul(weights, v)",
                "F.scaled_dot_product_attention(q, k, v, attn_mask=bias.contiguous(), scale=1.0)",
            ),
        ),
    ),
    _h("bias less a constant, which the softmax does not see", "t5", line(h.T5Attention, ("+ bias", "+ (bias - 3.0)"))),
    _h(
        "gate behind",
        "t5",
        line(
            h.T5Layer,
            (
                'F.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h)',
                'self.wi_1(h) * F.gelu(self.wi_0(h), approximate="tanh")',
            ),
        ),
    ),
    _h("shared norm computed again", "t5", line(h.T5Layer, ("* self.wi_1(h)", "* self.wi_1(self.norm_ff(x))"))),
    _h(
        "step by the ratio of sigmas",
        "edm",
        line(
            h.EulerScheduler, ("derivative = (sample - original) / sigma", "derivative = model_output"), method="step"
        ),
    ),
    _h(
        "guidance written out",
        "edm",
        line(
            h.Guider,
            ("torch.lerp(negative, positive, self.scale)", "negative + self.scale * (positive - negative)"),
            method="combine",
        ),
    ),
    _h(
        "sigmas by torch in float64",
        "edm",
        line(
            h.EulerScheduler,
            ("ramp = np.linspace(0, 1, count)", "ramp = torch.linspace(0, 1, count, dtype=torch.float64).numpy()"),
            method="set_timesteps",
        ),
    ),
    _h(
        "two calls for guidance",
        "edm",
        line(
            h.ImageToImage,
            (
                "prediction = self.unet(torch.cat([scaled] * 2), timestep[None], context)",
                "prediction = torch.cat([self.unet(scaled, timestep[None], context[i : i + 1]) for i in range(2)])",
            ),
            method="denoise",
        ),
    ),
]

FAULTS = [*MMDIT, *T5, *OLD, *EDM]
ALL = [*FAULTS, *CONTROLS]

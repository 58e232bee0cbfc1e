"""The faults, and the harmless changes that must not be called one."""

from __future__ import annotations

import torch

from . import further, reported
from . import models as m
from .pipeline import Pipeline, Scheduler
from .planting import Fault, line, setting, several, weight


def _f(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = (), only: str = "") -> Fault:
    return Fault(name, model, plant, frozenset(causes), where, only)  # type: ignore[arg-type]


def _other(w: torch.Tensor, _: object) -> torch.Tensor:
    return torch.randn(w.shape, generator=torch.Generator().manual_seed(99)) * w.float().std()


UNET = [
    _f("GELU tanh for erf", "unet", line(m.GEGLU, ("F.gelu(gate)", 'F.gelu(gate, approximate="tanh")')), "gelu_variant"),
    _f("GELU quick for erf", "unet", line(m.GEGLU, ("F.gelu(gate)", "gate * torch.sigmoid(1.702 * gate)")), "gelu_variant"),
    _f("GroupNorm eps 1e-6 for 1e-5", "unet", setting(m.ResBlock, "norm1", "eps", 1e-6), "norm_eps"),
    _f("GroupNorm eps 1e-5 for 1e-6 (attention)", "unet", setting(m.SpatialTransformer, "norm", "eps", 1e-5), "norm_eps"),
    _f("gate and value of GEGLU exchanged", "unet", line(m.GEGLU, ("h, gate =", "gate, h =")), "split_order"),
    _f("sine before cosine", "unet", line(m.Timesteps, ("[torch.cos(angles), torch.sin(angles)]", "[torch.sin(angles), torch.cos(angles)]")), "flip_sin_to_cos"),
    _f("frequency shift 1 for 0", "unet", line(m.Timesteps, ("half - 0", "half - 1")), "constant", "freq_shift"),
    _f("skip before upsampled", "unet", line(m.UNet, ("[self.up(x), skip]", "[skip, self.up(x)]")), "concat_order"),
    _f("residual after the norm", "unet", line(m.SpatialTransformer, ("residual = x", "residual = self.norm(x)")), "wrong_operand", "norm_placement"),
    _f("bilinear upsampling", "unet", line(m.Upsample, ('mode="nearest"', 'mode="bilinear"')), "upsample_mode"),
    _f("2 heads for 4", "unet", setting(m.CrossAttention, "", "heads", 2), "attention_heads"),
    _f("bias of conv1 not loaded", "unet", weight(m.ResBlock, "conv1", "bias", lambda w, _: torch.zeros_like(w)), "missing_bias", "weight_values"),
    _f("query weight transposed", "unet", weight(m.SpatialTransformer, "proj_in", "weight", lambda w, _: w.t()), "transposed_weight"),
    _f("2 groups for 4", "unet", setting(m.UNet, "norm_out", "num_groups", 2), "norm_groups"),
    _f("downsampling padded right and below", "unet", line(m.Downsample, ("self.conv(x)", "F.conv2d(F.pad(x, (0, 1, 0, 1)), self.conv.weight, self.conv.bias, stride=2)")), "padding_sides"),
    _f("SiLU of the time left out", "unet", line(m.ResBlock, ("self.time(F.silu(emb))", "self.time(emb)")), "activation"),
    _f("no attention scale", "unet", line(m.CrossAttention, ("attention(q, k, v)", "attention(q, k, v, scale=1.0)")), "attention_scale"),
    _f("timestep in bfloat16", "unet", line(m.Timesteps, ("timestep.float()", "timestep.to(torch.bfloat16).float()")), "precision", "timestep_dtype"),
    _f("one block in bfloat16", "unet", line(m.GEGLU, ("self.out(h * F.gelu(gate))", "self.out((h * F.gelu(gate)).bfloat16().to(x.dtype))")), "precision", only="fp32"),
    _f("weight of conv2 from elsewhere", "unet", weight(m.ResBlock, "conv2", "weight", _other), "weight_values"),
    _f("norm2 used twice", "unet", line(m.TransformerBlock, ("self.ff(self.norm3(x))", "self.ff(self.norm2(x))")), "tied_weight", "swapped_weights", "wrong_operand", where=("*norm3|out",)),
    _f("image features in the wrong memory order", "unet", line(m.SpatialTransformer, ("h.transpose(1, 2).unflatten(-1, (height, width))", "h.reshape(x.shape)")), "head_layout", "axes_swapped", "interleave"),
    _f("heads not put back", "unet", line(m.CrossAttention, ("h.transpose(1, 2).flatten(2)", "h.reshape(x.shape[0], x.shape[1], -1)")), "head_layout"),
    _f("time subtracted", "unet", line(m.ResBlock, ("h = h + self.time", "h = h - self.time")), "sign", "operand_order"),
]  # fmt: skip

_INTERLEAVED = (
    ("first, second = x.chunk(2, dim=-1)", "first, second = x[..., ::2], x[..., 1::2]"),
    ("turned = torch.cat([-second, first], dim=-1)", "turned = torch.stack([-second, first], dim=-1).flatten(-2)"),
)
_PER_HEAD = (
    "q, k, v = self.qkv(x).chunk(3, dim=-1)",
    "q, k, v = (t.flatten(-2) for t in self.qkv(x).unflatten(-1, (self.heads, 3, -1)).unbind(-2))",
)
DIT = [
    _f("GELU erf for tanh", "dit", line(m.Mlp, (', approximate="tanh"', "")), "gelu_variant"),
    _f("scale before shift", "dit", line(m.DiTBlock, ("shift1, scale1, gate1,", "scale1, shift1, gate1,")), "split_order"),
    _f("rotary lanes interleaved", "dit", several(line(m.RotaryAttention, *_INTERLEAVED, method="rotate"), line(m.Rotary, ("torch.cat([angles, angles], dim=-1)", "angles.repeat_interleave(2, dim=-1)"))), "rope_lanes", "concat_interleave"),
    _f("rotary turned the other way", "dit", line(m.RotaryAttention, ("[-second, first]", "[second, -first]"), method="rotate"), "sign"),
    _f("order k, v, q", "dit", line(m.RotaryAttention, ("q, k, v = self.qkv", "k, v, q = self.qkv")), "split_order", "qkv_order"),
    _f("projections interleaved per head", "dit", line(m.RotaryAttention, _PER_HEAD), "split_interleave"),
    _f("rotary base 1000", "dit", line(m.Rotary, ("10000.0 **", "1000.0 **")), "constant"),
    _f("scale for 1 + scale", "dit", line(m.DiTBlock, ("(1 + scale1)", "scale1")), "left_out", "constant"),
    _f("gate left out", "dit", line(m.DiTBlock, ("x + gate2 * self.mlp", "x + self.mlp")), "left_out"),
    _f("RMSNorm eps 1e-5 for 1e-6", "dit", setting(m.RMSNorm, "", "eps", 1e-5), "norm_eps"),
    _f("LayerNorm eps 1e-5 for 1e-6", "dit", setting(m.DiTBlock, "norm1", "eps", 1e-5), "norm_eps"),
    _f("patch axes exchanged at the end", "dit", line(m.DiT, ("x.permute(0, 5, 1, 3, 2, 4)", "x.permute(0, 5, 1, 4, 2, 3)")), "axes_swapped", "head_layout"),
    _f("channels first inside a patch", "dit", line(m.DiT, ("x.permute(0, 2, 4, 3, 5, 1)", "x.permute(0, 2, 4, 1, 3, 5)")), "interleave", "input_order", "head_layout"),
    _f("rotary frequencies in bfloat16", "dit", line(m.Rotary, ("frequencies[None]", "frequencies[None].bfloat16().float()")), "precision"),
    _f("first token for the mean", "dit", line(m.DiT, ("encoder_hidden_states.mean(dim=1)", "encoder_hidden_states[:, 0]")), "pooling_kind", "pooling_index"),
    _f("gates exchanged", "dit", line(m.DiTBlock, ("shift1, scale1, gate1, shift2, scale2, gate2 =", "shift1, scale1, gate2, shift2, scale2, gate1 =")), "split_order"),
    _f("query not normalized", "dit", line(m.RotaryAttention, ("self.norm_q(q)", "q")), "left_out"),
    _f("causal attention", "dit", line(m.RotaryAttention, ("attention(q, k, v)", "attention(q, k, v, is_causal=True)")), "causal_mask"),
    _f("projection rows in halves exchanged", "dit", weight(m.DiT, "modulation_out", "weight", lambda w, _: torch.cat(w.chunk(2)[::-1])), "part_order", "half_swap", "weight_values"),
]  # fmt: skip

VAE = [
    _f("decoded with scaling factor 0.13025", "vae", line(m.VAE, ("latents / self.scaling_factor", "latents / 0.13025"), method="decode"), "constant", "scale"),
    _f("shift left out in decode", "vae", line(m.VAE, (" + self.shift_factor", ""), method="decode"), "left_out", "constant"),
    _f("image in [0, 1]", "vae", line(m.VAE, ("image * 2 - 1", "image")), "left_out", "value_range", "constant", "wrong_operand"),
    _f("padding left and above", "vae", line(m.PaddedDownsample, ("(0, 1, 0, 1)", "(1, 0, 1, 0)")), "padding_sides"),
    _f("replicated padding", "vae", line(m.PaddedDownsample, ('mode="constant", value=0.0', 'mode="replicate"')), "padding_mode"),
    _f("bilinear upsampling", "vae", line(m.Upsample, ('mode="nearest"', 'mode="bilinear", align_corners=True')), "upsample_mode"),
    _f("attention GroupNorm eps 1e-5", "vae", setting(m.VaeAttention, "norm", "eps", 1e-5), "norm_eps"),
    _f("attention without residual", "vae", line(m.VaeAttention, ("return x + self.to_out(h)", "return self.to_out(h)")), "left_out"),
    _f("mean and variance exchanged", "vae", line(m.VAE, ("mean, variance =", "variance, mean =")), "split_order"),
    _f("post_quant_conv left out", "vae", line(m.VAE, ("self.post_quant_conv(latents / self.scaling_factor + self.shift_factor)", "latents / self.scaling_factor + self.shift_factor"), method="decode"), "left_out"),
    _f("result not brought to [0, 1]", "vae", line(m.VAE, ("decoded / 2 + 0.5", "decoded"), method="decode"), "left_out", "constant", "value_range", "wrong_operand"),
    _f("kernels with height and width exchanged", "vae", weight(m.Decoder, "conv_in", "weight", lambda w, _: w.transpose(2, 3)), "transposed_weight"),
    _f("kernels mirrored", "vae", weight(m.Encoder, "conv_in", "weight", lambda w, _: w.flip(2, 3)), "flipped_kernel"),
    _f("BGR for RGB", "vae", line(m.VAE, ("image * 2 - 1", "image.flip(1) * 2 - 1")), "channel_order", "reversed"),
    _f("standard deviation from variance, not half of it", "vae", line(m.VAE, ("torch.exp(0.5 * variance", "torch.exp(1.0 * variance")), "constant", "left_out"),
    _f("GroupNorm eps of the residual blocks 1e-6", "vae", setting(m.ResBlock, "norm2", "eps", 1e-6), "norm_eps"),
    _f("zeros for the circular border", "vae", setting(m.Decoder, "conv_out", "padding_mode", "circular"), "padding_mode"),
]  # fmt: skip

_POOLED = (
    "pooled = x[torch.arange(x.shape[0]), input_ids.argmax(dim=-1)]",
    "pooled = x[torch.arange(x.shape[0]), torch.full((x.shape[0],), -1)]",
)
CLIP = [
    _f("GELU for quick GELU", "clip", line(m.QuickGELU, ("x * torch.sigmoid(1.702 * x)", "F.gelu(x)")), "gelu_variant"),
    _f("no causal mask", "clip", line(m.ClipAttention, (".tril()", "")), "causal_mask", "attention_mask"),
    _f("last token pooled", "clip", line(m.CLIP, _POOLED), "pooling_index"),
    _f("positions from 1", "clip", line(m.CLIP, ("torch.arange(input_ids.shape[1])", "torch.arange(1, input_ids.shape[1] + 1)")), "position_offset", "index_offset"),
    _f("final norm left out", "clip", line(m.CLIP, ("x = self.final_layer_norm(x)", "x = x + 0")), "left_out"),
    _f("LayerNorm eps 1e-6", "clip", setting(m.ClipLayer, "layer_norm2", "eps", 1e-6), "norm_eps"),
    _f("scale of the whole width", "clip", setting(m.ClipAttention, "", "scale", 24**-0.5), "attention_scale"),
    _f("norm after the sum", "clip", line(m.ClipLayer, ("x = x + self.self_attn(self.layer_norm1(x))", "x = self.layer_norm1(x + self.self_attn(x))")), "norm_placement"),
    _f("token table from elsewhere", "clip", weight(m.CLIP, "token_embedding", "weight", _other), "weight_values"),
    _f("softmax over queries", "clip", line(m.ClipAttention, ("dim=-1)\n", "dim=-2)\n")), "softmax_axis"),
    _f("value weight tied to key", "clip", weight(m.ClipAttention, "v_proj", "weight", lambda w, a: a.k_proj.weight.detach()), "tied_weight", "weight_values"),
    _f("pooled before the final norm", "clip", line(m.CLIP, ("x = self.final_layer_norm(x)", "before, x = x, self.final_layer_norm(x)"), ("pooled = x[", "pooled = before[")), "wrong_operand"),
    _f("bias of the query left out", "clip", weight(m.ClipAttention, "q_proj", "bias", lambda w, _: torch.zeros_like(w)), "missing_bias"),
    _f("query and key weights exchanged", "clip", several(weight(m.ClipAttention, "q_proj", "weight", lambda w, a: a.k_proj.weight.detach())), "tied_weight", "swapped_weights", "weight_values"),
    _f("head of another width", "clip", setting(m.ClipAttention, "", "heads", 6), "attention_heads"),
]  # fmt: skip

_LOOP = ("@pipeline*", "unet|in.*", "@scheduler*", "@timesteps*")
_RNG = ("@rng*",)
PIPELINE = [
    _f("guidance w - 1", "pipeline", line(Pipeline, ("guidance_scale * (cond", "(guidance_scale - 1) * (cond"), method="__call__"), "guidance", "constant", where=_LOOP),
    _f("conditional and unconditional exchanged", "pipeline", line(Pipeline, ("uncond, cond =", "cond, uncond ="), method="__call__"), "split_order", "guidance", where=_LOOP),
    _f("contexts joined the other way", "pipeline", line(Pipeline, ("[negative, embeds]", "[embeds, negative]"), method="__call__"), "concat_order", "half_swap", where=_LOOP),
    _f("steps_offset 0", "pipeline", setting(Scheduler, "", "steps_offset", 0), "steps_offset", "timestep_offset", where=_LOOP),
    _f("v-prediction for epsilon", "pipeline", setting(Scheduler, "", "prediction_type", "v_prediction"), "prediction_type", where=_LOOP),
    _f("trailing timesteps", "pipeline", setting(Scheduler, "", "timestep_spacing", "trailing"), "timestep_spacing", where=_LOOP),
    _f("timestep in bfloat16", "pipeline", line(Pipeline, ("timestep[None], context", "timestep[None].to(torch.bfloat16), context"), method="__call__"), "timestep_dtype", "precision", where=_LOOP),
    _f("noise drawn in bfloat16", "pipeline", line(Pipeline, ("generator=generator).to(dtype)", "generator=generator).bfloat16().to(dtype)"), method="__call__"), "precision", where=_LOOP, only="fp32"),
    _f("global generator", "pipeline", line(Pipeline, ("torch.randn(1, 4, 8, 8, generator=generator)", "torch.randn(1, 4, 8, 8)"), method="__call__"), "random_stream", where=_RNG),
    _f("one draw too many", "pipeline", line(Pipeline, ("latents = torch.randn(", "torch.randn(1, 4, 8, 8, generator=generator)\n    latents = torch.randn("), method="__call__"), "random_offset", "random_stream", where=(*_RNG, *_LOOP)),
    _f("noise of one value per patch", "pipeline", line(Pipeline, ("torch.randn(1, 4, 8, 8, generator=generator)", "torch.randn(1, 4, 8, 8, generator=generator)[..., ::2, ::2].repeat_interleave(2, 2).repeat_interleave(2, 3)"), method="__call__"), "patch_noise", "repeat_kind", where=_LOOP),
    _f("initial noise scaled", "pipeline", setting(Scheduler, "", "init_noise_sigma", 1.1), "init_noise_sigma", "scale", "constant", where=_LOOP),
    _f("last alpha 1", "pipeline", setting(Scheduler, "", "set_alpha_to_one", True), "set_alpha_to_one", where=("@scheduler*", "@latents*")),
    _f("decoded without the scaling factor", "pipeline", setting(m.VAE, "", "scaling_factor", 1.0), "setting_scaling_factor", "scale"),
    _f("steps start from the first noise", "pipeline", line(Pipeline, ("latents = latents * self.scheduler.init_noise_sigma", "latents = first = latents * self.scheduler.init_noise_sigma"), ("timestep, latents)", "timestep, first)"), method="__call__"), "wrong_operand", "provenance", where=_LOOP),
    _f("previous timestep off by one", "pipeline", line(Scheduler, ("previous = int(timestep) - self", "previous = int(timestep) + 1 - self"), method="step"), "coefficients", "wrong_index", where=_LOOP),
    _f("betas not squared roots", "pipeline", line(Scheduler, ("torch.linspace(0.00085**0.5, 0.012**0.5, self.num_train_timesteps, dtype=torch.float64) ** 2", "torch.linspace(0.00085, 0.012, self.num_train_timesteps, dtype=torch.float64)"), method="alphas_cumprod"), "coefficients", where=_LOOP),
    _f("first step without guidance", "pipeline", line(Pipeline, ("guided = uncond + guidance_scale *", "guided = uncond + (1.0 if timestep == self.scheduler.timesteps[0] else guidance_scale) *"), method="__call__"), "guidance", "constant", where=_LOOP),
    _f("GELU tanh in the UNet", "pipeline", line(m.GEGLU, ("F.gelu(gate)", 'F.gelu(gate, approximate="tanh")')), "gelu_variant"),
    _f("GroupNorm eps in the VAE", "pipeline", setting(m.VaeAttention, "norm", "eps", 1e-2), "norm_eps"),
]  # fmt: skip


def _h(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def _c(name: str, model: str, run: str) -> Fault:
    return Fault(name, model, lambda target: set(), harmless=True, run=run)


def _fold_scale(target: object) -> set[str]:
    """The attention scale multiplied into the query's weights."""
    for module in target.modules():  # type: ignore[attr-defined]
        if type(module) is m.ClipAttention:
            with torch.no_grad():
                module.q_proj.weight.mul_(module.scale)
                module.q_proj.bias.mul_(module.scale)
            module.scale = 1.0
    return set()


def _permuted_lanes(target: object) -> set[str]:
    """Interleaved rotary lanes, and the weights dealt to fit them: the same function."""
    line(m.RotaryAttention, *_INTERLEAVED, method="rotate")(target)
    line(m.Rotary, ("torch.cat([angles, angles], dim=-1)", "angles.repeat_interleave(2, dim=-1)"))(target)
    for module in target.modules():  # type: ignore[attr-defined]
        if isinstance(module, m.RotaryAttention):
            width = module.out.in_features // module.heads
            order = torch.arange(width).view(2, -1).t().reshape(-1)
            with torch.no_grad():
                for part in (module.qkv.weight, module.qkv.bias):
                    query_key, value = part.split((2 * module.out.in_features, module.out.in_features))
                    dealt = query_key.unflatten(0, (-1, width))[:, order].flatten(0, 1)
                    part.copy_(torch.cat([dealt, value]))
                module.norm_q.weight.copy_(module.norm_q.weight[order])
                module.norm_k.weight.copy_(module.norm_k.weight[order])
    return set()


_SPLIT_QKV = (
    "q, k, v = self.qkv(x).chunk(3, dim=-1)",
    "q, k, v = (F.linear(x, w, b) for w, b in zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)))",
)
_SDPA = (
    ("scores = torch.matmul(q * self.scale, k.transpose(-1, -2))", ""),
    ("mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()", ""),
    ('weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)', ""),
    ("torch.matmul(weights, v)", "F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)"),
)
_BY_HAND = (
    "h = F.scaled_dot_product_attention(q, k, v)",
    "h = torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v",
)
HARMLESS = [
    *[_c(f"{run} ({model})", model, run) for model in ("unet", "dit", "vae", "clip") for run in ("rerun", "threads", "math kernel", "batch copy", "fp64", "no oneDNN", "strided weights", "channels last" if model in ("unet", "vae") else "half batch")],
    *[_c(f"{run} (pipeline)", "pipeline", run) for run in ("rerun", "threads", "math kernel", "no oneDNN", "strided weights")],
    _h("attention by hand", "unet", line(m.CrossAttention, _BY_HAND)),
    _h("sum in the other order", "unet", line(m.ResBlock, ("return x + h", "return h + x"))),
    _h("GELU by its formula", "unet", line(m.GEGLU, ("F.gelu(gate)", "(0.5 * gate * (1 + torch.erf(gate * 0.5**0.5)))"))),
    _h("upsampling by repetition", "unet", line(m.Upsample, ('F.interpolate(x, scale_factor=2.0, mode="nearest")', "x.repeat_interleave(2, 2).repeat_interleave(2, 3)"))),
    _h("rotary lanes and weights dealt", "dit", _permuted_lanes),
    _h("fused projection split", "dit", line(m.RotaryAttention, _SPLIT_QKV)),
    _h("attention by hand", "dit", line(m.RotaryAttention, _BY_HAND)),
    _h("positions from 1 (relative)", "dit", line(m.Rotary, ("torch.arange(tokens.shape[1], dtype=torch.float32)", "torch.arange(1, tokens.shape[1] + 1, dtype=torch.float32)"))),
    _h("x + x scale for x (1 + scale)", "dit", line(m.DiTBlock, ("self.norm1(x) * (1 + scale1)", "(self.norm1(x) + self.norm1(x) * scale1)"))),
    _h("gate behind the feed-forward", "dit", line(m.DiTBlock, ("gate2 * self.mlp(", "self.mlp("), ("+ shift2)", "+ shift2) * gate2"))),
    _h("fused kernel for the written-out attention", "clip", line(m.ClipAttention, *_SDPA)),
    _h("scale folded into the query", "clip", _fold_scale),
    _h("SiLU of 1.702 x", "clip", line(m.QuickGELU, ("x * torch.sigmoid(1.702 * x)", "F.silu(1.702 * x) / 1.702"))),
    _h("attention by hand", "vae", line(m.VaeAttention, ("F.scaled_dot_product_attention(self.to_q(h)[:, None], self.to_k(h)[:, None], self.to_v(h)[:, None])[:, 0]", "torch.softmax(self.to_q(h) @ self.to_k(h).transpose(1, 2) * h.shape[-1] ** -0.5, -1) @ self.to_v(h)"))),
    _h("SiLU by its formula", "vae", line(m.ResBlock, ("F.silu(self.norm1(x))", "self.norm1(x) * torch.sigmoid(self.norm1(x))"))),
    _h("scaling factor changed both ways", "vae", setting(m.VAE, "", "scaling_factor", 0.13025)),
    _h("guidance as (1 - w) u + w c", "pipeline", line(Pipeline, ("guided = uncond + guidance_scale * (cond - uncond)", "guided = (1 - guidance_scale) * uncond + guidance_scale * cond"), method="__call__")),
    _h("guidance from the condition", "pipeline", line(Pipeline, ("guided = uncond + guidance_scale * (cond - uncond)", "guided = cond + (guidance_scale - 1) * (cond - uncond)"), method="__call__")),
    _h("steps by x0 and direction in float64", "pipeline", line(Scheduler, ("original, noise = (sample - rest * model_output) / root, model_output", "original, noise = ((sample.double() - rest.double() * model_output.double()) / root.double()).to(sample.dtype), model_output"), method="step")),
]  # fmt: skip

FIRST = [*UNET, *DIT, *VAE, *CLIP, *PIPELINE, *HARMLESS]  # with every seed
HARMLESS += [*further.HARMLESS, *reported.HARMLESS]
FAULTS = [*UNET, *DIT, *VAE, *CLIP, *PIPELINE, *further.FAULTS, *reported.FAULTS]
ALL = [*FAULTS, *HARMLESS]

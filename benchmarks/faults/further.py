"""More faults and more harmless changes: written after the causes were, so that they were not made for them."""

from __future__ import annotations

import torch

from . import models as m
from .pipeline import Pipeline, Scheduler
from .planting import Fault, line, setting, several, weight

_LOOP = ("@pipeline*", "unet|in.*", "@scheduler*", "@timesteps*", "@latents*")


def _f(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = (), only: str = "") -> Fault:
    return Fault(name, model, plant, frozenset(causes), where, only)  # type: ignore[arg-type]


def _h(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def _run_before(target: Pipeline) -> set[str]:
    """The same object has already made a picture."""
    with torch.no_grad():
        target(num_inference_steps=2, generator=torch.Generator().manual_seed(77))
    return set()


_SDPA = "h = F.scaled_dot_product_attention(q, k, v)"
UNET = [
    _f("GroupNorm eps of one block in the middle", "unet", setting(m.UNet, "norm_out", "eps", 1e-6), "norm_eps"),
    _f("GroupNorm eps 1e-3", "unet", setting(m.SpatialTransformer, "norm", "eps", 1e-3), "norm_eps"),
    _f("ReLU for SiLU", "unet", line(m.ResBlock, ("self.conv1(F.silu(", "self.conv1(F.relu(")), "activation"),
    _f("sigmoid gate for GELU", "unet", line(m.GEGLU, ("F.gelu(gate)", "torch.sigmoid(gate)")), "activation"),
    _f("time added behind the second norm", "unet", line(m.ResBlock, ("h = h + self.time(F.silu(emb))[:, :, None, None]", "pass"), ("self.conv2(F.silu(self.norm2(h)))", "self.conv2(F.silu(self.norm2(h) + self.time(F.silu(emb))[:, :, None, None])) if emb is not None else self.conv2(F.silu(self.norm2(h)))")), "order_exchanged", "norm_placement", "left_out", "wrong_operand"),
    _f("shortcut left out of the sum", "unet", line(m.ResBlock, ("return x + h", "return h")), "left_out"),
    _f("sum of the block halved", "unet", line(m.ResBlock, ("return x + h", "return (x + h) / 2")), "residual_scale", "scale", "constant", "extra_step"),
    _f("sum of the block over sqrt 2", "unet", line(m.ResBlock, ("return x + h", "return (x + h) / 2**0.5")), "residual_scale", "scale", "extra_step"),
    _f("key and value exchanged", "unet", line(m.CrossAttention, (_SDPA, "h = F.scaled_dot_product_attention(q, v, k)")), "qkv_order"),
    _f("self attention sees itself before the norm", "unet", line(m.TransformerBlock, ("self.attn1(self.norm1(x))", "self.attn1(x)")), "left_out", "wrong_operand", "norm_placement"),
    _f("attention scale of all heads", "unet", line(m.CrossAttention, ("attention(q, k, v)", "attention(q, k, v, scale=(q.shape[1] * q.shape[-1]) ** -0.5)")), "attention_scale"),
    _f("heads dealt by channel", "unet", line(m.CrossAttention, ("q = self.to_q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)", "q = self.to_q(x).unflatten(-1, (-1, self.heads)).permute(0, 3, 1, 2)")), "head_layout", "interleave", "axes_swapped"),
    _f("downsampling by average", "unet", line(m.Downsample, ("self.conv(x)", "F.avg_pool2d(F.conv2d(x, self.conv.weight, self.conv.bias, padding=1), 2)")), "stride", "pooling_kind"),
    _f("stride before the padding", "unet", line(m.Downsample, ("self.conv(x)", "F.conv2d(x, self.conv.weight, self.conv.bias, padding=1)[:, :, 1::2, 1::2]")), "stride", "padding_sides"),
    _f("upsampling nearest-exact of a shifted grid", "unet", line(m.Upsample, ('F.interpolate(x, scale_factor=2.0, mode="nearest")', 'F.interpolate(x, scale_factor=2.0, mode="nearest").roll(1, -1)')), "shifted"),
    _f("maximum period 1000", "unet", line(m.Timesteps, ("math.log(10000)", "math.log(1000)")), "constant"),
    _f("timestep cut to an integer", "unet", line(m.Timesteps, ("timestep.float()", "timestep.long().float()")), "timestep_dtype", "precision"),
    _f("timestep as a share of 1000", "unet", line(m.Timesteps, ("timestep.float()", "(timestep.float() / 1000)")), "scale", "constant"),
    _f("frequencies in float16", "unet", line(m.Timesteps, ("torch.exp(exponent)[None]", "torch.exp(exponent)[None].half().float()")), "precision"),
    _f("kernel of the output mirrored", "unet", weight(m.UNet, "conv_out", "weight", lambda w, _: w.flip(3)), "flipped_kernel", "weight_values"),
    _f("kernel transposed in and out", "unet", weight(m.Downsample, "conv", "weight", lambda w, _: w.transpose(0, 1)), "transposed_weight"),
    _f("weights of one layer in bfloat16", "unet", weight(m.GEGLU, "proj", "weight", lambda w, _: w.bfloat16().float()), "precision", "weights_precision", only="fp32"),
    _f("norm without its weights", "unet", several(weight(m.SpatialTransformer, "norm", "weight", lambda w, _: torch.ones_like(w)), weight(m.SpatialTransformer, "norm", "bias", lambda w, _: torch.zeros_like(w))), "norm_affine", "weight_values", "missing_bias"),
    _f("norm weight one too large", "unet", weight(m.SpatialTransformer, "norm", "weight", lambda w, _: w + 1), "norm_affine", "weight_values"),
    _f("skip taken before the attention", "unet", line(m.UNet, ("skip = self.down_attn(self.down_res(x, emb), encoder_hidden_states)\n", "skip = self.down_res(x, emb)\n"), ("x = self.down(skip)", "x = self.down(self.down_attn(skip, encoder_hidden_states))")), "wrong_operand"),
    _f("output sign", "unet", line(m.UNet, ("return self.conv_out(F.silu(self.norm_out(x)))", "return -self.conv_out(F.silu(self.norm_out(x)))")), "sign", "scale"),
    _f("dropout left on", "unet", line(m.GEGLU, ("self.out(h * F.gelu(gate))", "self.out(F.dropout(h * F.gelu(gate), 0.1, training=True))")), "dropout", "random_stream"),
    _f("gate first in the weights", "unet", weight(m.GEGLU, "proj", "weight", lambda w, _: torch.cat(w.chunk(2)[::-1])), "part_order", "half_swap", "weight_values"),
    _f("image rows and columns exchanged in the tokens", "unet", line(m.SpatialTransformer, ("h = self.norm(x).flatten(2)", "h = self.norm(x).transpose(2, 3).flatten(2)"), ), "axes_swapped", "head_layout", "interleave"),
    _f("unbiased variance in the norm", "unet", line(m.SpatialTransformer, ("h = self.norm(x).flatten(2)", "g = x.unflatten(1, (4, -1)).flatten(2)\n    g = ((g - g.mean(-1, keepdim=True)) / (g.var(-1, keepdim=True) + 1e-6).sqrt()).view_as(x)\n    h = (g * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]).flatten(2)")), "norm_estimator"),
    _f("feed-forward skipped", "unet", line(m.TransformerBlock, ("return x + self.ff(self.norm3(x))", "return x")), "left_out"),
]  # fmt: skip

DIT = [
    _f("rotary angles in bfloat16", "dit", line(m.Rotary, ("torch.cat([angles, angles], dim=-1)", "torch.cat([angles, angles], dim=-1).bfloat16().float()")), "precision"),
    _f("rotary positions from the other end", "dit", line(m.Rotary, ("position = torch.arange(tokens.shape[1], dtype=torch.float32)", "position = torch.arange(tokens.shape[1], dtype=torch.float32).flip(0)")), "position_order", "reversed", "sign"),
    _f("rotary positions halved", "dit", line(m.Rotary, ("angles = position[:, None]", "angles = 0.5 * position[:, None]")), "scale", "constant"),
    _f("rotary on the query alone", "dit", line(m.RotaryAttention, ("self.rotate(self.norm_k(k), angles)", "self.norm_k(k)")), "left_out", "rope_missing"),
    _f("rotary left out", "dit", line(m.RotaryAttention, ("self.rotate(self.norm_q(q), angles), self.rotate(self.norm_k(k), angles)", "self.norm_q(q), self.norm_k(k)")), "left_out", "rope_missing"),
    _f("rotary before the norm", "dit", line(m.RotaryAttention, ("self.rotate(self.norm_q(q), angles), self.rotate(self.norm_k(k), angles)", "self.norm_q(self.rotate(q, angles)), self.norm_k(self.rotate(k, angles))")), "norm_placement"),
    _f("sine and cosine exchanged", "dit", line(m.RotaryAttention, ("x * torch.cos(angles).to(x.dtype) + turned * torch.sin(angles).to(x.dtype)", "x * torch.sin(angles).to(x.dtype) + turned * torch.cos(angles).to(x.dtype)"), method="rotate"), "sin_cos"),
    _f("lanes repeated element by element", "dit", line(m.Rotary, ("torch.cat([angles, angles], dim=-1)", "angles.repeat_interleave(2, dim=-1)")), "concat_interleave", "repeat_kind", "rope_lanes", "interleave"),
    _f("rotary of the whole width's exponent", "dit", line(m.Rotary, ("/ self.width)", "/ (4 * self.width))")), "constant"),
    _f("qk norms exchanged", "dit", line(m.RotaryAttention, ("self.norm_q(q)", "self.norm_k(q)"), ("self.rotate(self.norm_k(k)", "self.rotate(self.norm_q(k)")), "swapped_weights", "tied_weight"),
    _f("RMSNorm with the mean subtracted", "dit", line(m.RMSNorm, ("variance = x.float().pow(2).mean(-1, keepdim=True)", "x = x - x.mean(-1, keepdim=True)\n    variance = x.float().pow(2).mean(-1, keepdim=True)")), "norm_kind"),
    _f("RMSNorm by the sum", "dit", line(m.RMSNorm, (".pow(2).mean(", ".pow(2).sum(")), "pooling_kind", "constant", "scale"),
    _f("RMSNorm weight one too large", "dit", line(m.RMSNorm, ("* self.weight", "* (1 + self.weight)")), "norm_affine", "modulation", "constant"),
    _f("RMSNorm weight left out", "dit", line(m.RMSNorm, (" * self.weight", "")), "left_out", "norm_affine"),
    _f("gate through tanh", "dit", line(m.DiTBlock, ("gate1 * self.attn", "torch.tanh(gate1) * self.attn")), "activation"),
    _f("SiLU of the time left out", "dit", line(m.DiTBlock, ("self.modulation(F.silu(emb))", "self.modulation(emb)")), "activation", "left_out"),
    _f("caption not added", "dit", line(m.DiT, ("emb = emb + self.caption(encoder_hidden_states.mean(dim=1))", "pass")), "left_out"),
    _f("caption of the sum", "dit", line(m.DiT, ("encoder_hidden_states.mean(dim=1)", "encoder_hidden_states.sum(dim=1)")), "pooling_kind"),
    _f("norms of the block exchanged places", "dit", line(m.DiTBlock, ("self.mlp(self.norm2(x) * (1 + scale2) + shift2)", "self.mlp(self.norm2(x) + shift2)")), "left_out"),
    _f("second scale for the first", "dit", line(m.DiTBlock, ("(1 + scale2) + shift2", "(1 + scale1) + shift2")), "wrong_operand", "split_order"),
    _f("shift added before the scale", "dit", line(m.DiTBlock, ("self.norm1(x) * (1 + scale1) + shift1", "(self.norm1(x) + shift1) * (1 + scale1)")), "order_exchanged", "modulation"),
    _f("attention sees the unmodulated input", "dit", line(m.DiTBlock, ("self.attn(self.norm1(x) * (1 + scale1) + shift1, angles)", "self.attn(self.norm1(x), angles)")), "left_out", "wrong_operand"),
    _f("projections q, v, k", "dit", line(m.RotaryAttention, ("q, k, v = self.qkv", "q, v, k = self.qkv")), "split_order", "qkv_order"),
    _f("attention scale by width", "dit", line(m.RotaryAttention, ("attention(q, k, v)", "attention(q, k, v, scale=q.shape[-1] ** -1.0)")), "attention_scale"),
    _f("patches read column by column", "dit", line(m.DiT, ("x.permute(0, 2, 4, 3, 5, 1)", "x.permute(0, 4, 2, 3, 5, 1)")), "axes_swapped", "head_layout", "interleave", "permutation"),
    _f("last block only once", "dit", line(m.DiT, ("for block in self.blocks:", "for block in self.blocks[:1]:")), "left_out"),
    _f("blocks run twice", "dit", line(m.DiT, ("x = block(x, emb, angles)", "x = block(block(x, emb, angles), emb, angles)")), "call_twice"),
    _f("output modulation exchanged", "dit", line(m.DiT, ("shift, scale = self.modulation_out", "scale, shift = self.modulation_out")), "split_order"),
    _f("bias of the attention twice", "dit", line(m.RotaryAttention, ("self.out(h.transpose(1, 2).flatten(2))", "self.out(h.transpose(1, 2).flatten(2)) + self.out.bias")), "double_bias", "extra_step"),
    _f("block order reversed", "dit", line(m.DiT, ("for block in self.blocks:", "for block in reversed(self.blocks):")), "module_order", "order_exchanged", "swapped_weights"),
]  # fmt: skip

VAE = [
    _f("encoder's mean without the scale", "vae", line(m.VAE, (") * self.scaling_factor", ")")), "left_out", "constant"),
    _f("shift before scale in decode", "vae", line(m.VAE, ("latents / self.scaling_factor + self.shift_factor", "(latents + self.shift_factor) / self.scaling_factor"), method="decode"), "order_exchanged"),
    _f("multiplied by the scaling factor", "vae", line(m.VAE, ("latents / self.scaling_factor", "latents * self.scaling_factor"), method="decode"), "constant", "operand_order", "scale", "inverse"),
    _f("shift subtracted", "vae", line(m.VAE, ("+ self.shift_factor", "- self.shift_factor"), method="decode"), "constant", "sign"),
    _f("result not clamped", "vae", line(m.VAE, (".clamp(0, 1)", ""), method="decode"), "clamp", "left_out"),
    _f("result clamped to [-1, 1] first", "vae", line(m.VAE, ("(decoded / 2 + 0.5)", "(decoded.clamp(-0.3, 0.3) / 2 + 0.5)"), method="decode"), "clamp"),
    _f("variance not clamped so far", "vae", line(m.VAE, ("clamp(-30, 20)", "clamp(-0.5, 0.5)")), "clamp", "constant"),
    _f("image in 0..255", "vae", line(m.VAE, ("image * 2 - 1", "image * 255 * 2 - 1")), "constant", "scale", "value_range"),
    _f("attention over channels", "vae", line(m.VaeAttention, ("self.to_v(h)[:, None])[:, 0]", "self.to_v(h)[:, None], scale=1.0)[:, 0]")), "attention_scale"),
    _f("attention residual of the norm", "vae", line(m.VaeAttention, ("return x + self.to_out(h)", "return self.norm(x) + self.to_out(h)")), "wrong_operand"),
    _f("attention tokens transposed", "vae", line(m.VaeAttention, ("h = self.norm(x).flatten(2).transpose(1, 2)", "h = self.norm(x).flatten(2).reshape(x.shape[0], height * width, -1)")), "head_layout", "axes_swapped", "interleave"),
    _f("one group fewer in the mid block", "vae", setting(m.VaeAttention, "norm", "num_groups", 8), "norm_groups"),
    _f("padding of two", "vae", line(m.PaddedDownsample, ("(0, 1, 0, 1)", "(1, 1, 1, 1)"), ("self.conv(", "self.conv("), ("value=0.0))", "value=0.0))[:, :, :8, :8]")), "padding_sides"),
    _f("bicubic upsampling", "vae", line(m.Upsample, ('mode="nearest"', 'mode="bicubic"')), "upsample_mode"),
    _f("upsampling after the convolution", "vae", line(m.Upsample, ('self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))', 'F.interpolate(self.conv(x), scale_factor=2.0, mode="nearest")')), "order_exchanged"),
    _f("channels of the latents reversed", "vae", line(m.VAE, ("self.decoder(self.post_quant_conv(", "self.decoder(self.post_quant_conv("), ("latents / self", "latents.flip(1) / self"), method="decode"), "channel_order", "reversed"),
    _f("value bias left out", "vae", weight(m.VaeAttention, "to_v", "bias", lambda w, _: torch.zeros_like(w)), "missing_bias"),
    _f("query weight from the key", "vae", weight(m.VaeAttention, "to_q", "weight", lambda w, a: a.to_k.weight.detach()), "tied_weight"),
    _f("reflected border", "vae", setting(m.Encoder, "conv_in", "padding_mode", "reflect"), "padding_mode"),
    _f("SiLU missing at the end", "vae", line(m.Decoder, ("self.conv_out(F.silu(self.norm_out(x)))", "self.conv_out(self.norm_out(x))")), "activation", "left_out"),
    _f("quant_conv left out", "vae", line(m.VAE, ("self.quant_conv(self.encoder(image * 2 - 1))", "self.encoder(image * 2 - 1)")), "left_out"),
    _f("a noise of 0.1 left out", "vae", line(m.VAE, (" * 0.1 -", " * 0.0 -")), "constant", "left_out"),
    _f("decoder weights in float16", "vae", weight(m.Decoder, "conv_in", "weight", lambda w, _: w.half().float()), "precision", only="fp32"),
]  # fmt: skip

CLIP = [
    _f("quick GELU for 1.7", "clip", line(m.QuickGELU, ("1.702", "1.7")), "constant", "gelu_variant"),
    _f("tanh GELU for quick", "clip", line(m.QuickGELU, ("x * torch.sigmoid(1.702 * x)", 'F.gelu(x, approximate="tanh")')), "gelu_variant"),
    _f("mask one off", "clip", line(m.ClipAttention, (".tril()", ".tril(1)")), "causal_mask", "attention_mask"),
    _f("mask the other way", "clip", line(m.ClipAttention, (".tril()", ".triu()")), "causal_mask", "attention_mask"),
    _f("mask of -1 for minus infinity", "clip", line(m.ClipAttention, ('float("-inf")', "-1.0")), "attention_mask", "constant"),
    _f("padding masked", "clip", line(m.ClipAttention, ("mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()", "mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()\n    mask[:, 7:] = False")), "attention_mask"),
    _f("first token pooled", "clip", line(m.CLIP, ("input_ids.argmax(dim=-1)", "torch.zeros(x.shape[0], dtype=torch.long)")), "pooling_index"),
    _f("mean of the tokens pooled", "clip", line(m.CLIP, ("pooled = x[torch.arange(x.shape[0]), input_ids.argmax(dim=-1)]", "pooled = x.mean(dim=1)")), "pooling_kind", "pooling_index", "pooling_kind"),
    _f("token before the end pooled", "clip", line(m.CLIP, ("input_ids.argmax(dim=-1)]", "input_ids.argmax(dim=-1) - 1]")), "pooling_index"),
    _f("position table not added", "clip", line(m.CLIP, (" + self.position_embedding(positions)", "")), "left_out"),
    _f("penultimate layer", "clip", line(m.CLIP, ("for layer in self.layers:", "for layer in self.layers[:-1]:")), "left_out"),
    _f("norm1 before the feed-forward", "clip", line(m.ClipLayer, ("self.fc1(self.layer_norm2(x))", "self.fc1(self.layer_norm1(x))")), "tied_weight", "swapped_weights", "wrong_operand", where=("*layer_norm2|out",)),
    _f("scale applied twice", "clip", line(m.ClipAttention, ("torch.matmul(q * self.scale, k.transpose(-1, -2))", "torch.matmul(q * self.scale, k.transpose(-1, -2)) * self.scale")), "attention_scale", "constant", "scale"),
    _f("projection transposed", "clip", weight(m.CLIP, "text_projection", "weight", lambda w, _: w.t()), "transposed_weight"),
    _f("projection left out", "clip", line(m.CLIP, ("self.text_projection(pooled)", "pooled")), "left_out"),
    _f("out projection of the value", "clip", line(m.ClipAttention, ("self.out_proj(torch.matmul(weights, v)", "self.out_proj(torch.matmul(weights, k)")), "wrong_operand", "tied_weight", "qkv_order"),
    _f("ids one too large", "clip", line(m.CLIP, ("self.token_embedding(input_ids)", "self.token_embedding((input_ids + 1).clamp(max=99))")), "index_offset"),
    _f("embedding scaled by the root of the width", "clip", line(m.CLIP, ("self.token_embedding(input_ids)", "(self.token_embedding(input_ids) * 24**0.5)")), "scale", "extra_step", "constant"),
    _f("softmax in bfloat16", "clip", line(m.ClipAttention, ("dim=-1)\n", "dim=-1).bfloat16().to(x.dtype)\n")), "precision", only="fp32"),
    _f("layer norm eps 1e-12", "clip", setting(m.CLIP, "final_layer_norm", "eps", 1e-12), "norm_eps"),
    _f("layer norm without the mean", "clip", line(m.ClipLayer, ("self.fc1(self.layer_norm2(x))", "self.fc1(F.rms_norm(x, (24,), self.layer_norm2.weight, 1e-5) + self.layer_norm2.bias)")), "norm_kind"),
    _f("layers of another model", "clip", weight(m.ClipLayer, "fc2", "weight", lambda w, _: w * 1.001), "weight_values", "scale"),
]  # fmt: skip

PIPELINE = [
    _f("scheduler not reset between runs", "pipeline", several(line(Scheduler, ("self.history = []", "pass"), method="set_timesteps"), _run_before), "stale_state", "history", where=_LOOP),
    _f("prediction before taken twice", "pipeline", line(Scheduler, ("1.25 * self.history[1] - 0.25 * self.history[0]", "1.5 * self.history[1] - 0.5 * self.history[0]"), method="step"), "constant", "coefficients", where=_LOOP),
    _f("prediction before with the wrong sign", "pipeline", line(Scheduler, ("1.25 * self.history[1] - 0.25", "1.25 * self.history[1] + 0.25"), method="step"), "sign", "constant", "coefficients", where=_LOOP),
    _f("guidance rescaled", "pipeline", line(Pipeline, ("latents = self.scheduler.step(guided", "guided = guided * (0.3 + 0.7 * cond.std() / guided.std())\n        latents = self.scheduler.step(guided"), method="__call__"), "scale", "extra_step", "guidance", "coefficients", where=_LOOP),
    _f("guidance on the conditional base", "pipeline", line(Pipeline, ("uncond + guidance_scale * (cond - uncond)", "cond + guidance_scale * (cond - uncond)"), method="__call__"), "guidance", "wrong_operand", "constant", where=_LOOP),
    _f("last step without guidance", "pipeline", line(Pipeline, ("guided = uncond + guidance_scale *", "guided = uncond + (1.0 if timestep == self.scheduler.timesteps[-1] else guidance_scale) *"), method="__call__"), "guidance", "constant", where=_LOOP),
    _f("latents through bfloat16 every step", "pipeline", line(Pipeline, (".prev_sample", ".prev_sample.bfloat16().to(dtype)"), method="__call__"), "precision", where=_LOOP, only="fp32"),
    _f("prediction through float16", "pipeline", line(Pipeline, ("uncond, cond = prediction.chunk(2, dim=0)", "uncond, cond = prediction.half().to(dtype).chunk(2, dim=0)"), method="__call__"), "precision", where=_LOOP, only="fp32"),
    _f("original divided by another alpha", "pipeline", line(Scheduler, ("(sample - rest * model_output) / root, model_output", "(sample - rest * model_output) / alpha_previous.sqrt().to(sample.dtype), model_output"), method="step"), "coefficients", "wrong_operand", where=_LOOP),
    _f("alpha for its root", "pipeline", line(Scheduler, ("root, rest = alpha.sqrt().to(sample.dtype)", "root, rest = alpha.to(sample.dtype)"), method="step"), "coefficients", "left_out", where=_LOOP),
    _f("direction forgotten", "pipeline", line(Scheduler, (" + (1 - alpha_previous).sqrt().to(sample.dtype) * noise", ""), method="step"), "coefficients", "left_out", where=_LOOP),
    _f("original clipped", "pipeline", line(Scheduler, ("result = (\n", "original = original.clamp(-1, 1)\n    result = (\n"), method="step"), "clamp", where=_LOOP),
    _f("linear betas end", "pipeline", line(Scheduler, ("0.012**0.5", "0.0125**0.5"), method="alphas_cumprod"), "coefficients", "constant", where=_LOOP),
    _f("timesteps from 999", "pipeline", setting(Scheduler, "", "num_train_timesteps", 999), "num_train_timesteps", where=_LOOP),
    _f("one timestep late", "pipeline", line(Scheduler, (".flip(0) + self.steps_offset", ".flip(0).roll(1) + self.steps_offset"), method="set_timesteps"), "schedule_shift", "timestep_spacing", "shifted", where=_LOOP),
    _f("ascending timesteps", "pipeline", line(Scheduler, ("(self.num_train_timesteps // count)).flip(0)", "(self.num_train_timesteps // count))"), method="set_timesteps"), "schedule_reversed", "timestep_spacing", "reversed", "left_out", where=_LOOP),
    _f("step forgets the time", "pipeline", line(Pipeline, ("step(guided, timestep, latents)", "step(guided, self.scheduler.timesteps[0], latents)"), method="__call__"), "wrong_index", "timestep_offset", "coefficients", "wrong_operand", where=_LOOP),
    _f("negative prompt is the prompt", "pipeline", line(Pipeline, ("torch.tensor(EMPTY_IDS)", "torch.tensor(IDS)"), method="__call__"), "wrong_operand", "input_values", where=("text_encoder|in*", "@pipeline*")),
    _f("another prompt", "pipeline", line(Pipeline, ("torch.tensor(IDS)", "torch.tensor(IDS).flip(1)"), method="__call__"), "reversed", "input_values", where=("text_encoder|in*", "@pipeline*")),
    _f("latents decoded one step early", "pipeline", line(Pipeline, ("image = self.vae.decode(latents)", "image = self.vae.decode(model_input[:1])"), method="__call__"), "wrong_operand", where=("vae*", "@pipeline*")),
    _f("noise drawn transposed", "pipeline", line(Pipeline, ("torch.randn(1, 4, 8, 8, generator=generator)", "torch.randn(1, 4, 8, 8, generator=generator).transpose(2, 3)"), method="__call__"), "axes_swapped", where=_LOOP),
    _f("noise drawn channels last", "pipeline", line(Pipeline, ("torch.randn(1, 4, 8, 8, generator=generator)", "torch.randn(1, 8, 8, 4, generator=generator).permute(0, 3, 1, 2)"), method="__call__"), "head_layout", "axes_swapped", "interleave", "permutation", where=("@rng*", *_LOOP)),
    _f("the first model call sees other noise", "pipeline", line(Pipeline, ("latents = torch.randn(1, 4, 8, 8, generator=generator).to(dtype)", "latents = torch.randn(1, 4, 8, 8, generator=generator).to(dtype) * 0.95"), method="__call__"), "scale", "constant", where=_LOOP),
    _f("text of the pooled layer", "pipeline", line(Pipeline, ("torch.cat([negative, embeds], dim=0)", "torch.cat([negative, embeds], dim=0) * 0.5"), method="__call__"), "scale", where=_LOOP),
    _f("a component that is not there", "pipeline", line(Pipeline, ("image = self.vae.decode(latents)", "image = self.vae.decode_tiled(latents)"), method="__call__"), "exception", where=("vae*", "@pipeline*")),
]  # fmt: skip

_GROUP_NORM = "g = x.unflatten(1, (4, -1)).flatten(2)\n    g = ((g - g.mean(-1, keepdim=True)) * torch.rsqrt(g.var(-1, keepdim=True, unbiased=False) + 1e-6)).view_as(x)\n    h = (g * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]).flatten(2)"
HARMLESS = [
    _h("group norm by its formula", "unet", line(m.SpatialTransformer, ("h = self.norm(x).flatten(2)", _GROUP_NORM))),
    _h("convolution by unfolding", "unet", line(m.Upsample, ('return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))', 'x = F.interpolate(x, scale_factor=2.0, mode="nearest")\n    columns = F.unfold(x, 3, padding=1)\n    return (self.conv.weight.flatten(1) @ columns + self.conv.bias[:, None]).unflatten(-1, x.shape[2:])'))),
    _h("linear layers of the tokens as 1x1 convolutions", "unet", line(m.SpatialTransformer, ("self.proj_in(h)", "F.conv1d(h.transpose(1, 2), self.proj_in.weight[..., None], self.proj_in.bias).transpose(1, 2)"))),
    _h("text tokens reversed, which attention does not see", "unet", line(m.TransformerBlock, ("self.attn2(self.norm2(x), context)", "self.attn2(self.norm2(x), context.flip(1))"))),
    _h("key bias left out, which the softmax does not see", "vae", weight(m.VaeAttention, "to_k", "bias", lambda w, _: torch.zeros_like(w))),
    _h("heads one by one", "unet", line(m.CrossAttention, (_SDPA, "h = torch.stack([F.scaled_dot_product_attention(q[:, i], k[:, i], v[:, i]) for i in range(self.heads)], 1)"))),
    _h("softmax by its formula", "clip", line(m.ClipAttention, ('torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)', '(lambda e: e / e.sum(-1, keepdim=True))(torch.exp(scores.masked_fill(~mask, float("-inf"))))'))),
    _h("layer norm by its formula", "clip", line(m.ClipLayer, ("self.fc1(self.layer_norm2(x))", "self.fc1((x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * self.layer_norm2.weight + self.layer_norm2.bias)"))),
    _h("layer norm by its moments", "clip", line(m.ClipLayer, ("self.self_attn(self.layer_norm1(x))", "self.self_attn((x - x.mean(-1, keepdim=True)) * torch.rsqrt((x * x).mean(-1, keepdim=True) - x.mean(-1, keepdim=True) ** 2 + 1e-5) * self.layer_norm1.weight + self.layer_norm1.bias)"))),
    _h("scale behind the product", "clip", line(m.ClipAttention, ("torch.matmul(q * self.scale, k.transpose(-1, -2))", "torch.matmul(q, k.transpose(-1, -2)) * self.scale"))),
    _h("finite mask", "clip", line(m.ClipAttention, ('float("-inf")', "-1e9"))),
    _h("rotation by complex numbers", "dit", line(m.RotaryAttention, ("turned = torch.cat([-second, first], dim=-1)", "half = angles[:, : angles.shape[-1] // 2]\n    z = torch.complex(first.float(), second.float()) * torch.polar(torch.ones_like(half), half)"), ("return x * torch.cos(angles).to(x.dtype) + turned * torch.sin(angles).to(x.dtype)", "return torch.cat([z.real, z.imag], -1).to(x.dtype)"), method="rotate")),
    _h("RMSNorm by torch", "dit", line(m.RMSNorm, ("return (x.float() * torch.rsqrt(variance + self.eps)).to(x.dtype) * self.weight", "return F.rms_norm(x.float(), x.shape[-1:], None, self.eps).to(x.dtype) * self.weight"))),
    _h("angles in float64", "dit", line(m.Rotary, ("torch.arange(0, self.width, 2, dtype=torch.float32)", "torch.arange(0, self.width, 2, dtype=torch.float64)"), ("torch.cat([angles, angles], dim=-1)", "torch.cat([angles, angles], dim=-1).float()"))),
    _h("query and key of all blocks negated", "dit", line(m.RotaryAttention, ("h = F.scaled_dot_product_attention(q, k, v)", "h = F.scaled_dot_product_attention(-q, -k, v)"))),
    _h("multiplied by the inverse", "vae", line(m.VAE, ("latents / self.scaling_factor", "latents * (1 / self.scaling_factor)"), method="decode")),
    _h("upsampling by expansion", "vae", line(m.Upsample, ('F.interpolate(x, scale_factor=2.0, mode="nearest")', "x[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2).flatten(4, 5).flatten(2, 3)"))),
    _h("halved after the sum", "vae", line(m.VAE, ("(decoded / 2 + 0.5)", "((decoded + 1) * 0.5)"), method="decode")),
    _h("padding inside the convolution", "vae", line(m.PaddedDownsample, ('self.conv(F.pad(x, (0, 1, 0, 1), mode="constant", value=0.0))', "F.conv2d(F.pad(x, (1, 1, 1, 1)), self.conv.weight, self.conv.bias)[:, :, 1::2, 1::2]"))),
    _h("two calls for one batch of two", "pipeline", line(Pipeline, ("prediction = self.unet(model_input, timestep[None], context)", "prediction = self.unet(model_input.contiguous(), timestep[None], context.contiguous())"), method="__call__")),
    _h("steps by coefficients", "pipeline", line(Scheduler, ("alpha_previous.sqrt().to(sample.dtype) * original + (1 - alpha_previous).sqrt().to(sample.dtype) * noise", "(alpha_previous.sqrt() / alpha.sqrt()).to(sample.dtype) * sample + ((1 - alpha_previous).sqrt() - alpha_previous.sqrt() * (1 - alpha).sqrt() / alpha.sqrt()).to(sample.dtype) * model_output"), method="step")),
]  # fmt: skip

FAULTS = [*UNET, *DIT, *VAE, *CLIP, *PIPELINE]

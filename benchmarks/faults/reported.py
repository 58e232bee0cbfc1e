"""Faults of the first list that were reported from outside: what the causes named wrongly, or did not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import models as m
from . import stages as s
from .planting import Fault, instances, line

_LOOP = ("@pipeline*", "unet|in.*", "@scheduler*", "@timesteps*", "@latents*", "@guider*", "@sigmas*")


def _f(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = (), only: str = "") -> Fault:
    return Fault(name, model, plant, frozenset(causes), where, only)  # type: ignore[arg-type]


def _h(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def _every_weight(below: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], set[str]]:
    """Every parameter at or below one path."""

    def plant(target: Any) -> set[str]:
        changed = set()
        for path, part in instances(target):
            if path == below or path.startswith(f"{below}."):
                for parameter in part.parameters(recurse=False):
                    with torch.no_grad():
                        parameter.copy_(change(parameter))
                    changed.add(path)
        return changed

    return plant


def _drawn(w: torch.Tensor) -> torch.Tensor:
    return torch.randn(w.shape, generator=torch.Generator().manual_seed(w.numel())) * 0.1


def _f16(w: torch.Tensor) -> torch.Tensor:
    return w.half().to(w.dtype)


def _bf16(w: torch.Tensor) -> torch.Tensor:
    return w.bfloat16().to(w.dtype)


def _attribute(path: str, name: str, value: Any) -> Callable[[Any], set[str]]:
    def plant(target: Any) -> set[str]:
        setattr(dict(instances(target))[path], name, value)
        return set()

    return plant


_IN_PLACE = ("self.time(F.silu(emb))", "self.time(F.silu(emb, inplace=True))")
UNET = [
    _f(
        "time embedding added before the norm",
        "unet",
        line(
            m.ResBlock,
            (
                "h = self.conv1(F.silu(self.norm1(x)))",
                "t = self.time(F.silu(emb))[:, :, None, None]\n    h = self.conv1(F.silu(self.norm1(x + t if "
                "x.shape[1] == t.shape[1] else x)))",
            ),
            ("h = h + self.time(F.silu(emb))[:, :, None, None]", "h = h if x.shape[1] == t.shape[1] else h + t"),
        ),
        "order_exchanged",
        "wrong_operand",
        "norm_placement",
    ),
    _f(
        "activation of the shared time in place",
        "unet",
        line(m.ResBlock, _IN_PLACE),
        "in_place",
        where=("model.mid_res1|in*", "model.down_res*", "model.time_embedding|out", "model.mid_res1/silu*"),
    ),
    _f(
        "residual written in place",
        "unet",
        line(m.SpatialTransformer, ("h = self.norm(x).flatten(2)", "x.add_(0.01)\n    h = self.norm(x).flatten(2)")),
        "in_place",
    ),
    _f(
        "skip from before the first block",
        "unet",
        line(m.UNet, ("[self.up(x), skip]", "[self.up(x), self.conv_in(sample)]")),
        "wrong_operand",
    ),
    _f(
        "skip made small and large again",
        "unet",
        line(m.UNet, ("[self.up(x), skip]", "[self.up(x), F.interpolate(skip[..., ::2, ::2], scale_factor=2.0)]")),
        "resized",
        "wrong_operand",
    ),
    _f(
        "transformer block with fp16 weights",
        "unet",
        _every_weight("model.mid_attn.block", _f16),
        "weights_precision",
        "precision",
        where=("model.mid_attn*",),
        only="fp32",
    ),
    _f(
        "skip through its norm",
        "unet",
        line(m.ResBlock, ("h = self.conv1(F.silu(self.norm1(x)))", "x = self.norm1(x)\n    h = self.conv1(F.silu(x))")),
        "wrong_operand",
        "norm_placement",
        "order_exchanged",
    ),
    _f(
        "norm behind the activation",
        "unet",
        line(m.UNet, ("F.silu(self.norm_out(x))", "self.norm_out(F.silu(x))")),
        "order_exchanged",
        "norm_placement",
    ),
]

DIT = [
    _f(
        "query rotated before its norm",
        "dit",
        line(m.RotaryAttention, ("self.rotate(self.norm_q(q), angles)", "self.norm_q(self.rotate(q, angles))")),
        "order_exchanged",
        "norm_placement",
        where=("*attn*",),
    ),
    _f(
        "feed-forward of one block not loaded",
        "dit",
        _every_weight("model.blocks.1.mlp", _drawn),
        "module_weights",
        "weight_values",
        where=("model.blocks.1.mlp*",),
    ),
    _f(
        "one block not loaded",
        "dit",
        _every_weight("model.blocks.1", _drawn),
        "module_weights",
        "weight_values",
        where=("model.blocks.1*",),
    ),
    _f("all weights are fp16", "dit", _every_weight("model", _f16), "weights_precision", where=("*",), only="fp32"),
    _f("all weights are bf16", "dit", _every_weight("model", _bf16), "weights_precision", where=("*",), only="fp32"),
    _f(
        "root mean square over heads and lanes",
        "dit",
        line(m.RMSNorm, (".mean(-1, keepdim=True)", ".mean((1, -1), keepdim=True)")),
        "reduced_axes",
    ),
    _f(
        "root mean square over tokens",
        "dit",
        line(m.RMSNorm, (".mean(-1, keepdim=True)", ".mean(-2, keepdim=True)")),
        "reduced_axes",
    ),
    _f(
        "angles with noise of every run",
        "dit",
        line(
            m.Rotary,
            (
                "angles = position[:, None] * frequencies[None]",
                "angles = position[:, None] * frequencies[None] + 0.001 * torch.randn(len(position), 1)",
            ),
        ),
        "non_deterministic",
    ),
    _f(
        "caption added before the time embedding's end",
        "dit",
        line(
            m.DiT,
            (
                "emb = emb + self.caption(encoder_hidden_states.mean(dim=1))",
                "emb = F.silu(emb) + self.caption(encoder_hidden_states.mean(dim=1))",
            ),
        ),
        "extra_step",
        "call_twice",
        "activation",
    ),
    _f(
        "patches embedded twice",
        "dit",
        line(
            m.DiT,
            (
                "shift, scale = self.modulation_out(F.silu(emb))",
                "shift, scale = self.modulation_out(F.silu(F.silu(emb)))",
            ),
        ),
        "call_twice",
        "extra_step",
        "activation",
    ),
    _f(
        "modulation cut at the wrong half",
        "dit",
        line(m.DiT, ("self.norm_out(x) * (1 + scale) + shift", "(self.norm_out(x) + shift) * (1 + scale)")),
        "order_exchanged",
    ),
]

VAE = [
    _f(
        "every channel normed alone",
        "vae",
        line(
            m.VaeAttention,
            (
                "self.norm(x).flatten(2)",
                "(F.instance_norm(x, eps=1e-6) * self.norm.weight[:, None, None] + self.norm.bias[:, None, "
                "None]).flatten(2)",
            ),
        ),
        "reduced_axes",
        "norm_kind",
        "norm_groups",
        where=("*attn.norm*",),
    ),
    _f(
        "norm of rows",
        "vae",
        line(
            m.Decoder,
            (
                "self.norm_out(x)",
                "(F.layer_norm(x, x.shape[-1:], eps=1e-6) * self.norm_out.weight[:, None, None] + "
                "self.norm_out.bias[:, None, None])",
            ),
        ),
        "reduced_axes",
        "norm_kind",
        where=("*norm_out*",),
    ),
    _f(
        "decoder's activation twice",
        "vae",
        line(m.Decoder, ("F.silu(self.norm_out(x))", "F.silu(F.silu(self.norm_out(x)))")),
        "call_twice",
        "extra_step",
        "activation",
    ),
    _f(
        "quant convolution twice",
        "vae",
        line(
            m.VAE,
            ("self.quant_conv(self.encoder", "self.quant_conv(self.quant_conv(self.encoder"),
            (".chunk(2, dim=1)", ").chunk(2, dim=1)"),
        ),
        "call_twice",
        where=("model.quant_conv*", "*"),
    ),
    _f(
        "upsampled behind the attention",
        "vae",
        line(
            m.Decoder,
            (
                "self.res(self.up(self.attn(self.mid(self.conv_in(z)))))",
                "self.res(self.attn(self.up(self.mid(self.conv_in(z)))))",
            ),
        ),
        "order_exchanged",
        "module_order",
        where=("*decoder.up*", "*decoder.attn*"),
    ),
]

CLIP = [
    _f(
        "final norm twice",
        "clip",
        line(m.CLIP, ("x = self.final_layer_norm(x)", "x = self.final_layer_norm(self.final_layer_norm(x))")),
        "call_twice",
        "extra_step",
        where=("*final_layer_norm*", "model|*"),
    ),
    _f(
        "residual from behind the norm",
        "clip",
        line(
            m.ClipLayer,
            (
                "return x + self.fc2(self.act(self.fc1(self.layer_norm2(x))))",
                "x = self.layer_norm2(x)\n    return x + self.fc2(self.act(self.fc1(x)))",
            ),
        ),
        "wrong_operand",
        "norm_placement",
    ),
    _f(
        "positions added behind the first layer",
        "clip",
        line(
            m.CLIP,
            (
                "x = self.token_embedding(input_ids) + self.position_embedding(positions)",
                "x = self.token_embedding(input_ids)",
            ),
            ("x = layer(x)", "x = layer(x) + (self.position_embedding(positions) if layer is self.layers[0] else 0)"),
        ),
        "order_exchanged",
        "left_out",
        where=("model/add*", "*layers.0|in*", "*position*"),
    ),
    _f(
        "jitter that nobody asked for",
        "clip",
        line(
            m.ClipAttention,
            (
                "weights = torch.softmax(",
                "scores = scores + 0.001 * torch.rand_like(scores)\n    weights = torch.softmax(",
            ),
        ),
        "non_deterministic",
    ),
    _f(
        "layer left out",
        "clip",
        line(m.CLIP, ("for layer in self.layers:", "for layer in self.layers[:1]:")),
        "left_out",
        "call_left_out",
        where=("*layers.1*", "*final_layer_norm|in*", "model*"),
    ),
    _f(
        "layer run twice",
        "clip",
        line(m.CLIP, ("for layer in self.layers:", "for layer in [*self.layers[:1], *self.layers]:")),
        "call_twice",
        where=("*layers*",),
    ),
]

STAGES = [
    _f(
        "rho 6 in the numpy code",
        "stages",
        line(s.KarrasScheduler, ("rho = 7.0", "rho = 6.0"), method="set_timesteps"),
        "constant",
        where=_LOOP,
    ),
    _f(
        "highest sigma in the numpy code",
        "stages",
        line(s.KarrasScheduler, ("np.log(sigmas) * 180.0", "np.log(sigmas) * 185.0"), method="set_timesteps"),
        "constant",
        where=_LOOP,
    ),
    _f(
        "sigmas end with sigma_min",
        "stages",
        line(
            s.KarrasScheduler, ("np.append(sigmas, 0.0)", "np.append(sigmas, self.sigma_min)"), method="set_timesteps"
        ),
        "schedule_end",
        where=_LOOP,
    ),
    _f(
        "model input scaled twice",
        "stages",
        line(
            s.Stages,
            (
                "self.scheduler.scale_model_input(torch.cat([latents, latents]), timestep)",
                "self.scheduler.scale_model_input(self.scheduler.scale_model_input(torch.cat([latents, latents]), "
                "timestep), timestep)",
            ),
            method="denoise",
        ),
        "call_twice",
        where=_LOOP,
    ),
    _f(
        "model input not scaled",
        "stages",
        line(
            s.Stages,
            (
                "self.scheduler.scale_model_input(torch.cat([latents, latents]), timestep)",
                "torch.cat([latents, latents])",
            ),
            method="denoise",
        ),
        "call_left_out",
        "left_out",
        where=_LOOP,
    ),
    _f(
        "guider counts on across the stages",
        "stages",
        line(s.Stages, ("self.guider.begin()", ""), method="denoise"),
        "guider_state",
        "stale_state",
        where=_LOOP,
    ),
    _f(
        "posterior sampled between the stages",
        "stages",
        line(
            s.Stages,
            (
                "return mean * self",
                "mean = mean + torch.exp(0.5 * logvar) * torch.randn(mean.shape, "
                "generator=generator).to(mean.dtype)\n    return mean * self",
            ),
            method="encode",
        ),
        "posterior_sample",
        where=(*_LOOP, "@rng*"),
    ),
    _f(
        "noise added twice",
        "stages",
        line(
            s.Stages,
            (
                "self.scheduler.add_noise(latents, noise)",
                "self.scheduler.add_noise(self.scheduler.add_noise(latents, noise), noise)",
            ),
            method="__call__",
        ),
        "call_twice",
        where=_LOOP,
    ),
    _f(
        "stepped from the scaled input",
        "stages",
        line(s.Stages, ("timestep, latents).prev", "timestep, model_input[:1]).prev"), method="denoise"),
        "wrong_operand",
        where=_LOOP,
    ),
]

HARMLESS = [
    _h(
        "activation in place of a value that nobody reads again",
        "unet",
        line(m.ResBlock, ("F.silu(self.norm1(x))", "F.silu(self.norm1(x), inplace=True)")),
    ),
    _h(
        "sum in place on a fresh value",
        "clip",
        line(
            m.CLIP,
            (
                "x = self.token_embedding(input_ids) + self.position_embedding(positions)",
                "x = self.token_embedding(input_ids)\n    x += self.position_embedding(positions)",
            ),
        ),
    ),
    _h("square by a product", "dit", line(m.RMSNorm, ("x.float().pow(2)", "(x.float() * x.float())"))),
    _h("residual in place behind its last use", "vae", line(m.ResBlock, ("return x + h", "return h.add_(x)"))),
    _h("a count that nobody reads", "stages", _attribute("@guider", "start", 1)),
    _h(
        "noise scaled before it is drawn to type",
        "stages",
        line(
            s.KarrasScheduler,
            ("return sample + noise * self.sigmas[0]", "return noise * self.sigmas[0] + sample"),
            method="add_noise",
        ),
    ),
    _h(
        "two calls for guidance",
        "stages",
        line(
            s.Stages,
            (
                "self.unet(model_input, timestep[None], context).chunk(2)",
                "(self.unet(model_input[i : i + 1], timestep[None], context[i : i + 1]) for i in range(2))",
            ),
            method="denoise",
        ),
    ),
]

FAULTS = [*UNET, *DIT, *VAE, *CLIP, *STAGES]

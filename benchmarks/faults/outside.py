"""The third list: faults of an outsider in the library's own models, written and run once before anybody looked at why.

Its number stands in docs/log.md. What it shows may be used afterwards to repair general weaknesses, so it is worn out
as a measurement: a new one has to be written elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lockstep.models import layers
from lockstep.models.autoencoders import autoencoder_kl
from lockstep.models.text_encoders import clip
from lockstep.models.unets import unet_2d_blocks as blocks

from . import outside_models as o
from .models import RMSNorm
from .planting import Fault, instances, line

_LOOP = ("@pipeline*", "unet|in.*", "vae*|in.*", "@scheduler*", "@timesteps*", "@latents*", "@guider*")


def _f(name: str, model: str, plant: object, *causes: str, where: tuple[str, ...] = ()) -> Fault:
    return Fault(name, model, plant, frozenset(causes), where)  # type: ignore[arg-type]


def _h(name: str, model: str, plant: object) -> Fault:
    return Fault(name, model, plant, harmless=True)  # type: ignore[arg-type]


def _exchanged(path: str, first: str, second: str) -> Callable[[Any], set[str]]:
    """Two parameters of one layer in each other's place."""

    def plant(target: Any) -> set[str]:
        layer = dict(instances(target))[path]
        a, b = getattr(layer, first), getattr(layer, second)
        with torch.no_grad():
            kept = a.clone()
            a.copy_(b)
            b.copy_(kept)
        return {path}

    return plant


def _reversed(path: str, *names: str) -> Callable[[Any], set[str]]:
    """The outputs of a layer in the reverse order."""

    def plant(target: Any) -> set[str]:
        layer = dict(instances(target))[path]
        with torch.no_grad():
            for name in names:
                getattr(layer, name).copy_(getattr(layer, name).flip(0))
        return {path}

    return plant


FAULTS = [
    _f("shortcut taken behind the norm", "sd_unet",
       line(layers.ResnetBlock2D, ("shortcut = hidden_states if", "shortcut = self.norm1(hidden_states) if")),
       "wrong_operand", "norm_placement"),
    _f("time through SiLU twice", "sd_unet",
       line(layers.ResnetBlock2D, ("hidden_states + self.time_emb_proj(self.nonlinearity(temb))",
                                   "hidden_states + self.time_emb_proj(self.nonlinearity(self.nonlinearity(temb)))")),
       "call_twice", "activation", "extra_step"),
    _f("text attention on the first norm", "sd_unet",
       line(blocks.BasicTransformerBlock, ("self.norm2(hidden_states), enc", "self.norm1(hidden_states), enc")),
       "wrong_module", "tied_weight", "swapped_weights", "wrong_operand"),
    _f("GELU of the product", "sd_unet",
       line(layers.GEGLU, ("hidden_states * F.gelu(gate)", "F.gelu(hidden_states * gate)")),
       "activation_placement", "call_order", "operation_order"),
    _f("doubled behind the convolution", "sd_unet",
       line(layers.Upsample2D, ('self.conv(F.interpolate(hidden_states, size=output_size, mode="nearest"))',
                                'F.interpolate(self.conv(hidden_states), size=output_size, mode="nearest")')),
       "call_order", "operation_order", "module_order"),
    _f("scale and bias of a norm exchanged", "kl",
       _exchanged("model.decoder.mid_block.resnets.0.norm1", "weight", "bias"),
       "swapped_weights", "weight_values", "norm_affine"),
    _f("colours of the last layer reversed", "kl", _reversed("model.decoder.conv_out", "weight", "bias"),
       "channel_order", "permuted_weight", "weight_order", "permutation", "weight_values"),
    _f("ones around the map", "kl",
       line(autoencoder_kl.Downsample2D, ("F.pad(hidden, (0, 1, 0, 1))", "F.pad(hidden, (0, 1, 0, 1), value=1.0)")),
       "padding_value", "padding_mode", "constant"),
    _f("shortcut added twice", "kl",
       line(autoencoder_kl.ResnetBlock2D, ("return hidden + residual", "return 2 * hidden + residual")),
       "scale", "residual_scale", "coefficients"),
    _f("attention and MLP side by side", "clip_text",
       line(clip.CLIPEncoderLayer, ("self.mlp(self.layer_norm2(x))", "self.mlp(self.layer_norm2(given))"),
            ("    x = x + self.self_attn", "    given = x\n    x = x + self.self_attn")),
       "wrong_operand"),
    _f("token before the end pooled", "clip_text",
       line(clip.CLIPTextTransformer, ("last[rows_B, position_B.to(last.device)]",
                                       "last[rows_B, position_B.to(last.device) - 1]"), method="pool"),
       "pooling_index", "index_offset", "wrong_index", where=("model.text_model*",)),
    _f("positions from two", "clip_text",
       line(clip.CLIPTextEmbeddings, ("device=input_ids_BL.device)[None]", "device=input_ids_BL.device)[None] + 2")),
       "index_offset", "position_offset", "extra_step"),
    _f("final norm twice", "clip_text",
       line(clip.CLIPTextTransformer, ("self.final_layer_norm(states[-1])",
                                       "self.final_layer_norm(self.final_layer_norm(states[-1]))")),
       "call_twice"),
    _f("guidance scale one more", "euler",
       line(o.Guider, ("self.scale * (cond", "(self.scale + 1) * (cond"), method="__call__"),
       "constant", "guidance_scale", "scale", "extra_step", where=_LOOP),
    _f("spread of the negative", "euler",
       line(o.Guider, ("spread = cond.std", "spread = uncond.std"), method="__call__"),
       "wrong_operand", where=_LOOP),
    _f("noise scaled by the second sigma", "euler",
       line(o.EulerLoop, ("generator=generator) * self.scheduler.init_noise_sigma",
                          "generator=generator) * self.scheduler.sigmas[1]"), method="__call__"),
       "wrong_index", "index_offset", "scale", "wrong_operand", "constant", where=_LOOP),
    _f("scaling factor multiplied", "euler",
       line(o.EulerLoop, ("latents / 0.18215", "latents * 0.18215"), method="__call__"),
       "operand_order", "constant", "scale", "inverse", where=_LOOP),
    _f("theta 1000", "rotary", line(o.Axes, ("self.theta**lanes", "1000.0**lanes")), "constant", "rope_theta"),
    _f("key not rotated", "rotary",
       line(o.RotaryBlock, ("rotate(self.norm_k(k), angles)", "self.norm_k(k)")), "rope_missing"),
    _f("columns before rows", "rotary",
       line(o.Axes, ("torch.cat([by_row, by_column], -1)", "torch.cat([by_column, by_row], -1)")),
       "concat_order", "part_order", "half_swap"),
    _f("one plus the norm's scale", "rotary",
       line(RMSNorm, (".to(x.dtype) * self.weight", ".to(x.dtype) * (1 + self.weight)")),
       "modulation", "norm_affine", "norm_scale", "constant"),
    _f("gate without tanh", "rotary", line(o.RotaryBlock, ("torch.tanh(gate)", "gate")), "left_out", "activation"),
]  # fmt: skip

HARMLESS = [
    _h("sum from the other side", "sd_unet",
       line(layers.ResnetBlock2D, ("shortcut + hidden_states", "hidden_states + shortcut"))),
    _h("GELU by its formula", "sd_unet",
       line(layers.GEGLU, ("F.gelu(gate)", "(0.5 * gate * (1 + torch.erf(gate / 2**0.5)))"))),
    _h("guidance as a blend", "euler",
       line(o.Guider, ("uncond + self.scale * (cond - uncond)", "cond + (self.scale - 1) * (cond - uncond)"),
            method="__call__")),
    _h("one model call for each", "euler",
       line(o.EulerLoop, ("self.unet(torch.cat([scaled, scaled]), timestep, context).sample",
                          "torch.cat([self.unet(scaled, timestep, one).sample for one in context.chunk(2)])"),
            method="__call__")),
    _h("rotation by complex numbers", "rotary",
       line(o.RotaryBlock, ("rotate(self.norm_q(q), angles)",
                            "torch.view_as_real(torch.view_as_complex(self.norm_q(q).float().unflatten(-1, (-1, 2))) "
                            "* torch.polar(torch.ones(angles.shape), angles.float())).flatten(-2).to(q.dtype)"))),
]  # fmt: skip

ALL = [*FAULTS, *HARMLESS]

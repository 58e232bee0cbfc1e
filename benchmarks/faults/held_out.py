"""The second list: written without reading the causes, never used to extend them (docs/decisions: two lists of
faults)."""

from __future__ import annotations

from . import held_out_models as h
from . import models as m
from .held_out_transformers import MMDIT, T5, control, fault, one_instance
from .planting import line

_LOOP = ("@pipeline*", "unet|in.*", "@scheduler*", "@timesteps*", "@latents*", "@guider*")

OLD = [
    fault(
        "time of the decoder half given to the norm",
        "unet",
        line(m.ResBlock, ("h = self.conv2(F.silu(self.norm2(h)))", "h = self.conv2(self.norm2(F.silu(h)))")),
        "order_exchanged",
        "norm_placement",
    ),
    fault(
        "key rotated before its norm",
        "dit",
        line(m.RotaryAttention, ("self.rotate(self.norm_k(k), angles)", "self.norm_k(self.rotate(k, angles))")),
        "order_exchanged",
        where=("*norm_k*", "*attn*"),
    ),
    fault(
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
    fault(
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
    fault(
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
    fault(
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
    fault(
        "rho 5",
        "edm",
        one_instance("@scheduler", lambda s: setattr(s, "rho", 5.0)),
        "rho",
        "setting_rho",
        "constant",
        where=_LOOP,
    ),
    fault(
        "rho 5 inside the code",
        "edm",
        line(h.EulerScheduler, ("** self.rho\n", "** 5.0\n"), ("(1 / self.rho)", "(1 / 5.0)"), method="set_timesteps"),
        "constant",
        where=_LOOP,
    ),
    fault(
        "last sigma is sigma_min",
        "edm",
        line(h.EulerScheduler, ("[0.0]", "[self.sigma_min]"), method="set_timesteps"),
        "schedule_end",
        "constant",
        where=_LOOP,
    ),
    fault(
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
    fault(
        "input not scaled",
        "edm",
        line(
            h.ImageToImage, ("scaled = self.scheduler.scale_model_input(latents)", "scaled = latents"), method="denoise"
        ),
        "call_left_out",
        "left_out",
        where=_LOOP,
    ),
    fault(
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
    fault(
        "posterior sampled",
        "edm",
        line(h.ImageToImage, ("Posterior(moments).mode()", "Posterior(moments).sample(generator)"), method="__call__"),
        "posterior_sample",
        where=(*_LOOP, "@rng*"),
    ),
    fault(
        "guider not reset between stages",
        "edm",
        line(h.ImageToImage, ("self.guider.reset()", "pass"), method="denoise"),
        "stale_state",
        "guider_state",
        "guidance",
        "call_left_out",
        where=_LOOP,
    ),
    fault(
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
    fault(
        "noise not scaled by sigma",
        "edm",
        line(h.ImageToImage, ("noise * self.scheduler.sigmas[0].to(latents.dtype)", "noise"), method="denoise"),
        "left_out",
        "scale",
        where=_LOOP,
    ),
    fault(
        "latents not scaled behind the encoder",
        "edm",
        line(h.ImageToImage, (".mode() * self.vae.scaling_factor", ".mode()"), method="__call__"),
        "left_out",
        "scale",
        where=_LOOP,
    ),
    fault(
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
    control(
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
    control(
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
    control(
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
    control(
        "query and key of both streams negated",
        "mmdit",
        line(
            h.JointAttention,
            ("h = F.scaled_dot_product_attention(q, k, v)", "h = F.scaled_dot_product_attention(-q, -k, v)"),
        ),
    ),
    control(
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
    control(
        "bias less a constant, which the softmax does not see", "t5", line(h.T5Attention, ("+ bias", "+ (bias - 3.0)"))
    ),
    control(
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
    control("shared norm computed again", "t5", line(h.T5Layer, ("* self.wi_1(h)", "* self.wi_1(self.norm_ff(x))"))),
    control(
        "step by the ratio of sigmas",
        "edm",
        line(
            h.EulerScheduler, ("derivative = (sample - original) / sigma", "derivative = model_output"), method="step"
        ),
    ),
    control(
        "guidance written out",
        "edm",
        line(
            h.Guider,
            ("torch.lerp(negative, positive, self.scale)", "negative + self.scale * (positive - negative)"),
            method="combine",
        ),
    ),
    control(
        "sigmas by torch in float64",
        "edm",
        line(
            h.EulerScheduler,
            ("ramp = np.linspace(0, 1, count)", "ramp = torch.linspace(0, 1, count, dtype=torch.float64).numpy()"),
            method="set_timesteps",
        ),
    ),
    control(
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

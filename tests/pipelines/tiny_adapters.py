"""Tiny T2I- and IP-Adapters with random weights in the layouts of the original files."""

import torch

import lockstep
from pipelines import tiny

ENCODER = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 32,
    "patch_size": 8, "projection_dim": 24,
}  # fmt: skip
KINDS = ("plain", "full", "plus", "face")


def image_encoder(seed: int = 30) -> lockstep.CLIPVisionModelWithProjection:
    return tiny.randomize(lockstep.CLIPVisionModelWithProjection(**ENCODER), seed)


def ip_adapter(their_unet, kind: str = "plain", seed: int = 40) -> dict[str, dict[str, torch.Tensor]]:
    """The two sections of a file, numbered as the reference's UNet lists its attentions."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape):
        return torch.randn(*shape, generator=generator) / max(shape[-1], 1) ** 0.5

    text = their_unet.config.cross_attention_dim
    layers = {}
    for number, name in enumerate(their_unet.attn_processors):
        if name.endswith("attn2.processor"):
            width = their_unet.get_submodule(name.removesuffix(".processor")).to_q.out_features
            layers |= {f"{number}.{part}.weight": random(width, text) for part in ("to_k_ip", "to_v_ip")}
    return {"image_proj": projection(kind, text, random), "ip_adapter": layers}


def lora_of_faces(their_unet, seed: int = 41) -> dict[str, torch.Tensor]:
    """What a FaceID file has for all attentions besides, in the section of the adapter's own layers."""
    generator, rank = torch.Generator().manual_seed(seed), 2
    layers = {}
    for number, name in enumerate(their_unet.attn_processors):
        attention = their_unet.get_submodule(name.removesuffix(".processor"))
        for part, layer in {
            "q": attention.to_q,
            "k": attention.to_k,
            "v": attention.to_v,
            "out": attention.to_out[0],
        }.items():
            start = f"{number}.to_{part}_lora"
            layers[f"{start}.down.weight"] = torch.randn(rank, layer.in_features, generator=generator) * 0.3
            layers[f"{start}.up.weight"] = torch.randn(layer.out_features, rank, generator=generator) * 0.3
    return layers


def projection(kind, text, random):
    hidden, vector = ENCODER["hidden_size"], ENCODER["projection_dim"]

    def norm(width):
        return {"weight": 1 + 0.1 * random(width), "bias": 0.1 * random(width)}

    def named(start, values):
        return {f"{start}.{name}": value for name, value in values.items()}

    if kind == "plain":
        return {"proj.weight": random(4 * text, vector), "proj.bias": random(4 * text), **named("norm", norm(text))}
    if kind == "full":
        first = {"proj.0.weight": random(hidden, hidden), "proj.0.bias": random(hidden)}
        return first | {
            "proj.2.weight": random(text, hidden),
            "proj.2.bias": random(text),
            **named("proj.3", norm(text)),
        }
    if kind == "face":
        first = {"proj.0.weight": random(2 * vector, vector), "proj.0.bias": random(2 * vector)}
        return first | {
            "proj.2.weight": random(4 * text, 2 * vector),
            "proj.2.bias": random(4 * text),
            **named("norm", norm(text)),
        }
    inner = 16
    made = {"latents": random(1, 5, inner), "proj_in.weight": random(inner, hidden), "proj_in.bias": random(inner)}
    made |= {"proj_out.weight": random(text, inner), "proj_out.bias": random(text), **named("norm_out", norm(text))}
    for layer in range(4):
        start = f"layers.{layer}"
        made |= {**named(f"{start}.0.norm1", norm(inner)), **named(f"{start}.0.norm2", norm(inner))}
        made |= {f"{start}.0.to_q.weight": random(128, inner), f"{start}.0.to_kv.weight": random(256, inner)}
        made |= {f"{start}.0.to_out.weight": random(inner, 128), **named(f"{start}.1.0", norm(inner))}
        made |= {f"{start}.1.1.weight": random(4 * inner, inner), f"{start}.1.3.weight": random(inner, 4 * inner)}
    return made


def flat(sections):
    """As a safetensors file has them."""
    return {f"{section}.{name}": tensor for section, values in sections.items() for name, tensor in values.items()}


def t2i_adapter(kind: str = "full_adapter_xl", seed: int = 50) -> lockstep.T2IAdapter:
    """One that fits `tiny.unet` (as XL's, whose first down block has no attention), or `attentive_unet` of its kind."""
    shapes = {"channels": (16, 32), "num_res_blocks": 2, "downscale_factor": 4 if kind == "full_adapter_xl" else 2}
    return tiny.randomize(lockstep.T2IAdapter(**shapes, adapter_type=kind), seed)


def attentive_unet(kind: str = "full_adapter") -> lockstep.UNet2DConditionModel:
    """A tiny UNet with attention in every block, as the original adapters want it; a light one has a level more."""
    widths = (16, 32, 32) if kind == "light_adapter" else (16, 32)
    down, up = ("CrossAttnDownBlock2D",) * len(widths), ("CrossAttnUpBlock2D",) * len(widths)
    return tiny.unet(down_block_types=down, up_block_types=up, block_out_channels=widths, attention_head_dim=4)

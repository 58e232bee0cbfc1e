"""Each family's weight map: our tensors in the original layout go through the reference's converter and come out
the same."""

from pathlib import Path

import diffusers
import pytest
import torch
from diffusers.loaders import single_file_utils as reference
from safetensors.torch import load_file, save_file

import lockstep
from lockstep.loaders.convert import convert
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.autoencoders.autoencoder_kl_map import autoencoder_rows
from lockstep.models.controlnets.controlnet_map import controlnet_rows
from lockstep.models.text_encoders.clip_map import clip_rows, open_clip_rows
from lockstep.models.transformers.transformer_flux_map import flux_rows
from lockstep.models.transformers.transformer_sd3_map import sd3_rows
from lockstep.models.transformers.transformer_z_image_map import z_image_rows
from lockstep.models.unets.unet_2d_condition_map import unet_rows
from lockstep.models.weights import in_memory
from pipelines import tiny_z_image

NOWHERE = Path("nowhere")
DOWN = ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",)
UP = ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3
SMALL = {"norm_num_groups": 8, "attention_head_dim": 2, "sample_size": 8}
UNETS = {
    "sd1": {"block_out_channels": (8, 16, 24, 24), "cross_attention_dim": 12},
    "sd2": {"block_out_channels": (8, 16, 24, 24), "cross_attention_dim": 12, "use_linear_projection": True},
    "inpainting": {"block_out_channels": (8, 16, 24, 24), "cross_attention_dim": 12, "in_channels": 9},
    "x4 upscaler": {
        "block_out_channels": (8, 16, 16, 24), "cross_attention_dim": 12, "in_channels": 7, "num_class_embeds": 10,
        "down_block_types": ("DownBlock2D",) + ("CrossAttnDownBlock2D",) * 3, "use_linear_projection": True,
        "up_block_types": ("CrossAttnUpBlock2D",) * 3 + ("UpBlock2D",),
    },
    "xl": {
        "block_out_channels": (8, 16, 24), "cross_attention_dim": 12, "use_linear_projection": True,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": (1, 2, 3), "addition_embed_type": "text_time", "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 32,
    },
    "refiner": {
        "block_out_channels": (8, 16, 24, 24), "cross_attention_dim": 12, "use_linear_projection": True,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        "transformer_layers_per_block": 4, "addition_embed_type": "text_time", "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 28,
    },
}  # fmt: skip


def values(stored):
    return {name: tensor.make() for name, tensor in stored.items()}


def same(got, wanted):
    assert set(got) == set(wanted)
    for name, tensor in wanted.items():
        assert torch.equal(got[name], tensor), name


def random(model):
    """Every tensor its own, norms too: what is exchanged shows."""
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(torch.randn(tensor.shape))
    return model


def there_and_back(model, rows):
    """The model's tensors, made random, in the original layout, after checking that ours reads them back."""
    weight_map = WeightMap(rows)
    random(model)
    theirs = weight_map.to_theirs(in_memory(model.state_dict(), NOWHERE))
    same(values(weight_map.to_ours(theirs)), model.state_dict())
    return values(theirs)


@pytest.mark.parametrize("name", UNETS)
def test_unets(name):
    model = lockstep.UNet2DConditionModel(**SMALL | UNETS[name])
    original = there_and_back(model, unet_rows(model.config))
    prefixed = {f"model.diffusion_model.{key}": tensor for key, tensor in original.items()}
    same(reference.convert_ldm_unet_checkpoint(prefixed, config=dict(model.config)), model.state_dict())


@pytest.mark.parametrize(
    ("latents", "attends"), [(4, False), (16, False), (4, True)], ids=["sd", "flux", "attention in blocks"]
)
def test_autoencoders(latents, attends):
    widths = (8, 16, 16, 24)
    kind = ("Attn" if attends else "") + "DownEncoderBlock2D", ("Attn" if attends else "") + "UpDecoderBlock2D"
    model = lockstep.AutoencoderKL(
        block_out_channels=widths, latent_channels=latents, norm_num_groups=8, layers_per_block=2,
        down_block_types=(*["DownEncoderBlock2D"] * 3, kind[0]), up_block_types=(kind[1], *["UpDecoderBlock2D"] * 3),
        use_quant_conv=latents == 4, use_post_quant_conv=latents == 4,
    )  # fmt: skip
    original = there_and_back(model, autoencoder_rows(model.config))
    projections = [n for n in original if "attn" in n and n.endswith("weight") and ".norm." not in n]
    assert {tuple(original[name].shape) for name in projections} == {(24, 24, 1, 1)}
    wanted = model.state_dict()
    for name in [name for name in wanted if "blocks.3.attentions" in name or "blocks.0.attentions" in name]:
        part, _, _, _, layer, *inside = name.split(".")  # the reference does not convert attention in blocks
        short = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out": "proj_out"}[inside[0]]
        theirs = original.pop(f"{part}.{'down' if part == 'encoder' else 'up'}.3.attn.{layer}.{short}.{inside[-1]}")
        assert torch.equal(theirs.reshape(wanted[name].shape), wanted.pop(name)), name
    prefixed = {f"first_stage_model.{key}": tensor for key, tensor in original.items()}
    same(reference.convert_ldm_vae_checkpoint(prefixed, config=dict(model.config)), wanted)


def test_controlnet():
    model = lockstep.ControlNetModel(**{k: v for k, v in (SMALL | UNETS["sd1"]).items() if k != "sample_size"})
    original = there_and_back(model, controlnet_rows(model.config))
    assert {"zero_convs.11.0.weight", "input_hint_block.14.bias", "middle_block_out.0.weight"} <= set(original)
    prefixed = {f"control_model.{key}": tensor for key, tensor in original.items()}
    same(reference.convert_controlnet_checkpoint(prefixed, config=dict(model.config)), model.state_dict())


CLIP = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "vocab_size": 50,
    "projection_dim": 16,
}


def test_open_clip_with_projection():
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    model = lockstep.CLIPTextModelWithProjection(**CLIP)
    original = there_and_back(model, open_clip_rows(model.config, projection=True))
    assert original["transformer.resblocks.2.attn.in_proj_weight"].shape == (48, 16)
    assert torch.equal(original["text_projection"], model.text_projection.weight.T)
    theirs = CLIPTextModelWithProjection(CLIPTextConfig(**CLIP))
    prefix = "conditioner.embedders.1.model."
    prefixed = {prefix + key: tensor for key, tensor in original.items()}
    converted = reference.convert_open_clip_checkpoint(theirs, prefixed, prefix=prefix)
    same(converted, model.state_dict())


@pytest.mark.parametrize("prefix", ["text_model.", ""], ids=["published", "transformers 5"])
def test_clip_in_both_of_its_spellings(prefix):
    model = random(lockstep.CLIPTextModel(**CLIP))
    file = {prefix + name.removeprefix("text_model."): tensor for name, tensor in model.state_dict().items()}
    file |= {f"{prefix}embeddings.position_ids": torch.rand(1, 77), "logit_scale": torch.ones(())}
    weight_map = WeightMap(clip_rows(model.config, projection=False))
    same(values(weight_map.to_ours(in_memory(file, NOWHERE))), model.state_dict())
    same(values(weight_map.to_theirs(in_memory(model.state_dict(), NOWHERE))), model.state_dict())


def test_layers_that_are_not_used_are_dropped():
    model = random(lockstep.CLIPTextModel(**CLIP))
    weight_map = WeightMap(open_clip_rows(model.config, projection=False))
    file = values(weight_map.to_theirs(in_memory(model.state_dict(), NOWHERE)))
    file |= {f"transformer.resblocks.3.ln_{k}.{end}": torch.ones(16) for k in (1, 2) for end in ("weight", "bias")}
    file |= {"transformer.resblocks.3.attn.in_proj_weight": torch.ones(48, 16), "text_projection": torch.ones(16, 16)}
    same(values(weight_map.to_ours(in_memory(file, NOWHERE))), model.state_dict())


def test_full_size_names_against_the_reference():
    """SD 1.5: all 686 tensors by name, on `meta`."""
    with torch.device("meta"):
        model = diffusers.UNet2DConditionModel(cross_attention_dim=768)
    names = list(model.state_dict())
    assert len(names) == 686
    weight_map = WeightMap(unet_rows(model.config))
    plan = weight_map.plan(names, backwards=True)
    plan.check("SD 1.5")
    assert len(plan.moves) == 686
    for move in plan.moves:
        assert weight_map.find(move.targets[0]).targets == move.sources


TOKENS = {"joint_attention_dim": 6, "pooled_projection_dim": 5}
FLUX = {**TOKENS, "in_channels": 8, "num_layers": 2, "num_single_layers": 2, "attention_head_dim": 8,
        "num_attention_heads": 2, "axes_dims_rope": (2, 2, 4)}  # fmt: skip
SD3 = {**TOKENS, "in_channels": 4, "out_channels": 4, "num_layers": 3, "attention_head_dim": 8, "sample_size": 8,
       "num_attention_heads": 2, "caption_projection_dim": 16, "pos_embed_max_size": 6}  # fmt: skip
SD3_KINDS = {
    "3 medium": SD3,
    "3.5 large": {**SD3, "qk_norm": "rms_norm"},
    "3.5 medium": {**SD3, "qk_norm": "rms_norm", "dual_attention_layers": (0, 1)},
}


@pytest.mark.parametrize("kind", SD3_KINDS)
def test_stable_diffusion_3(kind):
    model = lockstep.SD3Transformer2DModel(**SD3_KINDS[kind])
    theirs = there_and_back(model, sd3_rows(model.config))
    same(reference.convert_sd3_transformer_checkpoint_to_diffusers(dict(theirs)), model.state_dict())


@pytest.mark.parametrize("guided", [False, True])
def test_flux_there_and_back_and_names_by_the_reference(guided):
    """Theirs takes one width alone, 3072: so it gets the rows of that width, and few columns."""
    model = lockstep.FluxTransformer2DModel(**FLUX, guidance_embeds=guided)
    there_and_back(model, flux_rows(model.config))
    wide = {**FLUX, "attention_head_dim": 128, "num_attention_heads": 24, "axes_dims_rope": (16, 56, 56)}
    shapes = lockstep.FluxTransformer2DModel.on_meta({**wide, "guidance_embeds": guided}).state_dict()
    ours = {name: torch.randn(t.shape[0], *(min(n, 2) for n in t.shape[1:])) for name, t in shapes.items()}
    theirs = values(WeightMap(flux_rows({"guidance_embeds": guided}), "FLUX").to_theirs(in_memory(ours, NOWHERE)))
    same(reference.convert_flux_transformer_checkpoint_to_diffusers(dict(theirs)), ours)


@pytest.mark.parametrize(("config", "kind"), [(FLUX, "Flux"), *((c, "SD3") for c in SD3_KINDS.values())])
@pytest.mark.parametrize("header", [True, False])
def test_transformers_as_single_files(tmp_path, config, kind, header):
    """A folder to a file in the makers' layout and back, bit for bit; configs from the header or from the shapes."""
    model = random(getattr(lockstep, f"{kind}Transformer2DModel")(**config))
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    options = {}
    if not header:
        tensors = load_file(tmp_path / "one.safetensors")
        save_file(tensors, tmp_path / "one.safetensors")
        options = {"axes_dims_rope": (2, 2, 4)} if kind == "Flux" else {"sample_size": 8, "attention_head_dim": 8,
                                                                       "num_attention_heads": 2}  # fmt: skip
    again = type(model).from_single_file(tmp_path / "one.safetensors", **options)
    same(again.state_dict(), model.state_dict())
    assert {key: list(v) if isinstance(v := again.config[key], tuple) else v for key in config} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in config.items()
    }
    if header:
        convert(tmp_path / "one.safetensors", tmp_path / "back")
        name = "diffusion_pytorch_model.safetensors"
        same(load_file(tmp_path / "back" / name), load_file(tmp_path / "folder" / name))
        if kind == "SD3":
            theirs = diffusers.SD3Transformer2DModel.from_single_file(
                str(tmp_path / "one.safetensors"), config=str(tmp_path / "folder"), local_files_only=True
            )
            same(theirs.state_dict(), model.state_dict())


def test_a_published_layout_in_one_file_is_recognised(tmp_path):
    for model in (lockstep.FluxTransformer2DModel(**FLUX), lockstep.SD3Transformer2DModel(**SD3_KINDS["3.5 medium"])):
        path = tmp_path / "one.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in random(model).state_dict().items()}, path)
        options = {"axes_dims_rope": (2, 2, 4)} if "axes_dims_rope" in model.config else {"sample_size": 8}
        same(type(model).from_single_file(path, **options).state_dict(), model.state_dict())


def test_z_image():
    model = lockstep.ZImageTransformer2DModel(**tiny_z_image.TRANSFORMER)
    original = there_and_back(model, z_image_rows(model.config))
    whole = {f"model.diffusion_model.{name}": tensor for name, tensor in original.items()}
    whole["model.diffusion_model.norm_final.weight"] = torch.ones(24)  # of older files, and read by nobody
    ours = WeightMap(z_image_rows(model.config)).to_ours(
        in_memory({name.removeprefix("model.diffusion_model."): tensor for name, tensor in whole.items()}, NOWHERE)
    )
    same(values(ours), model.state_dict())
    same(reference.convert_z_image_transformer_checkpoint_to_diffusers(whole), model.state_dict())

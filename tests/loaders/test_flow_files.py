"""Single files of Flux, Stable Diffusion 3 and Wan: whole pipelines and lone models, both ways, and in diffusers."""

import json
from pathlib import Path

import diffusers
import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import lockstep
from helpers import assert_close
from loaders import checkpoints as files
from loaders.test_maps_against_diffusers import random, same
from loaders.test_single_file import same_weights
from lockstep.errors import FileFormatError, LoadError, UnsupportedError
from lockstep.files import read_safetensors_header
from lockstep.loaders.convert import convert
from lockstep.loaders.detect import detect
from lockstep.loaders.header import read_header
from lockstep.loaders.single_file import SingleFile
from lockstep.models.text_encoders.qwen3_map import qwen3_llama_rows
from lockstep.models.text_encoders.t5_map import llama_rows
from lockstep.models.weights import in_memory
from pipelines import tiny_flow, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image

SAVE = {
    "flux": tiny_flow.save_flux,
    "sd3": tiny_flow.save_sd3,
    "wan": tiny_video.save_wan,
    "z_image": tiny_z_image.save_z_image,
    "qwen_image": tiny_qwen_image.save_qwen_image,
    "ltx": tiny_ltx_video.save_ltx,
}
CALLS = {
    "flux": {"height": 16, "width": 16},
    "sd3": {"height": 16, "width": 16},
    "wan": {"height": 16, "width": 16, "num_frames": 5},
    "z_image": {"height": 16, "width": 16},
    "qwen_image": {"height": 16, "width": 16},
    "ltx": {"height": 32, "width": 32, "num_frames": 9},
}
NAMES = {
    "flux": {
        "model.diffusion_model.double_blocks.0.img_attn.qkv.weight",
        "vae.decoder.mid.attn_1.q.weight",
        "text_encoders.clip_l.transformer.text_model.embeddings.token_embedding.weight",
        "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q.weight",
    },
    "sd3": {
        "model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight",
        "first_stage_model.decoder.mid.attn_1.q.weight",
        "text_encoders.clip_g.transformer.text_projection.weight",
    },
    "wan": {
        "model.diffusion_model.blocks.0.self_attn.q.weight",
        "vae.decoder.middle.0.residual.0.gamma",
        "text_encoders.umt5xxl.transformer.encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight",
    },
    "z_image": {
        "model.diffusion_model.noise_refiner.0.attention.qkv.weight",
        "vae.decoder.mid.attn_1.q.weight",
        "text_encoders.qwen3_4b.transformer.model.layers.0.self_attn.q_norm.weight",
    },
    "qwen_image": {
        "model.diffusion_model.transformer_blocks.0.img_mod.1.weight",
        "vae.decoder.middle.0.residual.0.gamma",
        "text_encoders.qwen25_7b.transformer.model.layers.0.self_attn.q_proj.bias",
        "text_encoders.qwen25_7b.transformer.visual.blocks.0.attn.qkv.weight",
    },
    "ltx": {
        "model.diffusion_model.transformer_blocks.0.attn1.q_norm.weight",
        "vae.decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",
        "vae.per_channel_statistics.std-of-means",
        "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q.weight",
    },
}


@pytest.fixture(scope="module", params=SAVE)
def pair(request, tmp_path_factory):
    """(kind, folder, single file)."""
    root = tmp_path_factory.mktemp(request.param)
    folder = SAVE[request.param](root / "folder")
    convert(folder, root / "model.safetensors")
    return request.param, Path(folder), root / "model.safetensors"


def run(pipe, kind):
    pipe.set_progress_bar_config(disable=True)
    return pipe(prompt="a red cat", num_inference_steps=2, seed=3, output_type="latent", **CALLS[kind])[0]


def alike(one, other, kind):
    """The same weights to the last bit; results to rounding, because parts of a fused matrix lie at other addresses."""
    for name, part in one.components.items():
        if isinstance(part, torch.nn.Module):
            same(part.state_dict(), other.components[name].state_dict())
    assert_close(run(one, kind), run(other, kind), 1e-5)


def test_whole_pipelines_there_and_back(pair, tmp_path):
    kind, folder, file = pair
    assert NAMES[kind] <= set(read_safetensors_header(file)[0])
    found = detect(read_header(file))
    assert (found.require().family, found.kind, found.missing) == (kind, "checkpoint", [])
    convert(file, tmp_path / "again")
    same_weights(folder, tmp_path / "again")
    for path in folder.rglob("config.json"):
        assert json.loads((tmp_path / "again" / path.relative_to(folder)).read_text()) == json.loads(path.read_text())
    whole, single = (lockstep.DiffusionPipeline.from_pretrained(one) for one in (folder, file))
    assert type(whole) is type(single)
    alike(single, whole, kind)


def test_without_the_header_and_with_a_folder_of_configs(pair, tmp_path):
    kind, folder, file = pair
    save_file(load_file(file), tmp_path / "bare.safetensors")
    single = lockstep.DiffusionPipeline.from_single_file(tmp_path / "bare.safetensors", config=folder)
    alike(single, lockstep.DiffusionPipeline.from_pretrained(folder), kind)
    with pytest.raises(
        FileFormatError, match=r"whose (T5|Qwen) has a vocabulary that no single file carries.*config=…"
    ):
        SingleFile(tmp_path / "bare.safetensors").tokenizer(
            {"flux": "tokenizer_2", "sd3": "tokenizer_3"}.get(kind, "tokenizer")
        )


def test_the_transformer_alone_wants_the_rest(pair, tmp_path):
    kind, folder, file = pair
    tensors = {n: t for n, t in load_file(file).items() if n.startswith("model.diffusion_model.")}
    save_file({n.removeprefix("model.diffusion_model."): t for n, t in tensors.items()}, tmp_path / "one.safetensors")
    with pytest.raises(LoadError, match="needs the component"):
        lockstep.DiffusionPipeline.from_single_file(tmp_path / "one.safetensors", config=folder)
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    rest = {name: part for name, part in whole.components.items() if name not in ("transformer", "scheduler", "guider")}
    single = type(whole).from_single_file(tmp_path / "one.safetensors", config=folder, **rest)
    alike(single, whole, kind)


def test_stable_diffusion_3_without_t5(tmp_path):
    """As files that include the CLIPs alone; the first one's projection is left out there, where it does nothing."""
    folder = tiny_flow.save_sd3(tmp_path / "folder", text_encoder_3=None, tokenizer_3=None)
    path = folder / "text_encoder" / "model.safetensors"
    clip = load_file(path)
    save_file({**clip, "text_projection.weight": torch.eye(16)}, path, {"format": "pt"})
    convert(folder, tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["text_encoders.clip_l.transformer.text_projection.weight"]
    save_file(tensors, tmp_path / "clips.safetensors")
    file = SingleFile(tmp_path / "clips.safetensors")
    assert file.index()["text_encoder_3"] == file.index()["tokenizer_3"] == [None, None]
    single = lockstep.DiffusionPipeline.from_single_file(tmp_path / "clips.safetensors", config=folder)
    alike(single, lockstep.DiffusionPipeline.from_pretrained(folder), "sd3")


@pytest.mark.parametrize("kind", ["sd3", "wan", "z_image", "ltx"])
def test_the_reference_loads_the_transformer(tmp_path, kind):
    folder = SAVE[kind](tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    name = {
        "sd3": "SD3Transformer2DModel",
        "wan": "WanTransformer3DModel",
        "z_image": "ZImageTransformer2DModel",
        "ltx": "LTXVideoTransformer3DModel",
    }[kind]
    theirs = getattr(diffusers, name).from_single_file(
        str(tmp_path / "model.safetensors"), config=str(folder), subfolder="transformer", local_files_only=True
    )
    ours = getattr(lockstep, name).from_pretrained(folder, subfolder="transformer")
    same(theirs.state_dict(), ours.state_dict())


# ---- Wan ----

HEADS = {"num_attention_heads": 2, "attention_head_dim": 12}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("kind", ["text", "image", "first and last", "image experts"])
def test_wan_transformers_alone(tmp_path, kind, header):
    config = {**tiny_video.TRANSFORMER, **tiny_video.KINDS[kind].get("transformer", {})}
    model = random(lockstep.WanTransformer3DModel(**config))
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    if not header:
        save_file(load_file(tmp_path / "one.safetensors"), tmp_path / "one.safetensors")
    again = lockstep.WanTransformer3DModel.from_single_file(tmp_path / "one.safetensors", **({} if header else HEADS))
    same(again.state_dict(), model.state_dict())
    assert {key: again.config[key] for key in config} == config
    theirs = diffusers.WanTransformer3DModel.from_single_file(
        str(tmp_path / "one.safetensors"), config=str(tmp_path / "folder"), local_files_only=True
    ) if kind != "first and last" else None  # fmt: skip
    if theirs is not None:
        same(theirs.state_dict(), model.state_dict())
    if header:
        convert(tmp_path / "one.safetensors", tmp_path / "back")
        same_weights(tmp_path / "folder", tmp_path / "back")


@pytest.mark.parametrize("config", [tiny_video.VAE, tiny_video.VAE_22], ids=["2.1", "2.2"])
@pytest.mark.parametrize("layout", ["original", "published"])
def test_wan_autoencoders_alone(tmp_path, config, layout):
    model = random(lockstep.AutoencoderKLWan(**config))
    model.save_pretrained(tmp_path / "folder")
    path = tmp_path / "one.safetensors"
    if layout == "original":
        convert(tmp_path / "folder", path)
        convert(path, tmp_path / "back")
        same_weights(tmp_path / "folder", tmp_path / "back")
        save_file(load_file(path), path)
    else:
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    latents = {key: config[key] for key in ("latents_mean", "latents_std")}
    again = lockstep.AutoencoderKLWan.from_single_file(path, **latents)
    same(again.state_dict(), model.state_dict())
    for key, value in config.items():
        assert again.config[key] == value, key


SIZES = {
    "2.1 T2V 1.3B": {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 30},
    "2.1 I2V 14B": {"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120},
    "FLF2V 14B": {"in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120, "pos_embed_seq_len": 514},
    "2.2 I2V A14B": {"in_channels": 36},
    "2.2 TI2V 5B": {"num_attention_heads": 24, "ffn_dim": 14336, "num_layers": 30, "in_channels": 48,
                    "out_channels": 48},
}  # fmt: skip


@pytest.mark.parametrize("variant", SIZES)
@pytest.mark.parametrize("layout", ["original", "published"])
def test_full_size_headers_of_wan(tmp_path, variant, layout):
    """From the header alone: the variant, its pipeline and its whole config."""
    model = lockstep.WanTransformer3DModel.on_meta(SIZES[variant])
    stored = in_memory(model.state_dict(), files.NOWHERE)
    if layout == "original":
        from lockstep.loaders.weight_map import WeightMap
        from lockstep.models.transformers.transformer_wan_map import wan_rows

        stored = WeightMap(wan_rows(model.config)).to_theirs(stored)
    file = SingleFile(files.write_sparse(tmp_path / "wan.safetensors", files.shapes_of(stored)))
    assert str(file.guess) == f"Wan, {variant}"
    assert dict(lockstep.WanTransformer3DModel.on_meta(file.config("transformer")).config) == dict(model.config)
    wanted = "WanImageToVideoPipeline" if model.config.in_channels == 36 else "WanPipeline"
    assert file.index()["_class_name"] == wanted
    assert file.scheduler_config()["flow_shift"] == {"FLF2V 14B": 16.0, "2.2 TI2V 5B": 5.0}.get(variant, 3.0)


def test_kinds_of_wan_that_are_not_loaded_are_named(tmp_path):
    shapes = {"head.modulation": (1, 2, 1536), "patch_embedding.weight": (1536, 16, 1, 2, 2),
              "vace_patch_embedding.weight": (1536, 96, 1, 2, 2),
              "blocks.0.self_attn.norm_q.weight": (1536,)}  # fmt: skip
    with pytest.raises(UnsupportedError, match="Wan, VACE: recognised"):
        detect(read_header(files.write_sparse(tmp_path / "vace.safetensors", shapes))).require()


def test_two_experts_are_two_files(tmp_path):
    folder = tiny_video.save_wan(tmp_path / "folder", "image experts")
    with pytest.raises(UnsupportedError, match="a file for each of two experts"):
        convert(folder, tmp_path / "both.safetensors")
    for name in ("transformer", "transformer_2"):
        convert(folder / name, tmp_path / f"{name}.safetensors")
        model = lockstep.WanTransformer3DModel.from_single_file(tmp_path / f"{name}.safetensors")
        same(model.state_dict(), load_file(folder / name / "diffusion_pytorch_model.safetensors"))


def test_wan_in_fp8_with_scales(tmp_path):
    model = random(lockstep.WanTransformer3DModel(**tiny_video.TRANSFORMER))
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    tensors, wanted = {"model.diffusion_model.scaled_fp8": torch.zeros(0, dtype=torch.float8_e4m3fn)}, {}
    for name, tensor in load_file(tmp_path / "one.safetensors").items():
        full = f"model.diffusion_model.{name}"
        if name.endswith(".weight") and tensor.ndim == 2:
            scale = tensor.abs().max() / 448
            tensors[full] = (tensor / scale).to(torch.float8_e4m3fn)
            tensors[full.removesuffix("weight") + "scale_weight"] = scale
            wanted[name] = tensors[full].float() * scale
        else:
            tensors[full] = wanted[name] = tensor
    save_file(tensors, tmp_path / "fp8.safetensors")
    save_file(wanted, tmp_path / "plain.safetensors")
    got, plain = (
        lockstep.WanTransformer3DModel.from_single_file(tmp_path / f"{name}.safetensors", dtype="float32", **HEADS)
        for name in ("fp8", "plain")
    )
    same(got.state_dict(), plain.state_dict())


def test_wan_as_gguf_with_lost_and_folded_axes(tmp_path):
    """Five axes are noted beside the tensor, and an axis of one at the front is lost by some quantisers."""
    config = {
        **tiny_video.TRANSFORMER,
        "num_attention_heads": 4,
        "attention_head_dim": 8,
        "ffn_dim": 64,
        "text_dim": 32,
    }
    model = random(lockstep.WanTransformer3DModel(**config))
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    writer = gguf.GGUFWriter(tmp_path / "wan.gguf", "wan")
    wanted = {}
    for name, tensor in load_file(tmp_path / "one.safetensors").items():
        value = tensor.float()
        if value.ndim == 5:
            writer.add_array(f"comfy.gguf.orig_shape.{name}", list(value.shape))
            value = value.reshape(value.shape[0], -1)
        value = value[0] if name.endswith("modulation") else value
        if tensor.ndim == 2 and value.shape[1] % 32 == 0:
            raw = gguf.quants.quantize(value.numpy(), gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, raw, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
            value = torch.from_numpy(gguf.quants.dequantize(raw, gguf.GGMLQuantizationType.Q8_0))
        else:
            writer.add_tensor(name, value.contiguous().numpy())
        wanted[name] = value.reshape(tensor.shape).contiguous()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(wanted, tmp_path / "plain.safetensors")
    heads = {"num_attention_heads": 4, "attention_head_dim": 8}
    got = lockstep.WanTransformer3DModel.from_single_file(tmp_path / "wan.gguf", **heads)
    same(
        got.state_dict(),
        lockstep.WanTransformer3DModel.from_single_file(tmp_path / "plain.safetensors", **heads).state_dict(),
    )


@pytest.mark.parametrize("kind", ["T5EncoderModel", "UMT5EncoderModel"])
def test_text_encoders_in_llamas_names(tmp_path, kind):
    config = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    model = random(getattr(lockstep, kind)(**config, feed_forward_proj="gated-gelu"))
    from lockstep.loaders.weight_map import WeightMap

    theirs = WeightMap(llama_rows(model.config)).to_theirs(in_memory(model.state_dict(), files.NOWHERE))
    tensors = {name: tensor.make().contiguous() for name, tensor in theirs.items()}
    assert {"enc.blk.0.attn_rel_b.weight", "enc.blk.1.ffn_gate.weight", "token_embd.weight"} <= set(tensors)
    save_file(tensors, tmp_path / "t5.safetensors")
    again = getattr(lockstep, kind).from_single_file(tmp_path / "t5.safetensors")
    same(again.state_dict(), model.state_dict())
    save_file({n: t.contiguous() for n, t in model.state_dict().items()}, tmp_path / "published.safetensors")
    same(getattr(lockstep, kind).from_single_file(tmp_path / "published.safetensors").state_dict(), model.state_dict())


@pytest.mark.parametrize("layout", ["llama.cpp's", "whole model's", "lone"])
def test_qwen3_in_other_names(tmp_path, layout):
    tiny_config = {**tiny_z_image.ENCODER, "vocab_size": 60}
    model = random(lockstep.Qwen3Model(**tiny_config))
    rows = {
        "llama.cpp's": qwen3_llama_rows(model.config),
        "whole model's": [("model.{*}", "{*}")],
        "lone": [("{*}", "{*}")],
    }
    from lockstep.loaders.weight_map import WeightMap

    theirs = WeightMap(rows[layout]).to_theirs(in_memory(model.state_dict(), files.NOWHERE))
    tensors = {name: tensor.make().contiguous() for name, tensor in theirs.items()}
    save_file(tensors, tmp_path / "qwen3.safetensors")
    assert detect(read_header(tmp_path / "qwen3.safetensors")).require().family == "qwen3"
    again = lockstep.Qwen3Model.from_single_file(tmp_path / "qwen3.safetensors", rope_theta=1_000_000.0)
    same(again.state_dict(), model.state_dict())
    ids = torch.tensor([[5, 9, 14]])
    with torch.no_grad():
        assert torch.equal(again(ids)[0], model.eval()(ids)[0])


def test_a_relative_of_z_image_is_told_apart(tmp_path):
    """Lumina 2, from which it comes, has most of its names."""
    folder = tiny_z_image.save_z_image(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    renamed = {name.replace("adaLN_modulation.0", "adaLN_modulation.1"): t for name, t in tensors.items()}
    save_file(renamed, tmp_path / "lumina.safetensors")
    with pytest.raises(UnsupportedError, match="Lumina 2"):
        SingleFile(tmp_path / "lumina.safetensors")
    extra = {**tensors, "model.diffusion_model.norm_final.weight": torch.ones(24)}
    save_file(extra, tmp_path / "older.safetensors")
    single = lockstep.DiffusionPipeline.from_single_file(tmp_path / "older.safetensors", config=folder)
    alike(single, lockstep.DiffusionPipeline.from_pretrained(folder), "z_image")


# ---- Qwen-Image ----


@pytest.mark.parametrize("layout", ["older names", "newer names"])
def test_qwen2_5_vl_alone(tmp_path, layout):
    model = random(lockstep.Qwen2_5_VLForConditionalGeneration(**tiny_qwen_image.ENCODER, vocab_size=60))
    model.save_pretrained(tmp_path / "folder")
    path = tmp_path / "one.safetensors"
    if layout == "older names":
        convert(tmp_path / "folder", path)
        convert(path, tmp_path / "back")
        same_weights(tmp_path / "folder", tmp_path / "back")
        tensors = load_file(path)
        assert {name.split(".")[0] for name in tensors} == {"model", "visual"}
    else:
        tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file({**tensors, "lm_head.weight": torch.zeros(60, 16)}, path)
    assert detect(read_header(path)).require().family == "qwen2_5_vl"
    kept = ("num_attention_heads", "num_key_value_heads", "rope_scaling", "vision_config")
    again = lockstep.Qwen2_5_VLForConditionalGeneration.from_single_file(
        path, **{name: tiny_qwen_image.ENCODER[name] for name in kept}
    )
    same(again.state_dict(), model.state_dict())


@pytest.mark.parametrize("layout", ["original", "published"])
def test_the_autoencoder_of_qwen_image_alone(tmp_path, layout):
    """Its tensors are named as Wan's: the class that is asked decides."""
    model = random(lockstep.AutoencoderKLQwenImage(**tiny_qwen_image.VAE))
    model.save_pretrained(tmp_path / "folder")
    path = tmp_path / "one.safetensors"
    if layout == "original":
        convert(tmp_path / "folder", path)
        convert(path, tmp_path / "back")
        same_weights(tmp_path / "folder", tmp_path / "back")
        save_file(load_file(path), path)
    else:
        save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, path)
    scales = {key: tiny_qwen_image.VAE[key] for key in ("latents_mean", "latents_std")}
    again = lockstep.AutoencoderKLQwenImage.from_single_file(path, **scales)
    same(again.state_dict(), model.state_dict())
    assert not again.unknown_config_keys
    for key, value in tiny_qwen_image.VAE.items():
        assert list(np.atleast_1d(again.config[key])) == list(np.atleast_1d(value)), key


@pytest.mark.parametrize("mark", [False, True])
def test_full_size_header_of_qwen_image(tmp_path, mark):
    """From the header alone: its whole config; files of Edit-2511 for ComfyUI say so by a tensor."""
    model = lockstep.QwenImageTransformer2DModel.on_meta({"zero_cond_t": mark})
    shapes = files.shapes_of(in_memory(model.state_dict(), files.NOWHERE)) | (
        {"__index_timestep_zero__": (1,)} if mark else {}
    )
    file = SingleFile(files.write_sparse(tmp_path / "qwen.safetensors", shapes))
    assert file.guess.family == "qwen_image"
    assert file.guess.variant == ("Edit-2511" if mark else "")
    assert file.index()["_class_name"] == ("QwenImageEditPlusPipeline" if mark else "QwenImagePipeline")
    assert file.scheduler_config()["shift_terminal"] == 0.02
    made = lockstep.QwenImageTransformer2DModel.on_meta(file.config("transformer"))
    wanted = {name: list(v) if isinstance(v, tuple) else v for name, v in model.config.items()}
    assert {name: list(v) if isinstance(v, tuple) else v for name, v in made.config.items()} == wanted


# ---- LTX-Video ----


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("version", list(tiny_ltx_video.VAES))
def test_autoencoders_of_ltx_video_alone(tmp_path, version, header):
    model = tiny_ltx_video.autoencoder(version)
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    if not header:
        tensors = load_file(tmp_path / "one.safetensors")
        unread = {f"per_channel_statistics.{name}": torch.ones(8) for name in ("channel", "mean-of-stds")}
        save_file(
            {f"vae.{name}": tensor for name, tensor in {**tensors, **unread}.items()}, tmp_path / "one.safetensors"
        )
    assert detect(read_header(tmp_path / "one.safetensors")).require().family == "ltx_vae"
    again = lockstep.AutoencoderKLLTXVideo.from_single_file(tmp_path / "one.safetensors")
    same(again.state_dict(), model.state_dict())
    assert {key: again.config[key] for key in tiny_ltx_video.VAES[version]} == {
        key: list(value) if isinstance(value, tuple) else value for key, value in tiny_ltx_video.VAES[version].items()
    }


@pytest.mark.parametrize("version", list(tiny_ltx_video.VAES))
def test_versions_of_ltx_video_in_one_file(tmp_path, version):
    """As the makers publish them: transformer and autoencoder, without T5 and without configs."""
    folder = tiny_ltx_video.save_ltx(tmp_path / "folder", version)
    convert(folder, tmp_path / "whole.safetensors")
    tensors = {n: t for n, t in load_file(tmp_path / "whole.safetensors").items() if not n.startswith("text_encoders.")}
    save_file(tensors, tmp_path / "ltx-video.safetensors")
    found = detect(read_header(tmp_path / "ltx-video.safetensors"))
    assert (found.require().family, found.missing) == ("ltx", ["text_encoder"])
    assert found.require().variant == {"0.9.0": "2B", "0.9.1": "2B 0.9.1", "0.9.5": "2B 0.9.5 or later"}[version]
    shifted = SingleFile(tmp_path / "ltx-video.safetensors").scheduler_config()["use_dynamic_shifting"]
    assert shifted == (version != "0.9.5")
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    rest = {name: whole.components[name] for name in ("tokenizer", "text_encoder")}
    single = lockstep.LTXPipeline.from_single_file(tmp_path / "ltx-video.safetensors", config=folder, **rest)
    alike(single, whole, "ltx")
    kind = lockstep.LTXImageToVideoPipeline
    assert type(kind.from_single_file(tmp_path / "ltx-video.safetensors", config=folder, **rest)) is kind


def test_the_relative_that_makes_sound_is_told_apart(tmp_path):
    folder = tiny_ltx_video.save_ltx(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    tensors = load_file(tmp_path / "model.safetensors")
    more = {
        "audio_patchify_proj.weight": torch.ones(2, 2),
        "av_ca_a2v_gate_adaln_single.linear.weight": torch.ones(2, 2),
    }
    save_file({**tensors, **{f"model.diffusion_model.{n}": t for n, t in more.items()}}, tmp_path / "two.safetensors")
    with pytest.raises(UnsupportedError, match="LTX-2"):
        SingleFile(tmp_path / "two.safetensors")

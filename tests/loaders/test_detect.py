"""Detection: the right family from names and shapes alone, or a clear error with the evidence."""

import struct
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from loaders import checkpoints as files
from lockstep.errors import FileFormatError, UnsupportedError
from lockstep.loaders.detect import detect
from lockstep.loaders.header import read_header


def found(path):
    return detect(read_header(path))


@pytest.fixture
def detected(tmp_path):
    def of(shapes, metadata=None, name="model.safetensors"):
        return found(files.write_sparse(tmp_path / name, shapes, metadata=metadata))

    return of


@pytest.mark.parametrize(
    ("kind", "title", "width"),
    [
        ("sd1", "Stable Diffusion 1.x", 768),
        ("sd2", "Stable Diffusion 2.x", 1024),
        ("sdxl", "Stable Diffusion XL", 2048),
        ("refiner", "Stable Diffusion XL refiner", 1280),
        ("upscaler", "Stable Diffusion x4 upscaler", 1024),
    ],
)
def test_all_in_one_files(detected, kind, title, width):
    result = detected(files.full_shapes(kind))
    assert (result.kind, result.title, result.sure, result.missing) == ("checkpoint", title, True, [])
    assert result.require().family == kind
    config = result.components["unet"].config
    assert config["cross_attention_dim"] == width
    for key, value in files.UNETS[kind].items():
        if key not in (
            "attention_head_dim",
            "addition_embed_type",
            "addition_time_embed_dim",
            "transformer_layers_per_block",
        ):
            assert config[key] == value, key
    assert "unknown" not in " ".join(result.leftovers)


@pytest.mark.parametrize("prefix", ["", "model.", "diffusion_model.", "my.renamed.unet."])
@pytest.mark.parametrize("kind", ["sd1", "sd2", "sdxl", "refiner"])
def test_a_denoiser_alone_under_any_prefix(detected, kind, prefix):
    result = detected(files.unet_shapes(kind, prefix))
    assert (result.kind, result.require().family) == ("model", kind)
    assert result.components["unet"].prefix == prefix
    assert "vae" in result.missing


@pytest.mark.parametrize(
    ("kind", "channels", "variant"),
    [
        ("sd1", 9, "inpainting"),
        ("sd2", 9, "inpainting"),
        ("sdxl", 9, "inpainting"),
        ("sd1", 8, "instruct-pix2pix"),
        ("sdxl", 8, "instruct-pix2pix"),
        ("sd2", 5, "depth to image"),
        ("sd1", 4, ""),
        ("sd1", 13, "13 input channels"),
    ],
)
def test_variants(detected, kind, channels, variant):
    guess = detected(files.full_shapes(kind, in_channels=channels)).require()
    assert (guess.family, guess.variant) == (kind, variant)


def test_depths_of_transformers(detected):
    config = detected(files.unet_shapes("sdxl")).components["unet"].config
    assert config["transformer_layers_per_block"] == (1, 2, 10)
    assert config["use_linear_projection"] is True
    shallow = detected(files.unet_shapes("sdxl", transformer_layers_per_block=(1, 2, 4))).components["unet"].config
    assert shallow["transformer_layers_per_block"] == (1, 2, 4)


def test_controlnets(detected):
    result = detected(files.controlnet_shapes(cross_attention_dim=768))
    assert (result.kind, result.title) == ("controlnet", "ControlNet for Stable Diffusion 1.x")
    assert result.parts[0].config["conditioning_embedding_out_channels"] == (16, 32, 96, 256)
    bare = detected(files.controlnet_shapes(prefix="", cross_attention_dim=1024, use_linear_projection=True))
    assert bare.title == "ControlNet for Stable Diffusion 2.x"


def test_a_controlnet_beside_its_model(detected):
    result = detected(files.full_shapes("sd1") | files.controlnet_shapes(cross_attention_dim=768))
    assert (result.kind, result.title) == ("checkpoint", "Stable Diffusion 1.x")
    assert set(result.components) == {"unet", "vae", "text_encoder", "controlnet"}


def test_what_training_left_behind_is_no_part(detected):
    left = {
        "loss.discriminator.main.0.weight": (64, 3, 4, 4),
        "loss.logvar": (),
        "model_ema.decay": (),
        "model_ema.num_updates": (),
    }
    result = detected(files.vae_shapes(prefix="") | left)
    assert result.kind == "autoencoder"
    assert not any(name.startswith(("loss.", "model_ema")) for name in result.parts[0].shapes)
    assert sum(result.leftovers.values()) == 4


def test_lone_autoencoders_say_what_no_tensor_tells(detected):
    plain = detected(files.vae_shapes(prefix=""))
    assert (plain.kind, plain.require().family) == ("autoencoder", "sd1")
    assert "scaling_factor" in plain.best.evidence[0]
    assert detected(files.vae_shapes(prefix="vae."), name="sdxl_vae.safetensors").require().family == "sdxl"
    assert (
        "FLUX.1"
        in detected(
            files.vae_shapes(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False)
        ).best.evidence[0]
    )


def test_text_encoders_alone(detected):
    assert detected(files.clip_shapes(files.CLIP_L, "")).title == "CLIP ViT-L text encoder"
    assert detected(files.open_clip_shapes(files.CLIP_G, "")).title == "OpenCLIP bigG text encoder"


FLUX = {
    "double_blocks.0.img_attn.norm.key_norm.scale": (128,),
    "double_blocks.1.img_attn.qkv.weight": (9216, 3072),
    "img_in.weight": (3072, 64),
    "single_blocks.0.linear1.weight": (21504, 3072),
}


def wan(dim, channels, image=False):
    shapes = {
        "head.modulation": (1, 2, dim),
        "patch_embedding.weight": (dim, channels, 1, 2, 2),
        "blocks.0.modulation": (1, 6, dim),
    }
    return shapes | ({"img_emb.proj.0.bias": (1280,)} if image else {})


@pytest.mark.parametrize(
    ("shapes", "title"),
    [
        (FLUX, "FLUX.1, schnell"),
        (FLUX | {"guidance_in.in_layer.weight": (3072, 256)}, "FLUX.1, dev (or Kontext: no tensor tells)"),
        (FLUX | {"img_in.weight": (3072, 384)}, "FLUX.1, Fill"),
        ({f"model.{name}": shape for name, shape in FLUX.items()}, "FLUX.1, schnell"),
        (FLUX | {"distilled_guidance_layer.in_proj.weight": (5120, 64)}, "Chroma"),
        (wan(3072, 48), "Wan, 2.2 TI2V 5B"),
        (wan(5120, 36), "Wan, 2.2 I2V A14B"),
        (wan(5120, 36, image=True), "Wan, 2.1 I2V 14B"),
        (wan(1536, 36), "Wan, 2.1 Fun inpainting 1.3B"),
        (wan(1536, 16), "Wan, 2.1 T2V 1.3B"),
        (
            {"decoder.middle.0.residual.0.gamma": (384, 1, 1, 1), "conv2.weight": (48, 48, 1, 1, 1)},
            "VAE of Wan, 2.2 (48 channels)",
        ),
        (
            {"decoder.middle.0.residual.0.gamma": (384, 1, 1, 1), "conv2.weight": (16, 16, 1, 1, 1)},
            "VAE of Wan, 2.1, or that of Qwen-Image",
        ),
        (
            {
                "av_ca_a2v_gate_adaln_single.linear.weight": (2, 2),
                "adaln_single.emb.timestep_embedder.linear_1.bias": (2,),
                "patchify_proj.weight": (2, 2),
            },
            "LTX-2",
        ),
        ({"model.diffusion_model.txt_in.individual_token_refiner.blocks.0.norm1.weight": (3072,)}, "HunyuanVideo"),
        ({"txt_norm.weight": (3584,), "transformer_blocks.0.img_mod.1.weight": (18432, 3072)}, "Qwen-Image"),
        (
            {
                "joint_blocks.0.context_block.attn.qkv.weight": (4608, 1536),
                "joint_blocks.0.x_block.attn2.qkv.weight": (4608, 1536),
            },
            "Stable Diffusion 3, 3.5 medium",
        ),
    ],
)
def test_families_that_are_not_loaded_yet_are_named(detected, shapes, title):
    result = detected(shapes)
    assert result.title == f"{title}: recognised, not supported yet"
    with pytest.raises(UnsupportedError, match="recognised, but Lockstep does not load it yet. Seen: it has"):
        result.require()


@pytest.mark.parametrize(
    ("projection", "kind"),
    [
        ({"image_proj.proj.weight": (3072, 1024)}, "plain"),
        ({"image_proj.latents": (1, 16, 768)}, "plus"),
        ({"image_proj.proj.3.weight": (768,)}, "full face"),
        ({"image_proj.norm.weight": (768,), "image_proj.proj.0.weight": (1024, 512)}, "FaceID"),
    ],
)
def test_ip_adapters_are_told_where_they_belong(detected, projection, kind):
    result = detected({"ip_adapter.1.to_k_ip.weight": (320, 768), **projection})
    assert (result.kind, result.title) == ("adapter", f"IP-Adapter, {kind}")
    with pytest.raises(FileFormatError, match="no model but an IP-Adapter.*pipe.load_ip_adapter"):
        result.require()


def test_t2i_adapters_by_their_first_layer(detected):
    def full(folded, start="", **more):
        body = {f"{start}body.{k}.block1.weight": (320, 320, 3, 3) for k in range(2)}
        return {f"{start}conv_in.weight": (320, folded, 3, 3), **body, **more}

    assert detected(full(192)).title == "T2I-Adapter, full_adapter, original layout"
    assert detected(full(64)).parts[0].config["in_channels"] == 1
    assert detected(full(768)).title == "T2I-Adapter, full_adapter_xl, original layout"
    light = {"body.0.in_conv.weight": (80, 192, 1, 1), "body.0.body.0.block1.weight": (80, 80, 3, 3)}
    result = detected({**light, "body.0.out_conv.weight": (320, 80, 1, 1)})
    assert [result.kind, result.title] == ["adapter", "T2I-Adapter, light_adapter, original layout"]
    assert len(result.parts) == 1


def test_prediction_type(detected, tmp_path):
    assert detected(files.full_shapes("sd1")).prediction_type == "epsilon"
    assert detected(files.full_shapes("sdxl") | {"v_pred": (0,)}).prediction_type == "v_prediction"
    assert detected(files.full_shapes("sd2", in_channels=9)).prediction_type is None
    said = detected(files.full_shapes("sd2"), metadata={"modelspec.prediction_type": "v"})
    assert said.prediction_type == "v_prediction"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("spread", "wanted"), [(0.2, "v_prediction"), (0.02, "epsilon")])
def test_prediction_type_of_sd2_by_the_spread_of_a_norm(tmp_path, dtype, spread, wanted):
    shapes = files.unet_shapes("sd2")
    path = files.write_sparse(tmp_path / "a.safetensors", shapes, dtype={4: "F32", 2: "F16"}[dtype.itemsize])
    header = read_header(path)
    info = header.tensors["model.diffusion_model.output_blocks.11.1.transformer_blocks.0.norm1.bias"]
    values = (torch.randn(info.shape) * spread).to(dtype)
    with path.open("r+b") as file:
        file.seek(info.start)
        file.write(values.view(torch.uint8).numpy().tobytes())
    if dtype == torch.bfloat16:
        header.tensors = {
            name: type(one)("BF16", one.shape, one.start, one.end) for name, one in header.tensors.items()
        }
    assert detect(header).prediction_type == wanted


# ---- files that are not what they seem ----


def test_half_a_file(detected, tmp_path):
    path = files.write_sparse(tmp_path / "cut.safetensors", files.full_shapes("sd1"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(FileFormatError, match="cut off"):
        found(path)
    shapes = files.full_shapes("sd1")
    half = {name: shape for name, shape in shapes.items() if not name.startswith("model.diffusion_model.out")}
    result = detected(half)
    assert result.best.family == "sd1"
    assert any("incomplete" in note and "output_blocks" in note for note in result.notes)


def test_two_models_in_one_file(detected):
    result = detected(files.unet_shapes("sd1", "a.") | files.unet_shapes("sdxl", "b."))
    with pytest.raises(FileFormatError, match="two models in one file"):
        result.require()


def test_a_lora_given_as_a_model(detected):
    kohya = {
        "lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight": (4, 320),
        "x.lora_up.weight": (320, 4),
        "x.alpha": (),
    }
    result = detected(kohya)
    assert result.kind == "lora"
    with pytest.raises(FileFormatError, match="is no model but a LoRA.*lora_down.*--lora"):
        result.require()


def test_an_embedding_given_as_a_model(detected):
    with pytest.raises(FileFormatError, match="textual inversion"):
        detected({"<cat-toy>": (1, 768)}).require()
    assert detected({"clip_l": (2, 768), "clip_g": (2, 1280)}).kind == "embedding"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"<html><body>401 Unauthorized</body></html>", "is text.*login"),
        (b"\x80\x04}q\x00.", "pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "LFS pointer"),
        (b"PK\x03\x04" + bytes(40), "pickle"),
        (struct.pack("<Q", 2**63) + b"{}", "cut off"),
        (bytes(range(200, 256)) * 10, "cut off"),
    ],
)
def test_files_that_are_no_weights(tmp_path, content, words):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=words):
        found(path)


def test_no_tensors_and_unknown_names(tmp_path, detected):
    save_file({}, tmp_path / "none.safetensors")
    with pytest.raises(FileFormatError, match="no tensor at all"):
        found(tmp_path / "none.safetensors")
    result = detected({"some.thing.weight": (3, 3), "some.other.weight": (3, 3, 3)})
    with pytest.raises(FileFormatError, match="not recognised.*some.thing.weight"):
        result.require()


def test_an_unsure_file_gets_ranked_guesses(detected):
    result = detected(files.unet_shapes("sd1", cross_attention_dim=500))
    assert not result.sure
    with pytest.raises(FileFormatError, match="likeliest first: Stable Diffusion 1.x.*family="):
        result.require()


def test_detection_needs_no_torch(tmp_path):
    path = files.write_sparse(tmp_path / "sd.safetensors", files.full_shapes("sd1"), dtype="F32")
    assert path.stat().st_size > 3.4e9
    code = (
        "import sys, time, pathlib; start = time.perf_counter()\n"
        "from lockstep.loaders.detect import detect; from lockstep.loaders.header import read_header\n"
        f"print(detect(read_header(pathlib.Path({str(path)!r}))).title, time.perf_counter() - start)\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Stable Diffusion 1.x ")
    assert float(said.split()[-1]) < 1

"""Quantised files: GGUF, fp8 with and without scales, and those that are refused by name."""

import gguf
import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

import lockstep
from lockstep.errors import FileFormatError, UnsupportedError, WeightsError
from lockstep.files import read_safetensors_header
from lockstep.loaders.checkpoint import open_checkpoint
from lockstep.loaders.convert import convert
from lockstep.loaders.gguf_header import TYPES
from lockstep.loaders.header import read_header
from pipelines import tiny

QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")  # those that the package also writes


def write_gguf(path, tensors, kinds=None, architecture="sd1", **values):
    """A GGUF file by the reference writer; `kinds` says how a tensor is quantised."""
    writer = gguf.GGUFWriter(str(path), architecture)
    for key, value in values.items():
        writer.add_array(key, value)
    for name, tensor in tensors.items():
        kind = gguf.GGMLQuantizationType[(kinds or {}).get(name, "F32")]
        data = tensor.float().numpy()
        if kind != gguf.GGMLQuantizationType.F32:
            data = gguf.quants.quantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_table_of_types_is_the_packages():
    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    assert theirs == TYPES


@pytest.mark.parametrize("kind", [*QUANTISED, "F32", "F16", "BF16"])
def test_values_are_the_packages(kind, tmp_path):
    tensors = {"a.weight": torch.randn(6, 64), "b.weight": torch.randn(4, 2, 32)}
    path = write_gguf(tmp_path / "x.gguf", tensors, dict.fromkeys(tensors, kind))
    header = read_header(path)
    assert header.metadata["general.architecture"] == "sd1"
    stored = open_checkpoint(path)
    reader = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    for name, tensor in tensors.items():
        assert (stored[name].info.shape, header.tensors[name].dtype) == (tuple(tensor.shape), kind)
        wanted = gguf.quants.dequantize(numpy.asarray(reader[name].data), reader[name].tensor_type)
        got = stored[name].make()
        assert torch.equal(got.float(), torch.from_numpy(numpy.array(wanted, dtype=numpy.float32)).view(tensor.shape))
        assert torch.linalg.norm(got.float() - tensor) / torch.linalg.norm(tensor) < 0.2


def test_shapes_with_more_axes_than_the_format_has(tmp_path):
    tensor = torch.randn(64, 32)
    path = write_gguf(
        tmp_path / "x.gguf", {"patch.weight": tensor}, **{"comfy.gguf.orig_shape.patch.weight": [4, 16, 1, 1, 32]}
    )
    assert torch.equal(open_checkpoint(path)["patch.weight"].make(), tensor.view(4, 16, 1, 1, 32))
    path = write_gguf(
        tmp_path / "y.gguf", {"patch.weight": tensor}, **{"comfy.gguf.orig_shape.patch.weight": [4, 16, 3]}
    )
    with pytest.raises(FileFormatError, match=r"cannot be seen as \[4, 16, 3\]"):
        open_checkpoint(path)


@pytest.fixture
def single(tmp_path):
    """(folder, single file) of a tiny Stable Diffusion 1.x."""
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    return folder, tmp_path / "model.safetensors"


def test_a_pipeline_from_gguf(single, tmp_path):
    folder, file = single
    tensors = load_file(file)
    kinds = {name: "Q8_0" for name, t in tensors.items() if t.ndim > 1 and t.shape[-1] % 32 == 0}
    assert len(kinds) > 20
    path = write_gguf(tmp_path / "model.gguf", tensors, kinds)
    pipe = lockstep.DiffusionPipeline.from_single_file(path, config=folder)
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    for name, tensor in whole.unet.state_dict().items():
        got = pipe.unet.state_dict()[name]
        assert torch.linalg.norm(got - tensor) <= 0.01 * torch.linalg.norm(tensor), name
    call = {
        "prompt": "a red cat",
        "num_inference_steps": 2,
        "seed": 0,
        "height": 32,
        "width": 32,
        "output_type": "latent",
    }
    assert torch.isfinite(pipe(**call).images).all()
    convert(path, tmp_path / "plain.safetensors", dtype=torch.bfloat16)
    assert {info.dtype for info in read_safetensors_header(tmp_path / "plain.safetensors")[0].values()} == {"BF16"}


def fp8(tensors, scale_names, marker=True):
    """The weights of a UNet as fp8 with one scale each."""
    made = {}
    for name, tensor in tensors.items():
        if name.startswith("model.diffusion_model.") and name.endswith(".weight") and tensor.ndim > 1:
            scale = tensor.abs().max() / 448
            made[name] = (tensor / scale).to(torch.float8_e4m3fn)
            module = name.removesuffix(".weight")
            made |= {f"{module}.{scale_names[0]}": scale, f"{module}.{scale_names[1]}": torch.ones(())}
        else:
            made[name] = tensor
    return made | ({"model.diffusion_model.scaled_fp8": torch.empty(0, dtype=torch.float8_e4m3fn)} if marker else {})


@pytest.mark.parametrize("names", [("scale_weight", "scale_input"), ("weight_scale", "input_scale")])
def test_scaled_fp8_is_its_value_times_its_scale(single, tmp_path, names):
    folder, file = single
    quantised = fp8(load_file(file), names)
    save_file(quantised, tmp_path / "fp8.safetensors", read_safetensors_header(file)[1])
    model = lockstep.UNet2DConditionModel.from_single_file(tmp_path / "fp8.safetensors")
    wanted = lockstep.UNet2DConditionModel.from_pretrained(folder, subfolder="unet").state_dict()
    name, original = "conv_in.weight", "model.diffusion_model.input_blocks.0.0"
    by_hand = quantised[f"{original}.weight"].float() * quantised[f"{original}.{names[0]}"]
    assert torch.equal(model.state_dict()[name], by_hand)
    for key, tensor in model.state_dict().items():
        assert torch.linalg.norm(tensor - wanted[key]) <= 0.05 * torch.linalg.norm(wanted[key]), key


def test_plain_fp8_is_cast_up(single, tmp_path):
    _, file = single
    whole = load_file(file)
    save_file(
        {n: t.to(torch.float8_e5m2) for n, t in whole.items()},
        tmp_path / "fp8.safetensors",
        read_safetensors_header(file)[1],
    )
    for dtype, wanted in ((None, torch.float32), ("keep", torch.bfloat16), ("float16", torch.float16)):
        model = lockstep.UNet2DConditionModel.from_single_file(tmp_path / "fp8.safetensors", dtype=dtype)
        assert model.dtype == wanted
        value = whole["model.diffusion_model.input_blocks.0.0.weight"].to(torch.float8_e5m2).to(wanted)
        assert torch.equal(model.conv_in.weight, value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.weight.quant_state.bitsandbytes__nf4", "bitsandbytes nf4"),
        ("a.SCB", "bitsandbytes int8"),
        ("a.qweight", "SVDQuant"),
        ("a.weight_scale_inv", "block-wise fp8"),
        ("a.scales", "MLX"),
    ],
)
def test_other_quantisations_are_named_and_refused(tmp_path, name, words):
    save_file({"a.weight": torch.ones(2, 2), name: torch.ones(2)}, tmp_path / "q.safetensors")
    with pytest.raises(UnsupportedError, match=words):
        open_checkpoint(tmp_path / "q.safetensors")


def test_scales_that_do_not_fit_are_refused(tmp_path):
    weight = torch.ones(4, 4).to(torch.float8_e4m3fn)
    save_file({"a.weight": weight, "a.scale_weight": torch.ones(3)}, tmp_path / "q.safetensors")
    with pytest.raises(UnsupportedError, match=r"scale of shape \[3\]"):
        open_checkpoint(tmp_path / "q.safetensors")
    save_file({"a.weight": weight, "a.scale_weight": torch.tensor([1.0, 2, 3, 4])}, tmp_path / "rows.safetensors")
    rows = open_checkpoint(tmp_path / "rows.safetensors")["a.weight"].make()
    assert rows[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0]


def test_flux_as_gguf_and_as_fp8(tmp_path):
    """The makers' layout under the names that ComfyUI writes, quantised; norms stay as they are."""
    width = {"attention_head_dim": 16, "num_attention_heads": 2, "axes_dims_rope": (4, 4, 8)}
    config = {**width, "in_channels": 32, "num_layers": 1, "num_single_layers": 1, "joint_attention_dim": 32,
              "pooled_projection_dim": 32, "guidance_embeds": True}  # fmt: skip
    model = tiny.randomize(lockstep.FluxTransformer2DModel(**config), 1)
    model.save_pretrained(tmp_path / "folder")
    convert(tmp_path / "folder", tmp_path / "one.safetensors")
    tensors = load_file(tmp_path / "one.safetensors")
    matrices = [name for name, tensor in tensors.items() if tensor.ndim == 2]
    write_gguf(tmp_path / "one.gguf", tensors, dict.fromkeys(matrices, "Q8_0"), architecture="flux")
    small = {n: t.to(torch.float8_e4m3fn) if n in matrices else t for n, t in tensors.items()}
    save_file({f"model.diffusion_model.{name}": tensor for name, tensor in small.items()}, tmp_path / "fp8.safetensors")
    for path, far in ((tmp_path / "one.gguf", 0.01), (tmp_path / "fp8.safetensors", 0.04)):
        loaded = lockstep.FluxTransformer2DModel.from_single_file(path, axes_dims_rope=(4, 4, 8))
        assert {key: loaded.config[key] for key in config} == config
        for name, tensor in model.state_dict().items():
            error = torch.linalg.norm(loaded.state_dict()[name] - tensor) / torch.linalg.norm(tensor)
            assert error < far, (path.name, name)


def test_one_missing_scale_of_many_is_refused(single, tmp_path, caplog):
    """A weight that is read as it is would be some hundred times too large."""
    tensors = {}
    for name, tensor in load_file(single[1]).items():
        if name.startswith("model.diffusion_model.") and name.endswith(".weight") and tensor.ndim == 2:
            tensors[name] = (tensor / 0.01).to(torch.float8_e4m3fn)
            tensors[name.removesuffix("weight") + "scale_weight"] = torch.tensor(0.01)
    alike = sorted(name for name in tensors if name.endswith("emb_layers.1.scale_weight"))
    assert len(alike) > 1
    save_file({n: t for n, t in tensors.items() if n != alike[0]}, tmp_path / "hole.safetensors")
    with pytest.raises(WeightsError, match=r"emb_layers.1.weight' is fp8 and has no scale, though its like"):
        open_checkpoint(tmp_path / "hole.safetensors")
    lone = "model.diffusion_model.time_embed.0.scale_weight"
    save_file(
        {n: t for n, t in tensors.items() if "time_embed" not in n or "scale" not in n}, tmp_path / "a.safetensors"
    )
    assert lone in tensors
    open_checkpoint(tmp_path / "a.safetensors")
    assert "1 kinds of fp8 weights have no scale" in caplog.text

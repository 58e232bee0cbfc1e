"""Loading and saving: one path, memory-mapped, with errors that name file, tensor, wanted and got."""

import json
import logging
import pickle
import subprocess
import sys

import diffusers
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

import lockstep
from lockstep.configuration import register_to_config
from lockstep.errors import (
    ConfigError,
    FileFormatError,
    InputError,
    NotFoundError,
    UnknownNameError,
    UnsupportedError,
    VariantError,
    WeightsError,
    WriteError,
)
from lockstep.models.modeling import ModelMixin, computes_bf16, resolve_dtype
from lockstep.models.weights import open_weights, parse_size, read_tensors
from lockstep.notes import say_once
from pipelines import tiny


class Small(ModelMixin):
    ignored_tensors = (r"position_ids$",)
    tensor_renames = ((r"^old\.", "linear."),)
    keep_in_fp32 = (r"^norm\.",)

    @register_to_config
    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.linear(x))
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.fixture
def folder(tmp_path):
    Small().save_pretrained(tmp_path)
    return tmp_path


def test_loaded_model_is_equal_in_eval_mode_and_trainable(folder):
    model = Small.from_pretrained(str(folder))
    assert not model.training
    assert all(p.requires_grad and not p.is_meta for p in model.parameters())


def test_older_names_are_renamed_and_unneeded_tensors_left_out(folder):
    state = {name.replace("linear.", "old."): tensor for name, tensor in Small().state_dict().items()}
    save_file({**state, "text.position_ids": torch.arange(3)}, folder / Small.weights_name)
    assert torch.equal(Small.from_pretrained(folder).linear.weight, state["old.weight"])


def test_some_tensors_stay_fp32_in_half_precision(folder):
    model = Small.from_pretrained(folder, dtype="bf16")
    assert model.norm.weight.dtype == torch.float32
    assert model.linear.weight.dtype == torch.bfloat16


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("wanted", [torch.float16, torch.bfloat16, torch.float32])
def test_casting_while_loading_equals_casting_afterwards(tmp_path, stored, wanted):
    model = Small(width=300).to(stored)
    model.save_pretrained(tmp_path)
    loaded = Small.from_pretrained(tmp_path, dtype=wanted)
    assert torch.equal(loaded.linear.weight, model.linear.weight.to(wanted))
    assert Small.from_pretrained(tmp_path, dtype="keep").linear.weight.dtype == stored


def test_default_dtype_is_fp32_and_auto_follows_the_processor(folder):
    assert Small.from_pretrained(folder).dtype == torch.float32
    assert resolve_dtype("auto", torch.device("cpu")) == (torch.bfloat16 if computes_bf16("cpu") else torch.float32)
    with pytest.raises(UnknownNameError, match="did you mean 'float32'"):
        resolve_dtype("flaot32", torch.device("cpu"))


def test_config_values_can_be_replaced_while_loading(folder):
    with pytest.raises(WeightsError, match=r"layers\.2\.weight"):
        Small.from_pretrained(folder, depth=3)
    with pytest.raises(WeightsError, match=r"wanted shape \[4, 4\], got \[8, 8\]"):
        Small.from_pretrained(folder, width=4)


def test_a_missing_variant_names_the_ones_that_are_there(tmp_path):
    Small().save_pretrained(tmp_path, variant="fp16")
    with pytest.raises(NotFoundError, match="variant='fp16'"):
        Small.from_pretrained(tmp_path)
    with pytest.raises(VariantError, match="`variant=bf16`"):
        Small.from_pretrained(tmp_path, variant="bf16")


def test_missing_weights_are_told_in_the_words_and_classes_that_scripts_look_for(tmp_path):
    """The same class of error and the same beginning as the reference's."""
    mine, theirs = lockstep.AutoencoderTiny, diffusers.AutoencoderTiny
    widths = {f"{half}_block_out_channels": (8, 8) for half in ("encoder", "decoder")}
    layers = {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}
    mine(**widths, **layers).save_pretrained(tmp_path, variant="fp16")
    beginning = r"^Error no file named diffusion_pytorch_model.bin found in directory"
    for kind, options in ((mine, {"allow_pickle": True}), (theirs, {})):
        with pytest.raises(OSError, match=beginning):
            kind.from_pretrained(tmp_path, **options)


def test_shards_missing_doubled_or_outside_are_refused(tmp_path):
    Small().save_pretrained(tmp_path, max_shard_size=300)
    index = tmp_path / f"{Small.weights_name}.index.json"
    content = json.loads(index.read_text())
    shards = sorted(set(content["weight_map"].values()))
    assert len(shards) > 2
    outside = {**content["weight_map"], "linear.bias": "../elsewhere.safetensors"}
    index.write_text(json.dumps({"weight_map": outside}))
    with pytest.raises(FileFormatError, match="outside"):
        Small.from_pretrained(tmp_path)
    lie = {**content["weight_map"], "linear.bias": shards[-1]}
    index.write_text(json.dumps({"weight_map": lie}))
    with pytest.raises(FileFormatError, match=f"'linear.bias' is in {shards[-1]}, but it is in"):
        Small.from_pretrained(tmp_path)
    index.write_text(json.dumps({"weight_map": {**content["weight_map"], "phantom": shards[0]}}))
    with pytest.raises(FileFormatError, match=f"'phantom' is in {shards[0]}, but it is in no shard"):
        Small.from_pretrained(tmp_path)
    index.write_text(json.dumps(content))
    (tmp_path / shards[0]).rename(tmp_path / "hidden")
    with pytest.raises(NotFoundError, match=shards[0]):
        Small.from_pretrained(tmp_path)


def test_saving_again_leaves_no_file_of_the_earlier_save(tmp_path):
    Small().save_pretrained(tmp_path, max_shard_size=300)
    Small().save_pretrained(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["config.json", Small.weights_name]
    Small().save_pretrained(tmp_path, max_shard_size=300)
    assert not (tmp_path / Small.weights_name).exists()
    Small.from_pretrained(tmp_path)


def test_what_cannot_be_saved_or_switched_on_raises(tmp_path):
    with torch.device("meta"):
        empty = Small()
    with pytest.raises(WeightsError, match="meta"):
        empty.save_pretrained(tmp_path)
    with pytest.raises(UnsupportedError, match="save_function"):
        Small().save_pretrained(tmp_path, save_function=torch.save)
    with pytest.raises(UnsupportedError, match="gradient checkpointing"):
        Small().enable_gradient_checkpointing()
    with pytest.raises(UnsupportedError):
        Small().fuse_qkv_projections()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="folder"):
        Small().save_pretrained(tmp_path / "file")


def test_errors_name_the_config_the_weights_and_the_class_that_was_meant(folder):
    config = json.loads((folder / "config.json").read_text())
    state = Small().state_dict()
    save_file(
        {**{k: v for k, v in state.items() if k != "linear.bias"}, "other": torch.ones(1)}, folder / Small.weights_name
    )
    with pytest.raises(WeightsError, match=r"model\.safetensors do not fit this Small: .*'linear\.bias'.*'other'"):
        Small.from_pretrained(folder)
    for change, error in (
        ({"width": "8"}, r"'width' wants int, got str '8'\. .*config\.json"),
        ({"width": -8}, r"sizes that tensors can have: .*config\.json"),
        ({"_class_name": "AutoencoderKL"}, r"the config is that of AutoencoderKL\. .*config\.json"),
        ({"_use_default_values": None}, r"_use_default_values.*config\.json"),
    ):
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(ConfigError, match=error):
            Small.from_pretrained(folder)


@pytest.mark.parametrize(
    ("kind", "subfolder", "change"),
    [
        ("UNet2DConditionModel", "unet", {"layers_per_block": 10**9}),
        ("UNet2DConditionModel", "unet", {"transformer_layers_per_block": [1, 10**9]}),
        ("CLIPTextModel", "text_encoder", {"num_hidden_layers": 10**9}),
        ("AutoencoderKL", "vae", {"layers_per_block": 10**9}),
    ],
)
def test_a_config_with_more_layers_than_the_file_has_tensors_is_refused(tmp_path, kind, subfolder, change):
    model = tiny.save_folder(tmp_path) / subfolder
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ConfigError, match=f"{next(iter(change))}.*tensors"):
        getattr(lockstep, kind).from_pretrained(model)


def test_arguments_that_cannot_be_had_are_refused_before_anything_is_read(folder):
    for arguments, error in (
        ({"dtype": torch.int8}, "floating point"),
        ({"dtype": "fp16", "torch_dtype": "bf16"}, "two names of one argument"),
        ({"device": "gpu"}, "'gpu' is no device"),
        ({"device": "xla"}, "'xla' cannot be used here"),
        ({"variant": "../fp16"}, "word in a file's name"),
    ):
        with pytest.raises(InputError, match=error):
            Small.from_pretrained(folder, **arguments)
    for arguments in (
        {"quantization_config": {"bits": 4}},
        {"proxies": {"https": "x"}},
        {"device_map": {"a": 0, "b": 1}},
    ):
        with pytest.raises(UnsupportedError, match=next(iter(arguments))):
            Small.from_pretrained(folder, **arguments)
    Small.from_pretrained(folder, use_safetensors=True, low_cpu_mem_usage=True)
    with pytest.raises(InputError, match="word in a file's name"):
        Small().save_pretrained(folder, variant=16)


def test_sizes_are_read_as_people_write_them():
    assert (parse_size("10GB"), parse_size("500MB"), parse_size("1KiB"), parse_size(7)) == (10**10, 5 * 10**8, 1024, 7)
    assert (parse_size("1.5GB"), parse_size(2e9)) == (1_500_000_000, 2 * 10**9)
    for size in ("much", 0, -5, "0.1", None):
        with pytest.raises(InputError, match="10GB"):
            parse_size(size)


CAST_AND_MEASURE = """
import resource, sys, torch
sys.path.insert(0, {tests!r})
from models.test_modeling import Small
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = Small.from_pretrained({folder!r})
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * 1024 / sum(p.numel() * p.element_size() for p in model.parameters()))
"""


def test_casting_needs_little_more_memory_than_the_result(tmp_path):
    Small(width=3000, depth=6).half().save_pretrained(tmp_path)
    from pathlib import Path

    code = CAST_AND_MEASURE.format(tests=str(Path(__file__).parents[1]), folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 1.15, f"peak memory is {done.stdout.strip()} times the result"


def test_pickles_are_read_by_a_flag_and_written_by_one_and_run_nothing(tmp_path):
    model = Small()
    model.save_pretrained(tmp_path, safe_serialization=False, max_shard_size=300)
    assert not list(tmp_path.glob("*.safetensors*"))
    assert len(list(tmp_path.glob("*.bin"))) > 2
    with pytest.raises(NotFoundError, match="allow_pickle=True"):
        Small.from_pretrained(tmp_path)
    for flag in ({"allow_pickle": True}, {"use_safetensors": False}):
        loaded = Small.from_pretrained(tmp_path, **flag).state_dict()
        assert all(torch.equal(value, loaded[name]) for name, value in model.state_dict().items())
    with pytest.raises(InputError, match="contradict"):
        Small.from_pretrained(tmp_path, use_safetensors=True, allow_pickle=True)
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.bin*"))
    with pytest.raises(NotFoundError, match=r"\.bin"):
        Small.from_pretrained(tmp_path, use_safetensors=False)

    class Harmful:
        def __reduce__(self):
            return (print, ("it ran",))

    torch.save({**model.state_dict(), "more": Harmful()}, tmp_path / "diffusion_pytorch_model.bin")
    with pytest.raises(FileFormatError, match="not read"):
        Small.from_pretrained(tmp_path, use_safetensors=False)


def test_options_of_other_libraries_are_accepted_with_a_line_or_refused_by_name(folder, caplog):
    say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "lockstep"):
        for _ in range(2):
            Small.from_pretrained(folder, low_cpu_mem_usage=False, torch_dtype=torch.float32, device_map="cpu")
            Small.from_pretrained(folder, low_cpu_mem_usage=True, device_map={"": "cpu"}, proxies=None)
            Small.from_pretrained(folder, device_map="auto", use_safetensors=None)
    assert [r.message for r in caplog.records] == [
        "low_cpu_mem_usage changes nothing: models are always built without memory."
    ]
    with pytest.raises(InputError, match="two places"):
        Small.from_pretrained(folder, device="cpu", device_map="meta")


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    Small().save_pretrained(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}

    def full(*args, **kwargs):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("lockstep.models.weights.save_file", full)
    for target in ("model", "new/deeper"):
        with pytest.raises(WriteError, match=r"cannot be written: No space left on device"):
            Small().save_pretrained(tmp_path / target)
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    assert not (tmp_path / "new" / "deeper").exists()
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]


def test_a_real_limit_of_the_disk_is_told(tmp_path):
    code = f"""
import resource, lockstep
from lockstep.errors import WriteError
model = lockstep.AutoencoderTiny()
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    model.save_pretrained({str(tmp_path / "model")!r})
except WriteError as problem:
    print(problem)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "cannot be written: File too large" in ran.stdout, ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_hub_is_told_what_cannot_be_sent(tmp_path):
    with pytest.raises(WriteError, match="could not be sent to the hub"):
        Small().push_to_hub("someone/small")
    with pytest.raises(UnknownNameError, match="varient"):
        Small().save_pretrained(tmp_path, varient="fp16")


def test_config_values_are_read_from_the_model_with_a_warning():
    model = Small()
    with pytest.warns(FutureWarning, match="model.config.width"):
        assert model.width == model.config.width == model.config["width"] == model.config.get("width")
    assert "width" in model.config
    assert model.config.get("nothing", 3) == 3
    with pytest.raises(AttributeError, match="'Small' object has no attribute 'nothing'"):
        model.nothing


def test_a_pickle_of_a_loaded_model_has_each_weight_once(tmp_path):
    """Weights lie in one mapped file, each with a storage of its own."""
    Small(width=64, depth=8).save_pretrained(tmp_path)
    model = Small.from_pretrained(tmp_path)
    size = len(pickle.dumps(model))
    assert size < 1.3 * sum(one.nbytes for one in model.parameters())
    again = pickle.loads(pickle.dumps(model))
    assert all(torch.equal(one, other) for one, other in zip(again.parameters(), model.parameters(), strict=True))


def test_a_tensor_without_numbers_is_read(tmp_path):
    save_file({"none": torch.empty(0, 4), "one": torch.ones(1)}, tmp_path / "file.safetensors")
    stored = open_weights([tmp_path / "file.safetensors"])
    read = dict(read_tensors(stored, dict.fromkeys(stored, torch.float32), torch.device("cpu")))
    assert read["none"].shape == (0, 4)
    assert read["one"] == 1

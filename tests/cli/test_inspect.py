"""`lockstep inspect`: what it says, in words and in JSON."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import lockstep as library
from loaders import checkpoints as files
from pipelines import tiny


def test_a_full_size_file_from_its_header_alone(lockstep, tmp_path):
    path = files.write_sparse(tmp_path / "sd.safetensors", files.full_shapes("sd1"), dtype="F32")
    code, out, _ = lockstep("inspect", path)
    assert code == 0
    assert "Stable Diffusion 1.x" in out
    assert "cross_attention_dim 768" in out
    assert "under 'model.diffusion_model.', 686 tensors, 3.44 GB, F32" in out
    code, out, _ = lockstep("inspect", path, "--json")
    said = json.loads(out)
    assert (said["family"], said["sure"], said["tensors"]) == ("sd1", True, 1132)
    unet = next(part for part in said["parts"] if part["component"] == "unet")
    assert unet["implied_config"]["block_out_channels"] == [320, 640, 1280, 1280]
    assert unet["differs_from_published"] == []


def test_a_file_by_its_bare_name(lockstep, tmp_path, monkeypatch):
    files.write_sparse(tmp_path / "sd.safetensors", files.unet_shapes("sd1"))
    monkeypatch.chdir(tmp_path)
    for name in ("sd.safetensors", "./sd.safetensors"):
        code, out, _ = lockstep("inspect", name)
        assert code == 0
        assert "Stable Diffusion 1.x" in out


def test_the_embedded_model_by_its_name(lockstep, tmp_path):
    code, out, _ = lockstep("inspect", "lockstep/emoji")
    assert (code, "unet" in out) == (0, True)
    assert lockstep("diff", "lockstep/emoji", "lockstep/emoji")[0] == 0
    assert lockstep("inspect", "lockstep/emoij")[0] == 3


def test_the_file_of_a_model_in_a_folder_is_what_its_folder_says(lockstep):
    path = next((Path(library.__file__).parent / "embedded" / "emoji" / "unet").glob("*.safetensors"))
    said = json.loads(lockstep("inspect", path, "--json")[1])
    assert said["prediction_type"] == "v_prediction"
    assert said["title"] == "Stable Diffusion 1.x's architecture in sizes of its own"
    assert said["notes"] == ["prediction_type v_prediction: says scheduler/scheduler_config.json beside it"]
    (unet,) = said["parts"]
    assert unet["implied_config"]["block_out_channels"] == [64, 128, 256]
    assert unet["differs_from_published"] == unet["differs_from_declared"] == []


def test_depths_that_are_written_in_more_than_one_way_are_no_difference(lockstep, tmp_path):
    """What a block without attention says about its transformers means nothing."""
    folder = tiny.save_folder(tmp_path / "xl", "xl")
    config = json.loads((folder / "unet" / "config.json").read_text())
    assert config["transformer_layers_per_block"] == [1, 2]
    lockstep("convert", folder, tmp_path / "xl.safetensors")
    for path in (folder, tmp_path / "xl.safetensors"):
        assert "the config says [1, 2]" not in lockstep("inspect", path)[1].replace("[1, 2, 10]", "")
    (folder / "unet" / "config.json").write_text(json.dumps({**config, "transformer_layers_per_block": [1, 3]}))
    assert "transformer_layers_per_block: the shapes say 2, the config says [1, 3]" in lockstep("inspect", folder)[1]


def test_what_differs_from_the_published_config_is_said(lockstep, tmp_path):
    shapes = files.full_shapes("sdxl", transformer_layers_per_block=(1, 2, 4))
    said = json.loads(lockstep("inspect", files.write_sparse(tmp_path / "x.safetensors", shapes), "--json")[1])
    unet = next(part for part in said["parts"] if part["component"] == "unet")
    assert unet["differs_from_published"] == [
        "transformer_layers_per_block: the shapes say [1, 2, 4], the config says [1, 2, 10]"
    ]


def test_a_folder_and_a_config_that_does_not_fit_its_weights(lockstep, folder, tmp_path):
    code, out, _ = lockstep("inspect", folder)
    assert code == 0
    assert "StableDiffusionPipeline" in out
    assert "unlike" not in out
    copy = tmp_path / "unet"
    copy.mkdir()
    for file in (folder / "unet").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "in_channels": 9}))
    assert "in_channels: the shapes say 4, the config says 9" in lockstep("inspect", copy)[1]


def test_an_index_that_names_what_is_not_there(lockstep, folder, tmp_path):
    (tmp_path / "config.json").write_text((folder / "unet" / "config.json").read_text())
    index = {"weight_map": {"a": "../../etc/passwd", "b": "model-00001-of-00002.safetensors"}}
    (tmp_path / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))
    out = lockstep("inspect", tmp_path)[1]
    assert "'../../etc/passwd' outside of its folder" in out
    assert "1 shards that are not there" in out


def test_health(lockstep, tmp_path):
    good = {"0.weight": torch.randn(3, 3), "1.weight": torch.randn(3, 3), "1.bias": torch.zeros(3)}
    save_file(good, tmp_path / "good.safetensors")
    code, out, _ = lockstep("inspect", tmp_path / "good.safetensors", "--health")
    assert (code, "healthy" in out) == (0, True)
    bad = {
        "nan.weight": torch.tensor([[1.0, float("nan")]]), "inf.weight": torch.tensor([[float("-inf"), 1.0]]),
        "zero.weight": torch.zeros(2, 2), "one.weight": torch.ones(2, 2), "two.weight": torch.ones(2, 2),
        "half.weight": torch.tensor([[float("inf"), 0.0]], dtype=torch.float16),
    }  # fmt: skip
    save_file(bad, tmp_path / "bad.safetensors")
    code, out, _ = lockstep("inspect", tmp_path / "bad.safetensors", "--health", "--json")
    health = json.loads(out)["health"]
    assert code == 4
    assert health["nan"] == ["nan.weight"]
    assert set(health["infinite"]) == {"inf.weight", "half.weight"}
    assert health["zeros"] == ["zero.weight"]
    assert [set(names) for names in health["duplicates"]] == [{"one.weight", "two.weight"}]


def test_what_is_no_checkpoint(lockstep, tmp_path):
    (tmp_path / "page.safetensors").write_text("<html>not found</html>")
    code, _, err = lockstep("inspect", tmp_path / "page.safetensors")
    assert code == 3
    assert "is text, not weights" in err
    assert lockstep("inspect", tmp_path / "nowhere.safetensors")[0] == 3
    assert lockstep("inspect", tmp_path)[0] == 3


def test_a_pickle_only_where_it_is_allowed(lockstep, tmp_path):
    tensors = {"0.weight": torch.randn(64, 3, 3, 3), "1.conv.4.weight": torch.randn(64, 64, 3, 3)}
    torch.save({"state_dict": tensors}, tmp_path / "a.ckpt")
    code, _, err = lockstep("inspect", tmp_path / "a.ckpt")
    assert (code, "--allow-pickle" in err) == (3, True)
    code, out, _ = lockstep("inspect", tmp_path / "a.ckpt", "--allow-pickle")
    assert (code, "TAESD" in out) == (0, True)


def test_the_tree(lockstep, folder):
    file = folder / "unet" / "diffusion_pytorch_model.safetensors"
    out = lockstep("inspect", file, "--depth", 20)[1]
    for name, tensor in list(load_file(file).items())[:3]:
        assert name.split(".")[0] in out
        assert str(list(tensor.shape)) in out

"""Results say what they were made from."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from blocks import tiny
from lockstep.blocks import InputParam, ModularPipelineBlocks, OutputParam, manifest
from lockstep.blocks.manifest import encode, hash_weights, read_manifest
from lockstep.errors import FileFormatError, InputError


class ToPictures(ModularPipelineBlocks):
    """Tensors to PIL."""

    inputs = [InputParam("images", torch.Tensor, required=True)]
    outputs = [OutputParam("pictures", list)]

    def __call__(self, components, state):
        pixels = (state.images.sigmoid() * 255).to(torch.uint8).permute(0, 2, 3, 1).numpy()
        state.pictures = [Image.fromarray(one) for one in pixels]


def test_what_the_manifest_says():
    pipe = tiny.pipeline(scheduler=tiny.ancestral())
    manifest = pipe("cat", seed=8, num_images_per_prompt=2, guidance_scale=2.5).manifest
    record = json.loads(manifest.to_json())
    assert record["lockstep"] == lockstep.__version__
    assert record["torch"] == torch.__version__
    assert record["seed"] == [8, 9]
    assert record["workflow"] == "text2image"
    assert record["inputs"] | {"prompt": "cat", "guidance_scale": 2.5, "num_inference_steps": 4} == record["inputs"]
    assert "generator" not in record["inputs"]
    assert len(record["timesteps"]) == 4
    assert len(record["sigmas"]) == 5
    assert record["components"]["scheduler"]["class"] == "EulerAncestralDiscreteScheduler"
    assert record["weights"]["denoiser"] == hash_weights(pipe.denoiser)
    assert set(record["weights"]) == {"text_encoder", "denoiser", "decoder"}
    assert record["changed_by"] == []


def test_weights_are_hashed_only_when_asked_for(monkeypatch):
    hashed = []
    monkeypatch.setattr("lockstep.blocks.manifest.hash_weights", lambda model: hashed.append(model) or "hash")
    manifest = tiny.pipeline()("cat", seed=1).manifest
    assert manifest.to_dict(weights=False)["seed"] == [1]
    assert hashed == []
    assert manifest["weights"]["decoder"] == "hash"
    assert manifest.weights is manifest.weights
    assert len(hashed) == 3


def test_a_changed_weight_changes_the_hash():
    model = tiny.models()["decoder"]
    before = hash_weights(model)
    assert before == hash_weights(tiny.models()["decoder"])
    with torch.no_grad():
        model.out.weight[0, 0, 0, 0] += 1e-6
    assert hash_weights(model) != before
    assert hash_weights(tiny.models()["decoder"].bfloat16()) != before


def test_weights_are_hashed_again_only_where_they_were_changed(monkeypatch):
    model, read = tiny.models()["decoder"], []
    monkeypatch.setattr(manifest, "_bytes", lambda tensor: read.append(tensor) or tensor.numpy().tobytes())
    seen = [hash_weights(model), hash_weights(model)]
    assert seen[0] == seen[1]
    assert len(read) == len(model.state_dict())
    model.out.weight.data.add_(1)  # which torch does not count
    assert hash_weights(model) != seen[0]
    model.out.bias = torch.nn.Parameter(model.out.bias.detach() + 1)
    assert hash_weights(model) not in seen


def test_large_values_are_named_by_their_hash():
    picture = torch.ones(1, 3, 4, 4)
    inputs = tiny.pipeline()("cat", image=picture, seed=1).manifest["inputs"]
    assert inputs["image"] == encode(picture)
    assert encode(picture) != encode(picture * 2)
    assert encode(np.zeros(3)) == encode(torch.zeros(3, dtype=torch.float64)) | {"tensor": "float64"}
    assert encode(Image.new("RGB", (2, 3)))["size"] == [2, 3]
    assert encode({"a": (1, torch.float16)}) == {"a": [1, "torch.float16"]}


def test_a_given_generator_is_described_as_it_was_before_the_run():
    generator = torch.Generator().manual_seed(12)
    assert tiny.pipeline()("cat", generator=generator).manifest["inputs"]["generator"] == {
        "generator": "cpu",
        "seed": 12,
        "unused": True,
    }
    assert encode(generator)["unused"] is False


def test_callbacks_and_injections_are_noted():
    manifest = tiny.pipeline()("cat", seed=1, callback_on_step_end=lambda *a: {}).manifest
    assert manifest["changed_by"] == ["callback_on_step_end"]


class PictureBlocks(tiny.TinyBlocks):
    block_classes = [*tiny.TinyBlocks.block_classes, ToPictures, type("Rename", (ModularPipelineBlocks,), {
        "inputs": [InputParam("pictures", list, required=True, given=False)], "outputs": [OutputParam("images")],
        "__call__": lambda self, components, state: setattr(state, "images", state.pictures),
    })]  # fmt: skip
    block_names = [*tiny.TinyBlocks.block_names, "pictures", "rename"]


def test_png_carries_the_manifest(tmp_path):
    out = tiny.pipeline(PictureBlocks)("cat", seed=3, num_images_per_prompt=2)
    paths = out.save(tmp_path / "deep" / "cat.png")
    assert [path.name for path in paths] == ["cat-0.png", "cat-1.png"]
    manifest = read_manifest(paths[1])
    assert manifest["image"] == 1
    assert manifest["inputs"]["prompt"] == "cat"
    assert manifest["weights"] == out.manifest.weights
    assert np.array_equal(np.array(Image.open(paths[1])), np.array(out.images[1]))
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["cat-0.png", "cat-1.png"]


def test_pictures_without_a_manifest(tmp_path):
    Image.new("RGB", (2, 2)).save(tmp_path / "plain.png")
    with pytest.raises(FileFormatError, match="carries no Lockstep manifest"):
        read_manifest(tmp_path / "plain.png")
    with pytest.raises(InputError, match="no PIL pictures"):
        tiny.pipeline()("cat", seed=1).save(tmp_path / "x.png")

"""Pipelines on disk: model_index.json and modular_model_index.json, class picking, loading what is needed."""

import json
import shutil

import pytest
import torch

import lockstep
from blocks import tiny
from lockstep import DiffusionPipeline, StableDiffusionPipeline
from lockstep.blocks.index import read_index
from lockstep.errors import FileFormatError, LoadError, NotFoundError, UnknownNameError, UnsupportedError

CALL = {"prompt": "a cat", "num_inference_steps": 2, "height": 16, "width": 16, "seed": 4, "output_type": "pt"}


def copy_of(folder, tmp_path, **index):
    target = shutil.copytree(folder, tmp_path / "copy")
    content = json.loads((target / "model_index.json").read_text()) | index
    (target / "model_index.json").write_text(json.dumps({k: v for k, v in content.items() if v != "gone"}))
    return target


def load(folder, **options):
    pipe = DiffusionPipeline.from_pretrained(folder, **options)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_the_index_picks_the_class(folder):
    pipe = load(folder)
    assert type(pipe) is StableDiffusionPipeline
    assert pipe.name_or_path == str(folder)
    assert isinstance(pipe.text_encoder, lockstep.CLIPTextModel)
    assert isinstance(pipe.scheduler, lockstep.DDIMScheduler)
    assert pipe.requires_safety_checker is False
    assert pipe.config["requires_safety_checker"] is False


def test_saved_and_loaded_again_it_gives_the_same_picture(folder, tmp_path):
    pipe = load(folder)
    pipe.guider = lockstep.ClassifierFreeGuidance(guidance_scale=4.5)
    pipe.save_pretrained(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.guider.guidance_scale == 4.5
    assert torch.equal(again(**CALL).images, pipe(**CALL).images)
    index = json.loads((tmp_path / "saved" / "model_index.json").read_text())
    assert index["_class_name"] == "StableDiffusionPipeline"
    assert index["text_encoder"] == ["transformers", "CLIPTextModel"]
    assert index["tokenizer"] == ["transformers", "CLIPTokenizer"]
    assert index["unet"] == ["diffusers", "UNet2DConditionModel"]
    assert "guider" not in index
    assert not (tmp_path / "saved" / "modular_model_index.json").exists()


def test_diffusers_loads_what_was_saved(folder, tmp_path):
    import diffusers

    load(folder).save_pretrained(tmp_path / "saved")
    theirs = diffusers.DiffusionPipeline.from_pretrained(tmp_path / "saved")
    assert type(theirs).__name__ == "StableDiffusionPipeline"
    ours = load(folder)
    mine, other = ours.unet.state_dict(), theirs.unet.state_dict()
    assert set(mine) == set(other)
    assert all(torch.equal(mine[name], other[name]) for name in mine)
    index = json.loads((tmp_path / "saved" / "model_index.json").read_text())
    assert "controlnet" not in index, "an absent component that the field's class does not take"
    assert index["safety_checker"] == [None, None]
    assert theirs.scheduler.config.prediction_type == ours.scheduler.config.prediction_type


def test_the_modular_index(folder, tmp_path):
    pipe = load(folder)
    pipe.save_pretrained(tmp_path / "saved", modular=True)
    index = json.loads((tmp_path / "saved" / "modular_model_index.json").read_text())
    assert index["_blocks_class_name"] == "StableDiffusionBlocks"
    assert index["unet"][:2] == ["diffusers", "UNet2DConditionModel"]
    assert index["unet"][2]["subfolder"] == "unet"
    assert index["unet"][2]["type_hint"] == ["diffusers", "UNet2DConditionModel"]
    (tmp_path / "saved" / "model_index.json").unlink()
    assert torch.equal(load(tmp_path / "saved")(**CALL).images, pipe(**CALL).images)


def test_a_component_of_a_modular_index_may_come_from_elsewhere(folder, tmp_path):
    pipe = load(folder)
    pipe.save_pretrained(tmp_path / "saved", modular=True)
    path = tmp_path / "saved" / "modular_model_index.json"
    index = json.loads(path.read_text())
    index["unet"][2]["pretrained_model_name_or_path"] = str(folder)
    path.write_text(json.dumps(index))
    shutil.rmtree(tmp_path / "saved" / "unet")
    assert torch.equal(load(tmp_path / "saved")(**CALL).images, pipe(**CALL).images)


def test_blocks_with_a_folder_are_a_pipeline(folder):
    pipe = lockstep.StableDiffusionBlocks().init_pipeline(str(folder))
    assert pipe.components["unet"] is None, "loaded before it was needed"
    pipe.set_progress_bar_config(disable=True)
    assert torch.equal(pipe(**CALL).images, load(folder)(**CALL).images)
    assert pipe.components["unet"] is not None


def test_nothing_is_read_before_it_is_needed(folder, tmp_path):
    target = copy_of(folder, tmp_path)
    for weights in target.rglob("*.safetensors"):
        weights.unlink()
    pipe = load(target, load=False)
    assert [entry["name"] for entry in pipe.schema()["inputs"]][0] == "prompt"
    assert "denoise" in pipe.draw()
    with pytest.raises(LoadError):
        pipe(**CALL)


def test_only_what_a_workflow_needs_is_loaded(folder, tmp_path):
    shutil.rmtree(copy_of(folder, tmp_path) / "vae")
    encode = lockstep.StableDiffusionBlocks().init_pipeline(str(tmp_path / "copy"))
    embeds = encode("a cat", output="prompt_embeds")
    assert embeds.shape[-1] == 16
    with pytest.raises(NotFoundError):
        encode(**CALL)
    pipe = load(folder, workflow="text2image")
    assert pipe.components["vae"] is not None


def test_components_can_be_given_or_left_away(folder):
    scheduler = lockstep.EulerDiscreteScheduler(steps_offset=1)
    pipe = load(folder, scheduler=scheduler, vae=None)
    assert pipe.scheduler is scheduler
    assert pipe.vae is None
    assert pipe("a cat", num_inference_steps=2, output="latents").shape == (1, 4, 8, 8)
    with pytest.raises(UnknownNameError, match="did you mean 'scheduler'"):
        load(folder, sheduler=scheduler)


def test_dtype_goes_to_the_models_only(folder):
    pipe = load(folder, dtype=torch.float64)
    assert {pipe.unet.dtype, pipe.vae.dtype, pipe.text_encoder.dtype, pipe.dtype} == {torch.float64}
    assert load(folder, torch_dtype="fp16").unet.dtype == torch.float16
    assert pipe.to(torch.float32).unet.dtype == torch.float32
    assert pipe.to("cpu").device == torch.device("cpu")


def test_wrong_folders(folder, tmp_path):
    with pytest.raises(NotFoundError, match="neither model_index.json nor modular_model_index.json"):
        load(folder / "unet")
    with pytest.raises(UnsupportedError, match=r"StableDiffusionPipelne.*: did you mean 'StableDiffusionPipeline'"):
        load(copy_of(folder, tmp_path, _class_name="StableDiffusionPipelne"))
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(
        UnsupportedError, match=r"is a KandinskyPipeline, which .* not run.* It runs: .*StableDiffusionX"
    ):
        load(copy_of(folder, tmp_path, _class_name="KandinskyPipeline"))


def test_wrong_components(folder, tmp_path):
    with pytest.raises(LoadError, match="needs the component 'unet' .* has only: .*Give it: from_pretrained"):
        load(copy_of(folder, tmp_path, unet="gone"))
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(LoadError, match="'vae' wants AutoencoderKL.* says UNet2DConditionModel"):
        load(copy_of(folder, tmp_path, vae=["diffusers", "UNet2DConditionModel"]))
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UnknownNameError, match="'AutoencoderKLL': did you mean 'AutoencoderKL'"):
        load(copy_of(folder, tmp_path, vae=["diffusers", "AutoencoderKLL"]))
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(UnknownNameError, match="class .*'system'"):
        load(copy_of(folder, tmp_path, vae=["os", "system"]))


def test_damaged_index(tmp_path):
    (tmp_path / "model_index.json").write_text("{")
    with pytest.raises(FileFormatError, match="not valid JSON"):
        read_index(tmp_path)
    (tmp_path / "model_index.json").write_text('{"_class_name": "X"}')
    with pytest.raises(FileFormatError, match="names no components"):
        read_index(tmp_path)


def test_a_pipeline_without_blocks_says_so():
    with pytest.raises(ValueError, match="has no blocks of its own"):
        DiffusionPipeline()


def test_offload_brings_models_where_blocks_use_them(monkeypatch):
    """The real thing needs an accelerator; `meta` stands in for one to see what moves when."""
    pipe = tiny.pipeline()
    assert pipe.enable_model_cpu_offload("cpu")._offload is None
    wanted = pipe("cat", seed=1).images
    moves = []
    for name in ("text_encoder", "denoiser", "decoder"):
        monkeypatch.setattr(pipe.components[name], "to", lambda where, name=name: moves.append((name, str(where))))
    pipe.enable_model_cpu_offload("meta")
    assert pipe.device == torch.device("meta")
    moves.clear()
    assert torch.equal(pipe("cat", seed=1, num_inference_steps=4).images, wanted)
    assert list(dict.fromkeys(moves)) == [
        ("text_encoder", "meta"), ("text_encoder", "cpu"), ("denoiser", "meta"), ("denoiser", "cpu"),
        ("decoder", "meta"),
    ]  # fmt: skip

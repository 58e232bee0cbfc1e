"""Arguments and methods that scripts carry along: they work, do nothing and say so, or are refused by name."""

import json
import logging

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep import files
from lockstep.errors import InputError, UnsupportedError, WriteError
from lockstep.images import VaeImageProcessor
from lockstep.notes import say_once
from pipelines import tiny

SMALL = {"num_inference_steps": 2, "height": 16, "width": 16, "output_type": "np"}


@pytest.fixture(autouse=True)
def nothing_said_yet():
    say_once.cache_clear()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("arguments")
    return {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "xl")}


@pytest.fixture
def pipe(folders):
    made = lockstep.StableDiffusionPipeline.from_pretrained(folders["sd1"])
    made.set_progress_bar_config(disable=True)
    return made


@pytest.mark.parametrize("kind", ["sd1", "xl"])
@pytest.mark.parametrize("guided", [True, False])
def test_encode_prompt_gives_what_it_gives_there(kind, guided, folders):
    both = []
    for library in (lockstep, diffusers):
        pipe = library.DiffusionPipeline.from_pretrained(folders[kind])
        given = {"prompt": ["a cat", "house"], "device": "cpu", "num_images_per_prompt": 2,
                 "do_classifier_free_guidance": guided, "negative_prompt": ["blue", "red"]}  # fmt: skip
        both.append(pipe.encode_prompt(**given))
    assert len(both[0]) == len(both[1])
    for ours, theirs in zip(*both, strict=True):
        if guided or ours is not None:
            assert_close(ours, theirs)


def test_prepared_embeddings_make_the_same_picture(pipe):
    embeds, negative = pipe.encode_prompt("a cat", "cpu", 1, True)
    by_hand = pipe(prompt_embeds=embeds, negative_prompt_embeds=negative, **SMALL, seed=1).images
    assert np.array_equal(by_hand, pipe("a cat", **SMALL, seed=1).images)


def test_switches_without_work_say_so_once(pipe, caplog):
    with caplog.at_level(logging.WARNING, "lockstep"):
        for _ in range(2):
            pipe.enable_attention_slicing()
            pipe.enable_xformers_memory_efficient_attention()
            pipe.enable_sequential_cpu_offload()
            pipe.disable_attention_slicing()
    assert len(caplog.records) == 3


def test_loading_arguments(folders, caplog):
    load = lockstep.StableDiffusionPipeline.from_pretrained
    with caplog.at_level(logging.WARNING, "lockstep"):
        pipe = load(folders["sd1"], proxies={"https": "x"}, device_map="balanced", low_cpu_mem_usage=True)
    assert [record.message.split("=")[0] for record in caplog.records] == ["device_map", "from_pretrained(proxies"]
    assert load(folders["sd1"], device_map="cpu", resume_download=None).device.type == "cpu"
    table = {"unet": torch.bfloat16, "default": torch.float32}
    mixed = load(folders["sd1"], torch_dtype=table)
    assert (mixed.unet.dtype, mixed.vae.dtype) == (torch.bfloat16, torch.float32)
    later = load(folders["sd1"], load=False)
    later.load_components("unet", dtype=torch.bfloat16)
    assert later.unet.dtype is torch.bfloat16
    assert load(folders["sd1"], image_encoder=None, safety_checker=None, requires_safety_checker=False)
    for name, value in (("custom_pipeline", "lpw"), ("trust_remote_code", True), ("quantization_config", {})):
        with pytest.raises(UnsupportedError, match=name):
            load(folders["sd1"], **{name: value if value != {} else object()})
    with pytest.raises(UnsupportedError, match="one device"):
        load(folders["sd1"], device_map={"unet": "cpu", "vae": "cuda:0"})
    assert pipe.device.type in ("cpu", "cuda", "mps")


def test_arguments_of_other_pipelines(pipe):
    assert pipe("a cat", **SMALL, ip_adapter_image=None, callback=None).images.shape == (1, 16, 16, 3)
    with pytest.raises(InputError, match="IP-Adapter"):
        pipe("a cat", **SMALL, ip_adapter_image=Image.new("RGB", (8, 8)))


def test_saving_arguments(pipe, tmp_path, monkeypatch):
    pipe.save_pretrained(tmp_path / "saved", safe_serialization=True, variant="fp16", max_shard_size="20KB")
    assert len(list((tmp_path / "saved" / "unet").glob("*.fp16*.safetensors"))) > 1
    again = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path / "saved", variant="fp16")
    assert_close(again.unet.conv_in.weight, pipe.unet.conv_in.weight)
    sent = []
    monkeypatch.setattr(
        files, "upload", lambda folder, repo_id, **options: sent.append((folder.name, repo_id, options))
    )
    pipe.save_pretrained(tmp_path / "sent", push_to_hub=True, private=True)
    pipe.push_to_hub("me/mine")
    assert [one[1:] for one in sent] == [("sent", {"private": True}), ("me/mine", {})]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["saved", "sent"]


def test_a_folder_is_saved_whole_or_not_at_all(pipe, tmp_path, monkeypatch):
    def full(folder, **options):
        (folder / "half").mkdir(parents=True)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(pipe.vae, "save_pretrained", full)
        with pytest.raises(WriteError, match="No space left"):
            pipe.save_pretrained(tmp_path / "new")
        assert list(tmp_path.iterdir()) == []
    pipe.save_pretrained(tmp_path / "old")
    (tmp_path / "old" / "README.md").write_text("mine")
    before = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()}
    with monkeypatch.context() as broken:
        broken.setattr(pipe.vae, "save_pretrained", full)
        with pytest.raises(WriteError, match="No space left"):
            pipe.save_pretrained(tmp_path / "old")
    assert {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()} == before
    pipe.save_pretrained(tmp_path / "old")
    assert (tmp_path / "old" / "README.md").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


ABSURD = [
    {"num_images_per_prompt": 10**9},
    {"height": 8 * 10**6, "width": 512},
    {"num_images_per_prompt": 10**6, "height": 4096, "width": 4096},
]


@pytest.mark.parametrize("given", ABSURD)
def test_what_cannot_fit_is_refused_before_anything_runs(pipe, given, monkeypatch):
    monkeypatch.setattr(type(pipe.text_encoder), "forward", None)
    with pytest.raises(InputError, match=r"at least [\d,]+ (GB|TB) of memory"):
        pipe("a cat", **given)


@pytest.mark.slow  # the picture alone takes 10 s
def test_a_huge_start_picture_is_refused_before_it_is_looked_at(folders, monkeypatch):
    pipe = lockstep.StableDiffusionImg2ImgPipeline.from_pretrained(folders["sd1"])
    monkeypatch.setattr(VaeImageProcessor, "preprocess", None)
    with pytest.raises(InputError, match="of memory"):
        pipe("a cat", image=Image.new("1", (100000, 100000)))


def test_bytes_with_four_channels_are_a_picture_and_transparent_parts_are_white(folders, caplog):
    pipe = lockstep.StableDiffusionImg2ImgPipeline.from_pretrained(folders["sd1"])
    pipe.set_progress_bar_config(disable=True)
    pixels = np.random.default_rng(0).integers(0, 255, (16, 16, 4), dtype=np.uint8)
    pixels[..., 3] = np.where(np.arange(16) < 8, 255, 0)
    flat = pixels[..., :3].copy()
    flat[:, 8:] = 255
    given = {"prompt": "a cat", "num_inference_steps": 2, "seed": 1, "output_type": "np"}
    with caplog.at_level(logging.WARNING, "lockstep"):
        wanted = pipe(**given, image=flat).images
        assert not caplog.records
        for form in (pixels, Image.fromarray(pixels), torch.from_numpy(pixels).permute(2, 0, 1)):
            assert np.abs(pipe(**given, image=form).images - wanted).max() < 1e-3
    assert [record.message for record in caplog.records if "transparent" in record.message]


def test_blocks_and_results_of_modular_scripts(pipe, tmp_path):
    result = pipe("a cat", **SMALL, seed=1)
    assert result.get("images") is result.images
    assert result.get("latents").shape == (1, 4, 8, 8)
    assert result.get("nothing", 3) == 3
    blocks = lockstep.StableDiffusionBlocks()
    assert "append_mask" in blocks.get_execution_blocks(image=1, mask_image=1).sub_blocks["denoise"].sub_blocks
    blocks.save_pretrained(tmp_path)
    assert type(lockstep.ModularPipelineBlocks.from_pretrained(tmp_path)) is lockstep.StableDiffusionBlocks
    assert json.loads((tmp_path / "modular_config.json").read_text())["_class_name"] == "StableDiffusionBlocks"
    with pytest.raises(InputError, match="components_manager"):
        blocks.init_pipeline(components_manager=object())


def test_torchs_threads_wait_asleep_unless_the_person_says_otherwise():
    import subprocess
    import sys

    script = "import os, lockstep; print(os.environ.get('OMP_WAIT_POLICY'))"
    for before, import_first, wanted in (({}, "", "PASSIVE"), ({"OMP_WAIT_POLICY": "active"}, "", "active")):
        import os

        environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | before
        said = subprocess.run(
            [sys.executable, "-c", import_first + script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert said.strip() == wanted

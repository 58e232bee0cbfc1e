"""T2I- and IP-Adapters from the command line, and their pictures again."""

import shutil

import diffusers
import pytest
import torch
from safetensors.torch import save_file

from pipelines import tiny_adapters
from pipelines.test_against_diffusers import picture


@pytest.fixture
def files(folder, tmp_path):
    unet = diffusers.UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    tiny_adapters.image_encoder().save_pretrained(tmp_path / "image_encoder")
    sections = tiny_adapters.ip_adapter(unet, "plus")
    save_file(tiny_adapters.flat(sections), tmp_path / "plus.safetensors")
    torch.save(sections, tmp_path / "plus.bin")
    tiny_adapters.t2i_adapter().save_pretrained(tmp_path / "edges")
    for name in ("edges", "photo"):
        picture(len(name)).save(tmp_path / f"{name}.png")
    return tmp_path


QUICK = ["--num-inference-steps", 2, "--seed", 3]
EDGES = ["--adapter-image", "edges.png"]


def test_both_at_once_and_again(lockstep, folder, files):
    words = ["--adapter", "edges", *EDGES, "--ip-adapter", "plus.safetensors:0.6", "--ip-adapter-image", "photo.png"]
    code, _, err = lockstep("generate", "a cat", "-m", folder, *words, *QUICK)
    assert code == 0, err
    code, out, err = lockstep("replay", "picture.png")
    assert (code, "identical" in out) == (0, True), err
    save_file(tiny_adapters.flat(torch.load("plus.bin", weights_only=True)) | {"x": torch.zeros(1)}, "plus.safetensors")
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "has no row for" in err) == (3, True)
    (files / "plus.safetensors").unlink()
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "--input plus.safetensors=FILE" in err) == (5, True)


def test_single_files_and_pickles_are_read_again_where_that_is_allowed(lockstep, folder, files):
    words = ["--ip-adapter", "plus.bin", "--ip-adapter-image", "photo.png"]
    code, _, err = lockstep("generate", "a cat", "-m", folder, *words, *QUICK)
    assert (code, "--allow-pickle" in err) == (3, True)
    code, _, err = lockstep("generate", "a cat", "-m", folder, *words, *QUICK, "--allow-pickle")
    assert code == 0, err
    code, _, err = lockstep("replay", "picture.png")
    assert (code, "--allow-pickle" in err) == (3, True)
    code, _, err = lockstep("replay", "picture.png", "--allow-pickle")
    assert code == 0, err


def test_a_t2i_adapter_that_is_one_file(lockstep, folder, files):
    shutil.copytree(folder, "attentive")
    tiny_adapters.attentive_unet().save_pretrained("attentive/unet")
    save_file(tiny_adapters.t2i_adapter("full_adapter").state_dict(), "edges.safetensors")
    words = ["--adapter", "edges.safetensors", *EDGES]
    code, _, err = lockstep("generate", "a cat", "-m", "attentive", *words, *QUICK)
    assert code == 0, err
    code, _, err = lockstep("replay", "picture.png")
    assert code == 0, err


def test_a_picture_without_its_adapter(lockstep, folder, files):
    code, _, err = lockstep("generate", "a cat", "-m", folder, *EDGES, *QUICK)
    assert (code, "T2I-Adapter" in err) == (2, True)
    code, _, err = lockstep("generate", "a cat", "-m", folder, "--ip-adapter-image", "photo.png", *QUICK)
    assert (code, "load_ip_adapter" in err) == (2, True)

"""LoRA training: reads a captioned folder, learns, resumes to the bit, and the file works in diffusers."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from helpers import relative_l2
from lockstep.errors import ConfigError, FileFormatError, NotFoundError
from lockstep.finetuning.lora import (
    CONFIGS,
    LoraSettings,
    LoraTraining,
    read_captioned_folder,
    read_picture,
    train_lora,
)
from lockstep.training.loop import Run
from lockstep.training.settings import Cadence, OptimizerSettings, load_settings
from pipelines import tiny

SETTINGS = LoraSettings(
    rank=4, targets=["to_q", "to_v", "conv1"], steps=6, batch_size=2, sample_steps=2, prompts=["a dog"],
    optimizer=OptimizerSettings(learning_rate=1e-2, warmup_steps=1, ema_limit=0.5), cadence=Cadence(evaluate_steps=4),
)  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny.save_folder(tmp_path_factory.mktemp("base") / "model", "sd2")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for name in ("one", "two", "three"):
        Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(folder / f"{name}.png")
        (folder / f"{name}.txt").write_text(f"a {name}, clay style\n")
    return folder


def test_a_stopped_training_goes_on_to_the_same_file(model, pictures, tmp_path):
    whole = load_file(train_lora(model, pictures, tmp_path / "whole", SETTINGS))
    training = LoraTraining(model, pictures, SETTINGS, Run(tmp_path / "stopped" / "training"))
    training.run.begin_decay(3, 3)
    for step in range(2):
        training.trainee.learn(training.loss_at(step), SETTINGS.optimizer.learning_rate)
    training.run.save(training.trainee)
    resumed = load_file(train_lora(model, pictures, tmp_path / "stopped", SETTINGS))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert (tmp_path / "whole/training/sheets/0000006.png").is_file()


def test_the_file_works_in_diffusers(model, pictures, tmp_path):
    from diffusers import StableDiffusionPipeline

    file = train_lora(model, pictures, tmp_path / "lora", SETTINGS)
    training = LoraTraining(model, pictures, SETTINGS, Run(tmp_path / "again"))
    own = load_file(file)
    names = [
        f"unet.{name.replace('/', '.').replace('.default.', '.')}" for name, _ in training.adapter.named_parameters()
    ]
    inputs = (torch.randn(1, 4, 16, 16), torch.tensor([500]), torch.randn(1, 24, 16))
    with torch.inference_mode():
        plain = training.unet(*inputs, return_dict=False)[0]
        with training.weights([own[name] for name in names]):
            ours = training.unet(*inputs, return_dict=False)[0]
        reference = StableDiffusionPipeline.from_pretrained(model, dtype=torch.float32, safety_checker=None)
        reference.load_lora_weights(file.parent, weight_name=file.name)
        theirs = reference.unet(*inputs, return_dict=False)[0]
    assert relative_l2(ours, theirs) < 1e-5
    assert relative_l2(plain, theirs) > 1e-3, "the adapter has to change something"


def test_it_learns_the_pictures(model, pictures, tmp_path):
    training = LoraTraining(model, pictures, SETTINGS, Run(tmp_path))
    before = {name: value.clone() for name, value in training.unet.state_dict().items() if "lora" not in name}
    losses = [training.trainee.learn(training.loss_at(0), 1e-2) for _ in range(30)]
    assert losses[-1] < 0.97 * losses[0]
    assert all(torch.equal(value, before[name]) for name, value in training.unet.state_dict().items() if name in before)


def test_metadata_names_the_captions(pictures, tmp_path):
    for path in pictures.glob("*.png"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    lines = [json.dumps({"file_name": "two.png", "text": "a blue thing"}), ""]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    assert read_captioned_folder(tmp_path) == [(tmp_path / "two.png", "a blue thing")]
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "two.png"}')
    with pytest.raises(FileFormatError, match="line 1"):
        read_captioned_folder(tmp_path)
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "four.png", "text": "x"}')
    with pytest.raises(NotFoundError, match="four.png"):
        read_captioned_folder(tmp_path)


def test_a_picture_without_a_caption_is_named(pictures, tmp_path):
    (tmp_path / "lonely.png").write_bytes((pictures / "one.png").read_bytes())
    with pytest.raises(NotFoundError, match="lonely.txt"):
        read_captioned_folder(tmp_path)
    (tmp_path / "lonely.png").unlink()
    with pytest.raises(NotFoundError, match="No pictures"):
        read_captioned_folder(tmp_path)


def test_a_transparent_picture_stands_on_white_and_is_cut_square(tmp_path):
    picture = np.zeros((20, 60, 4), np.uint8)
    picture[:, 25:35] = (255, 0, 0, 255)
    Image.fromarray(picture).save(tmp_path / "a.png")
    read = read_picture(tmp_path / "a.png", 20)
    assert read.shape == (20, 20, 3)
    assert read[0, 0].tolist() == [255, 255, 255]
    assert read[10, 10].tolist() == [255, 0, 0]


def test_targets_that_no_layer_has_are_refused(model, pictures, tmp_path):
    with pytest.raises(ConfigError, match="to_nothing"):
        LoraTraining(model, pictures, dataclasses.replace(SETTINGS, targets=["to_nothing"]), Run(tmp_path))


def test_the_shipped_settings_load():
    assert load_settings(LoraSettings, CONFIGS / "lora.toml").rank == 16

"""The model that comes with the package: found offline, the same picture every time, equal in diffusers, small."""

import json
import warnings

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep.cli.app import run
from lockstep.errors import InputError
from lockstep.files import resolve_folder

FOLDER = resolve_folder("lockstep/emoji")


@pytest.fixture(scope="module")
def pipe():
    made = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji")
    made.set_progress_bar_config(disable=True)
    return made


def test_the_folder_is_small_complete_and_credited():
    assert sum(p.stat().st_size for p in FOLDER.rglob("*") if p.is_file()) <= 60e6
    for part in ("model_index.json", "unet", "vae", "text_encoder", "tokenizer", "scheduler", "README.md", "NOTICE"):
        assert (FOLDER / part).exists(), part


def test_same_seed_same_picture(pipe):
    first, second = (pipe("a red heart", seed=3, num_inference_steps=4).images[0] for _ in range(2))
    assert first.size == (128, 128)
    assert np.array_equal(np.asarray(first), np.asarray(second))


def test_the_words_decide_the_colour(pipe):
    """A red heart is redder, a green one greener: the text really steers the picture."""
    means = {}
    for colour in ("red", "green", "blue"):
        picture = np.asarray(pipe(f"a {colour} heart", seed=0, num_inference_steps=12).images[0], float)
        drawn = picture[picture.min(-1) < 200]  # without the white background
        means[colour] = drawn.mean(0) - drawn.mean()
    for channel, colour in enumerate(means):
        assert means[colour][channel] == max(values[channel] for values in means.values()), means


def test_background_words_fill_the_background(pipe):
    corner = np.asarray(pipe("a dog on a blue background", seed=0, num_inference_steps=12).images[0], float)[
        2:10, 2:10
    ].mean((0, 1))
    assert corner[2] > corner[0] + 40


def test_image_to_image_and_inpainting(pipe):
    start = pipe("a red heart", seed=0, num_inference_steps=8).images[0]
    changed = pipe("a blue heart", image=start, strength=0.7, seed=0, num_inference_steps=8).images[0]
    assert changed.size == start.size
    mask = Image.new("L", (128, 128), 0)
    mask.paste(255, (64, 0, 128, 128))
    painted = np.asarray(
        pipe("a blue heart", image=start, mask_image=mask, seed=0, num_inference_steps=8).images[0], float
    )
    kept = np.abs(painted - np.asarray(start, float))[:, :48].mean()
    assert kept < np.abs(painted - np.asarray(start, float))[:, 72:].mean() + 1
    assert kept < 20


def test_the_folder_in_diffusers_gives_the_same_latents(pipe):
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(str(FOLDER), dtype=torch.float32)
    theirs.set_progress_bar_config(disable=True)
    arguments = {"num_inference_steps": 5, "guidance_scale": 4.0, "output_type": "latent"}
    wanted = theirs("a red heart", generator=torch.Generator().manual_seed(1), **arguments).images
    got = pipe("a red heart", generator=torch.Generator().manual_seed(1), **arguments).images
    assert_close(got, wanted, 1e-4)


def test_it_is_the_default_of_generate_and_replay_makes_it_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (
        ["generate", "a rocket", "--seed", "5", "--num-inference-steps", "3", "--json"],
        ["replay", "picture.png", "--json"],
    ):
        with pytest.raises(SystemExit) as leave:
            run(words)
        assert leave.value.code == 0
        told = json.loads(capsys.readouterr().out)
    assert told["identical"]


def test_the_demo_writes_its_sheet(tmp_path, capsys):
    with pytest.raises(SystemExit) as leave:
        run(["demo", "-o", str(tmp_path / "sheet.png"), "--json"])
    assert leave.value.code == 0
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] == 512


@pytest.mark.parametrize("name", ["HeunDiscreteScheduler", "KDPM2DiscreteScheduler"])
def test_a_sampler_that_cannot_work_is_refused_before_compute(pipe, name):
    """From no signal at all to a little, a two-stage step makes the model's error hundreds of times as large."""
    other = getattr(lockstep, name).from_config(pipe.scheduler.config)
    changed = lockstep.DiffusionPipeline.from_pretrained("lockstep/emoji", scheduler=other)
    with pytest.raises(InputError, match="cannot sample this model on this grid: one step leads from sigma 20291"):
        changed("a dog", num_inference_steps=25)
    picture = changed("a dog", num_inference_steps=4, seed=0, image=Image.new("RGB", (128, 128)), strength=0.5).images[
        0
    ]
    assert picture.size == (128, 128)  # below full strength the first step is left out, and the rest works


def test_the_folder_says_how_many_steps_suit_it(pipe):
    steps = []
    pipe("a dog", seed=0, callback_on_step_end=lambda _pipe, step, *_: steps.append(step) or {})
    assert len(steps) == pipe.folder_defaults["num_inference_steps"] == 2
    steps.clear()
    pipe("a dog", seed=0, num_inference_steps=3, callback_on_step_end=lambda _pipe, step, *_: steps.append(step) or {})
    assert len(steps) == 3


def test_words_that_it_was_not_taught_are_told(pipe, tmp_path, monkeypatch, capsys):
    with pytest.warns(UserWarning, match=r"not taught 'submarine' \(near: ship"):
        pipe("a red submarine", num_inference_steps=1, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe(["Draw me a red car, please!", "a puppy", "🦊", "ein Hund", ""], num_inference_steps=1, seed=0)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of tests, where a warning is no error
        with pytest.raises(SystemExit) as leave:
            run(["generate", "a submarine", "--steps", "1", "--seed", "0"])
    assert not leave.value.code
    assert "note This model was not taught 'submarine'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "plain"),
    [("draw me a puppy please!!!", "a dog"), ("🚀", "a rocket"), ("I would like a cup of coffee", "a cup of coffee")],
)
def test_people_may_write_as_they_like(pipe, written, plain):
    """The same picture as for the plain words, nearly: nearer than another seed's, by far."""
    told, asked, other = (
        np.asarray(pipe(prompt, seed=seed).images[0], float)
        for prompt, seed in ((written, 0), (plain, 0), ("a tree", 0))
    )
    assert np.abs(told - asked).mean() < 0.4 * np.abs(told - other).mean()

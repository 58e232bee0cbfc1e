"""Models that were made for one task: editing, enlarging, keeping the depth; step by step beside the reference."""

import inspect
import json
import subprocess
import sys

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

import lockstep
from helpers import assert_close
from lockstep.cli.replay import Places, run_again
from lockstep.errors import InputError, LoadError, ReplayError
from pipelines import tiny
from pipelines.test_against_diffusers import picture

DEPTH = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(4)) * 7
# task -> calls that take different ways through its blocks
CALLS = {
    "edit": [
        {"prompt": "red dog", "image": picture()},
        {"prompt": "a cat", "image": picture(), "image_guidance_scale": 2.5, "guidance_scale": 4.0},
        {"prompt": "a cat", "image": picture(), "guidance_scale": 1.0},
        {"prompt": "a cat", "image": picture(), "image_guidance_scale": 0.5},
        {"prompt": ["a cat", "red dog"], "image": [picture(1), picture(2)], "negative_prompt": ["blue", "house"]},
        {"prompt": "a cat", "image": torch.randn(1, 4, 8, 8), "num_images_per_prompt": 2},
    ],
    "edit_xl": [
        {"prompt": "red dog", "image": picture()},
        {"prompt": "red dog", "image": picture(), "height": 24, "width": 32, "guidance_rescale": 0.6},
        {"prompt": "red dog", "prompt_2": "a cat", "image": picture(), "guidance_scale": 1.0, "denoising_end": 0.6},
        {"prompt": "a cat", "image": picture(), "num_images_per_prompt": 2, "original_size": (40, 24)},
    ],
    "upscale": [
        {"prompt": "red dog", "image": picture()},
        {"prompt": "red dog", "image": picture(), "noise_level": 250, "guidance_scale": 1.0},
        {"prompt": ["a cat", "red dog"], "image": [picture(1), picture(2)], "negative_prompt": ["blue", "house"]},
        {"prompt": "a cat", "image": picture(), "num_images_per_prompt": 2},
    ],
    "latent_upscale": [
        {"prompt": "red dog", "image": picture(), "negative_prompt": "blue"},
        {"prompt": "red dog", "image": torch.randn(1, 4, 8, 8), "guidance_scale": 0},
        {"prompt": ["a cat", "red dog"], "image": [picture(1), picture(2)], "guidance_scale": 1.0},
    ],
    "depth": [
        {"prompt": "red dog", "image": picture(), "strength": 0.6},
        {"prompt": "red dog", "image": picture(), "depth_map": DEPTH, "guidance_scale": 1.0},
        {"prompt": ["a cat", "red dog"], "image": [picture(1), picture(2)], "negative_prompt": ["blue", "house"]},
        {"prompt": "a cat", "image": picture(), "num_images_per_prompt": 2},
    ],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("one_task")
    return {task: tiny.save_one_task(root / task, task) for task in tiny.ONE_TASK}


def parts_of(task):
    return tiny.depth_parts() if task == "depth" else {}


def loaded(library, task, folders, **parts):
    kind = getattr(library, tiny.ONE_TASK[task][0])
    pipe = kind.from_pretrained(folders[task], **{**parts_of(task), **parts})
    pipe.set_progress_bar_config(disable=True)
    return pipe


def steps_of(pipe, **given):
    """The latents after every step, and the pictures."""
    latents = []

    def note(pipe, step, timestep, values):
        latents.append(values["latents"].clone())
        return values

    def note_old(step, timestep, values):
        latents.append(values.clone())

    takes = inspect.signature(pipe.__call__).parameters
    watched = {"callback_on_step_end": note} if "callback_on_step_end" in takes else {"callback": note_old}
    made = pipe(**given, **watched, num_inference_steps=4, output_type="np", generator=torch.Generator().manual_seed(2))
    return latents, made.images


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:In CPU autocast")  # theirs
@pytest.mark.parametrize(("task", "call"), [(task, call) for task in CALLS for call in range(len(CALLS[task]))])
def test_every_step_is_that_of_the_reference(task, call, folders):
    given = CALLS[task][call]
    ours, our_pictures = steps_of(loaded(lockstep, task, folders), **given)
    theirs, their_pictures = steps_of(loaded(diffusers, task, folders), **given)
    assert len(ours) == len(theirs) >= 2
    for got, wanted in zip(ours, theirs, strict=True):
        assert_close(got, wanted)
    assert np.abs(our_pictures - their_pictures).max() <= 1 / 255


@pytest.mark.parametrize("task", CALLS)
def test_what_a_task_needs_changes_the_picture(task, folders):
    pipe = loaded(lockstep, task, folders)
    given = {"prompt": "red dog", "num_inference_steps": 2, "output_type": "np", "seed": 1}
    first, other = (pipe(image=picture(seed), **given).images for seed in (0, 5))
    assert not np.allclose(first, other)
    again = pipe(image=picture(0), **given).images
    assert np.array_equal(first, again)
    both = pipe(image=picture(0), **{**given, "prompt": ["red dog", "red dog"]}).images
    assert np.abs(both[0] - first[0]).max() < 1e-4, "a picture is the same alone and in a batch"
    assert not np.allclose(both[0], both[1]), "and its neighbour has a seed of its own"


@pytest.mark.parametrize("task", CALLS)
def test_a_folder_is_loaded_by_its_index_saved_and_loaded_again(task, folders, tmp_path):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folders[task], **parts_of(task))
    assert type(pipe).__name__ == tiny.ONE_TASK[task][0]
    pipe.save_pretrained(tmp_path / "again")
    index = json.loads((tmp_path / "again" / "model_index.json").read_text())
    before = json.loads((folders[task] / "model_index.json").read_text())
    assert {key: index[key] for key in before if not key.startswith("_d")} == {
        key: value for key, value in before.items() if not key.startswith("_d")
    }
    theirs = diffusers.DiffusionPipeline.from_pretrained(tmp_path / "again")
    assert type(theirs).__name__ == type(pipe).__name__
    again = lockstep.DiffusionPipeline.from_pretrained(tmp_path / "again", **parts_of(task))
    given = {"prompt": "red dog", "image": picture(), "num_inference_steps": 2, "output_type": "np", "seed": 1}
    assert np.array_equal(pipe(**given).images, again(**given).images)


@pytest.mark.parametrize("task", CALLS)
def test_a_model_that_reads_other_channels_is_refused(task, folders):
    pipe = loaded(lockstep, task, folders, unet=tiny.unet(xl=task == "edit_xl"))
    with pytest.raises(InputError, match="channels"):
        pipe("red dog", image=picture())


@pytest.mark.parametrize(("task", "missing"), [("upscale", "low_res_scheduler"), ("edit", "vae"), ("edit_xl", "unet")])
def test_a_missing_part_is_told_by_its_name(task, missing, folders, tmp_path):
    index = json.loads((folders[task] / "model_index.json").read_text())
    del index[missing]
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    with pytest.raises(LoadError, match=missing):
        lockstep.DiffusionPipeline.from_pretrained(tmp_path, load=False)
    pipe = loaded(lockstep, task, folders)
    setattr(pipe, missing, None)
    with pytest.raises(InputError, match=missing):
        pipe("red dog", image=picture())


def test_no_picture_is_told(folders):
    for task in CALLS:
        with pytest.raises(InputError, match="image"):
            loaded(lockstep, task, folders)("red dog")


def test_too_much_noise_and_too_large_a_picture_are_refused(folders):
    pipe = loaded(lockstep, "upscale", folders)
    with pytest.raises(InputError, match="at most 350"):
        pipe("a cat", image=picture(), noise_level=351)
    with pytest.raises(InputError, match="memory"):
        pipe("a cat", image=Image.new("L", (20000, 20000)))


@pytest.mark.filterwarnings("ignore::FutureWarning")  # theirs
def test_the_scale_of_the_upscalers_latents_is_corrected_as_there(folders):
    pictures = []
    for library in (lockstep, diffusers):
        old = tiny.vae() if library is lockstep else diffusers.AutoencoderKL.from_config(dict(tiny.vae().config))
        if library is diffusers:
            old.load_state_dict(tiny.vae().state_dict())
        pipe = loaded(library, "upscale", folders, vae=old.eval())
        assert pipe.vae.config.scaling_factor == 0.08333
        pictures.append(steps_of(pipe, prompt="a cat", image=picture())[1])
    assert np.abs(pictures[0] - pictures[1]).max() <= 1 / 255


# ---- the depth estimator, which is another library's ----


def test_depth_is_estimated_by_whatever_behaves_so(folders):
    class Estimator:
        def __call__(self, pixel_values):
            return type("Depth", (), {"predicted_depth": pixel_values.mean(1)})

    class Reader:
        def __call__(self, images, return_tensors):
            rows = [torch.from_numpy(np.asarray(one, dtype=np.float32)).permute(2, 0, 1) for one in images]
            return type("Read", (), {"pixel_values": torch.stack(rows)})

    pipe = loaded(lockstep, "depth", folders, depth_estimator=Estimator(), feature_extractor=Reader())
    given = {"prompt": "a cat", "image": picture(), "num_inference_steps": 2, "output_type": "np", "seed": 3}
    flat = torch.from_numpy(np.asarray(picture(), dtype=np.float32)).mean(-1)[None]
    assert np.allclose(pipe(**given).images, pipe(**given, depth_map=flat).images, atol=1e-5)
    with pytest.raises(InputError, match="depth_estimator"):
        pipe.depth_estimator = 3


def test_a_folder_with_a_depth_estimator_needs_it_or_a_depth_map(folders, tmp_path):
    pipe = lockstep.DiffusionPipeline.from_pretrained(folders["depth"])
    with pytest.raises(InputError, match="DPTForDepthEstimation"):
        pipe("a cat", image=picture())
    with pytest.raises(InputError, match="rows, columns"):
        pipe("a cat", image=picture(), depth_map=DEPTH[0])
    made = pipe("a cat", image=picture(), depth_map=DEPTH, num_inference_steps=2).images
    assert isinstance(made[0], Image.Image)
    pipe.save_pretrained(tmp_path)  # the estimator, which was not loaded, goes with it
    assert (
        type(diffusers.DiffusionPipeline.from_pretrained(tmp_path).depth_estimator).__name__ == "DPTForDepthEstimation"
    )
    wide = pipe("a cat", image=picture(), depth_map=DEPTH, height=24, width=16, num_inference_steps=2).images[0]
    assert wide.size == (16, 24)


def test_the_library_imports_no_other_for_it():
    script = "import lockstep, sys; lockstep.StableDiffusionDepth2ImgPipeline; print('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("task", tiny.ONE_TASK)
def test_a_picture_is_made_again_from_its_manifest(task, folders, tmp_path):
    picture().save(tmp_path / "start.png")
    given = {**CALLS[task][0], "image": lockstep.images.load_image(tmp_path / "start.png")}
    out = loaded(lockstep, task, folders)(**given, seed=3, num_inference_steps=3)
    [file] = out.save(tmp_path / "made.png")
    manifest = lockstep.blocks.manifest.read_manifest(file)
    assert str(tmp_path) not in json.dumps(manifest["inputs"])
    if task == "depth":  # the estimator is another library's, and its folder is not known
        with pytest.raises(ReplayError, match="'depth_estimator' .* was loaded from no folder"):
            run_again(manifest, Places(file, []), None)
        return
    again = run_again(manifest, Places(file, []), None)
    assert np.array_equal(np.asarray(again.images[0]), np.asarray(Image.open(file)))
    (tmp_path / "start.png").unlink()
    with pytest.raises(ReplayError, match=r"start\.png"):
        run_again(manifest, Places(file, []), None)

"""Old configs, long prompts, sizes and the safety checker: as the published pipelines do it, or said."""

import json
import logging

import diffusers
import numpy as np
import pytest
import torch
import transformers
from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker as TheirChecker

import lockstep
from helpers import assert_close
from lockstep.errors import InputError
from lockstep.notes import say_once
from pipelines import tiny
from pipelines.test_against_diffusers import mask, picture

LONG = " ".join(["a photo of the big red cat on a blue background,"] * 12)
SMALL = {"num_inference_steps": 3, "height": 16, "width": 16, "output_type": "np"}
PICTURED = ["a cat", "red dog", "house", "the small blue house"]
VISION = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 24,
    "patch_size": 8, "projection_dim": 12,
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_said_yet():
    say_once.cache_clear()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("as_published")
    return {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "xl")}


def quiet(pipe):
    pipe.set_progress_bar_config(disable=True)
    return pipe


def apart(ours, theirs, **given):
    pictures = [
        pipe(**given, generator=torch.Generator().manual_seed(5)).images for pipe in (quiet(ours), quiet(theirs))
    ]
    return np.abs(pictures[0] - pictures[1]).max()


# ---- old configs ----

OLD = {
    "DDIMScheduler": {"steps_offset": 0, "clip_sample": True},
    "PNDMScheduler": {"skip_prk_steps": False, "steps_offset": 0},
    "EulerDiscreteScheduler": {},
}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # theirs
@pytest.mark.parametrize("scheduler", OLD)
@pytest.mark.parametrize(
    "name", ["StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline", "StableDiffusionInpaintPipeline",
             "StableDiffusionXLPipeline"],
)  # fmt: skip
def test_old_scheduler_configs_are_corrected_where_the_reference_corrects_them(name, scheduler, folders, caplog):
    folder = folders["xl" if "XL" in name else "sd1"]
    pipes = []
    for library in (lockstep, diffusers):
        old = getattr(library, scheduler)(**tiny.BETAS, **OLD[scheduler])
        pipes.append(getattr(library, name).from_pretrained(folder, scheduler=old))
    ours, theirs = pipes
    for setting in ("steps_offset", "clip_sample", "skip_prk_steps"):
        assert ours.scheduler.config.get(setting) == theirs.scheduler.config.get(setting), setting
    given = {**SMALL, "prompt": "a cat", "num_inference_steps": 6}
    if "Img2Img" in name or "Inpaint" in name:
        given = {**given, "image": picture(), "strength": 1.0}
        given = given | {"mask_image": mask()} if "Inpaint" in name else {
            key: value for key, value in given.items() if key not in ("height", "width")
        }  # fmt: skip
    assert apart(ours, theirs, **given) <= 1 / 255
    told = [record for record in caplog.records if "old ones" in record.message]
    assert len(told) == (0 if "XL" in name else 1)


def test_a_folder_is_corrected_told_once_and_kept_in_the_manifest(tmp_path, caplog):
    folder = tiny.save_folder(tmp_path, "sd1")
    config = json.loads((folder / "scheduler" / "scheduler_config.json").read_text())
    config |= {"steps_offset": 0, "clip_sample": True}
    (folder / "scheduler" / "scheduler_config.json").write_text(json.dumps(config))
    with caplog.at_level(logging.WARNING, "lockstep"):
        for _ in range(2):
            pipe = quiet(lockstep.StableDiffusionPipeline.from_pretrained(folder))
    assert [record.message.count("steps_offset") for record in caplog.records] == [1]
    made = pipe("a cat", **SMALL, seed=1)
    assert made.manifest["components"]["scheduler"]["values"]["steps_offset"] == 1
    pipe.scheduler = lockstep.DDIMScheduler.from_config(config)  # what is assigned stays as it is: so replays do it
    assert pipe.scheduler.config.steps_offset == 0
    assert not np.array_equal(pipe("a cat", **SMALL, seed=1).images, made.images)


# ---- long prompts ----


@pytest.mark.parametrize("kind", ["sd1", "xl"])
@pytest.mark.parametrize("neighbour", [LONG, f"{LONG} {LONG}"])
def test_a_row_does_not_depend_on_a_long_neighbour(kind, neighbour, folders):
    pipe = quiet(lockstep.DiffusionPipeline.from_pretrained(folders[kind]))
    prompts = ["a cat", neighbour, LONG]
    together = pipe(prompts, negative_prompt=["blue", "", "red"], **SMALL, seed=3).images
    for row, prompt in enumerate(prompts):
        alone = pipe(prompt, negative_prompt=["blue", "", "red"][row], **SMALL, seed=3 + row).images[0]
        assert np.abs(together[row] - alone).max() < 1e-4, f"row {row}"


@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_long_prompts_are_cut_as_in_the_reference_where_asked(kind, folders, caplog):
    ours = lockstep.DiffusionPipeline.from_pretrained(folders[kind])
    theirs = diffusers.DiffusionPipeline.from_pretrained(folders[kind])
    given = {**SMALL, "prompt": [LONG, "a cat"], "generator": torch.Generator().manual_seed(1)}
    cut = quiet(ours)(**given, long_prompts="cut").images
    given["generator"].manual_seed(1)
    assert np.abs(cut - quiet(theirs)(**given).images).max() <= 1 / 255
    assert [record for record in caplog.records if "is cut" in record.message]
    given["generator"].manual_seed(1)
    assert np.abs(cut - ours(**given).images).max() > 1 / 255


# ---- negative sizes and prompts ----

SIZES = [
    {"negative_original_size": (64, 48)},
    {"negative_target_size": (64, 48)},
    {"negative_original_size": (64, 48), "negative_target_size": (24, 24), "negative_crops_coords_top_left": (3, 4)},
    {"negative_prompt_2": "blue"},
    {"negative_prompt": "red", "negative_prompt_2": "blue"},
]


@pytest.mark.parametrize("given", SIZES)
@pytest.mark.parametrize("name", ["StableDiffusionXLPipeline", "StableDiffusionXLImg2ImgPipeline"])
def test_negative_sizes_and_prompts_given_alone_do_what_they_do_there(name, given, folders):
    ours, theirs = (getattr(library, name).from_pretrained(folders["xl"]) for library in (lockstep, diffusers))
    start = {"image": picture(), "strength": 0.9} if "Img2Img" in name else {"height": 16, "width": 16}
    given = {"prompt": "a cat", "num_inference_steps": 3, "output_type": "np", "guidance_scale": 6.0, **start, **given}
    assert apart(ours, theirs, **given) <= 1 / 255


# ---- the safety checker ----


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A folder with a safety checker in the published layout, made by the reference."""
    folder = tiny.save_folder(tmp_path_factory.mktemp("checked"), "sd1")
    options = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
    reader = transformers.CLIPImageProcessorPil(**options)
    checker = TheirChecker(transformers.CLIPConfig(projection_dim=12, vision_config=VISION))
    tiny.randomize(checker, 1)
    pipe = quiet(lockstep.StableDiffusionPipeline.from_pretrained(folder))
    pictures = pipe(PICTURED, **{**SMALL, "output_type": "pil"}, generator=torch.Generator().manual_seed(0)).images
    with torch.no_grad():
        pooled = checker.vision_model(reader(pictures, return_tensors="pt").pixel_values)[1]
        vectors = torch.nn.functional.normalize(checker.visual_projection(pooled))
        nearest = (vectors @ torch.nn.functional.normalize(checker.concept_embeds).t()).amax(1).sort().values
        checker.concept_embeds_weights.fill_((nearest[1] + nearest[2]) / 2)  # between the second and the third
        checker.special_care_embeds_weights.fill_(1.0)
    checker.save_pretrained(folder / "safety_checker")
    reader.save_pretrained(folder / "feature_extractor")
    index = json.loads((folder / "model_index.json").read_text())
    index |= {"safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"], "requires_safety_checker": True}
    index |= {"feature_extractor": ["transformers", "CLIPFeatureExtractor"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


@pytest.mark.parametrize("form", ["np", "pil", "pt"])
def test_the_checker_of_a_folder_runs(checked, form):
    ours = quiet(lockstep.StableDiffusionPipeline.from_pretrained(checked))
    reader = transformers.CLIPImageProcessorPil.from_pretrained(checked / "feature_extractor")
    theirs = quiet(diffusers.StableDiffusionPipeline.from_pretrained(checked, feature_extractor=reader))
    given = {**SMALL, "prompt": PICTURED, "output_type": form}
    got, found = ours(**given, generator=torch.Generator().manual_seed(0), return_dict=False)
    wanted = theirs(**given, generator=torch.Generator().manual_seed(0))
    assert found == wanted.nsfw_content_detected
    assert 0 < sum(found) < len(found), "the threshold has to part the pictures"
    for one, other in zip(got, wanted.images, strict=True):
        one, other = (np.asarray(side, dtype=np.float32) / (255 if form == "pil" else 1) for side in (one, other))
        assert np.abs(one - other).max() <= 1.01 / 255


def test_the_checker_can_be_left_away_and_is_kept_on_saving(checked, tmp_path):
    pipe = quiet(lockstep.StableDiffusionPipeline.from_pretrained(checked))
    pipe.save_pretrained(tmp_path / "again")
    again = lockstep.DiffusionPipeline.from_pretrained(tmp_path / "again")
    assert_close(again.safety_checker.concept_embeds, pipe.safety_checker.concept_embeds)
    assert type(diffusers.DiffusionPipeline.from_pretrained(tmp_path / "again").safety_checker) is TheirChecker
    without = lockstep.StableDiffusionPipeline.from_pretrained(checked, safety_checker=None)
    assert quiet(without)("a cat", **SMALL, return_dict=False)[1] is None
    pipe.safety_checker = None
    assert pipe("a cat", **SMALL).nsfw_content_detected is None
    without.save_pretrained(tmp_path / "without")
    assert lockstep.DiffusionPipeline.from_pretrained(tmp_path / "without").safety_checker is None
    half = lockstep.StableDiffusionPipeline.from_pretrained(checked, feature_extractor=None)
    with pytest.raises(InputError, match="feature_extractor"):
        half("a cat", **SMALL)


def test_no_picture_needs_no_checker(checked):
    pipe = quiet(lockstep.StableDiffusionPipeline.from_pretrained(checked, load=False))
    pipe("a cat", **{**SMALL, "output_type": "latent"})
    assert "safety_checker" in pipe._unloaded

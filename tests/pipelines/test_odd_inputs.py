"""What Z-Image, Qwen-Image and LTX-Video say to odd inputs: refused with its cause before a model runs, or told."""

import pytest
import torch

import lockstep
from lockstep.errors import InputError
from lockstep.notes import say_once
from pipelines import tiny_ltx_video, tiny_qwen_image, tiny_z_image
from pipelines.test_wan_against_diffusers import picture

PARTS = {
    "ZImagePipeline": tiny_z_image.z_image_parts,
    "QwenImagePipeline": tiny_qwen_image.qwen_image_parts,
    "LTXPipeline": tiny_ltx_video.ltx_parts,
    "LTXConditionPipeline": lambda: tiny_ltx_video.ltx_parts("0.9.5"),
}
PICTURE = {"height": 16, "width": 16, "num_inference_steps": 2, "output_type": "latent", "seed": 0}
VIDEO = {**PICTURE, "height": 32, "width": 32, "num_frames": 9}
SIZES = dict.fromkeys(PARTS, VIDEO) | dict.fromkeys(("ZImagePipeline", "QwenImagePipeline"), PICTURE)
MASK = dict.fromkeys(PARTS, "prompt_attention_mask") | dict.fromkeys(
    ("ZImagePipeline", "QwenImagePipeline"), "prompt_embeds_mask"
)
EMBEDS = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
ONES = torch.ones(1, 5)


@pytest.fixture(scope="module")
def pipes():
    made = {name: getattr(lockstep, name)(**parts()) for name, parts in PARTS.items()}
    for pipe in made.values():
        pipe.set_progress_bar_config(disable=True)
    return made


@pytest.fixture
def idle(pipes, monkeypatch):
    """Calls a pipeline, none of whose models may run."""

    def no_forward(self, *args, **kwargs):
        pytest.fail("a model ran")

    monkeypatch.setattr(torch.nn.Module, "__call__", no_forward)
    return lambda name, **given: pipes[name](**{**SIZES[name], **given})


def ready(name, embeds=EMBEDS, mask=ONES):
    """Both texts, and what says which of their tokens count."""
    masks = {} if mask is None else {MASK[name]: mask, f"negative_{MASK[name]}": ONES}
    return {"prompt_embeds": embeds, "negative_prompt_embeds": EMBEDS, **masks}


def held(**given):
    return {"conditions": lockstep.LTXVideoCondition(**{"image": picture(), **given})}


@pytest.mark.parametrize("name", list(PARTS))
def test_texts_and_masks_that_say_nothing_are_refused_for_that(idle, name):
    cases = [
        (ready(name, EMBEDS[:, :0], ONES[:, :0]), "'prompt_embeds' has a text of 0 tokens"),
        (ready(name, EMBEDS[:0], ONES[:0]), "'prompt_embeds' has no rows"),
        (ready(name, EMBEDS[..., :7]), r"'prompt_embeds' has to be .*16 channels"),
        (ready(name, mask=0 * ONES), f"'{MASK[name]}' leaves no token of row 0"),
        (ready(name, mask=0.5 * ONES), f"'{MASK[name]}' says 1 or True .* got 0.5"),
        (ready(name, mask=7 * ONES), f"'{MASK[name]}' says 1 or True .* got 7"),
        (ready(name, mask=torch.nan * ONES), f"'{MASK[name]}' has NaN"),
    ]
    if name in ("ZImagePipeline", "QwenImagePipeline"):
        cases += [
            (ready(name, [], None), "'prompt_embeds' has no rows"),
            (ready(name, [EMBEDS[0, :0]], None), "'prompt_embeds' has a text of 0 tokens"),
            (ready(name, [EMBEDS[0, :, :7]], None), r"a list of \(tokens, 16 channels\)"),
        ]
    for given, words in cases:
        with pytest.raises(InputError, match=words):
            idle(name, **given)


@pytest.mark.parametrize("name", ["ZImagePipeline", "QwenImagePipeline"])
def test_a_picture_as_latents_of_another_size_is_refused(pipes, idle, name):
    wrong = torch.zeros(1, 4, 16, 16)
    given = {"prompt": "cat", "image": wrong}
    painted = {**given, "mask_image": torch.ones(1, 1, 16, 16)}
    for arguments in (given, painted):
        with pytest.raises(InputError, match="taken as latents, .* this run makes 16 and 16"):
            idle(name, **arguments)
    with pytest.raises(InputError, match="multiple of"):
        idle(name, **{**given, "image": wrong[..., :3, :3]}, height=None, width=None)


def test_a_picture_as_latents_of_the_right_size_is_taken(pipes):
    for name in ("ZImagePipeline", "QwenImagePipeline"):
        side = 16 // pipes[name].vae_scale_factor
        made = pipes[name]("cat", image=torch.zeros(1, 4, side, side), **PICTURE).images
        assert torch.isfinite(made).all()


def test_embeddings_alone_are_enough_without_guidance(pipes):
    """Also where the pipeline has nothing to encode words with."""
    for name, scale in (("ZImagePipeline", 0.0), ("LTXPipeline", 1.0)):
        bare = getattr(lockstep, name)(**{**PARTS[name](), "tokenizer": None, "text_encoder": None})
        bare.set_progress_bar_config(disable=True)
        given = {"prompt_embeds": EMBEDS, MASK[name]: ONES, **SIZES[name]}
        alone = bare(**given, guidance_scale=scale)[0]
        assert torch.equal(alone, pipes[name](**given, guidance_scale=scale)[0])
        with pytest.raises(InputError, match="guidance without 'negative_prompt_embeds'"):
            bare(**given, guidance_scale=4.0)


def test_half_precision_embeddings_are_taken(pipes):
    for name in ("ZImagePipeline", "QwenImagePipeline"):
        halves = pipes[name](prompt_embeds=EMBEDS.half(), negative_prompt_embeds=EMBEDS.half(), **PICTURE).images
        assert torch.isfinite(halves).all()


class HandsOn(lockstep.FlowMatchEulerDiscreteScheduler):
    """A scheduler whose `set_timesteps` hands on whatever it is given."""

    def set_timesteps(self, *args, **kwargs):
        super().set_timesteps(*args, **kwargs)


@pytest.mark.parametrize("name", ["ZImagePipeline", "QwenImagePipeline", "LTXPipeline"])
def test_a_scheduler_that_hands_on_its_arguments_has_the_same_grid(pipes, name):
    parts = {part: getattr(pipes[name], part) for part in pipes[name].component_names if part != "guider"}
    other = getattr(lockstep, name)(**{**parts, "scheduler": HandsOn.from_config(parts["scheduler"].config)})
    stop = {**SIZES[name], "output": "timesteps"}
    wanted, got = (pipe("cat", **stop) for pipe in (pipes[name], other))
    assert torch.equal(wanted, got)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (held(frame_index="8"), "'frame_index' .* wants int, got str '8'"),
        (held(frame_index=1.5), "'frame_index' .* wants int, got float"),
        (held(frame_index=True), "'frame_index' .* wants int, got bool"),
        (held(frame_index=None), "'frame_index' .* wants int"),
        (held(frame_index=-1), "'frame_index' .* at least 0"),
        (held(frame_index=9), "one of the 9 frames"),
        (held(strength="1"), "'strength' .* wants float, got str"),
        (held(strength=float("nan")), "'strength' .* finite"),
        (held(strength=True), "'strength' .* wants float, got bool"),
        (held(strength=1.5), "'strength' .* at most 1"),
        ({"image": []}, "'image' is an empty list"),
        ({"video": []}, "'video' is an empty list"),
        ({"conditions": []}, "'conditions' is an empty list"),
    ],
)
def test_conditions_that_say_nothing_are_refused(idle, given, words):
    with pytest.raises(InputError, match=words):
        idle("LTXConditionPipeline", prompt="cat", **given)


def test_conditions_that_are_not_followed_wholly_are_told_about(pipes, caplog):
    say_once.cache_clear()
    kind, frames = lockstep.LTXVideoCondition, [picture(k, size=(32, 32)) for k in range(17)]
    stop = {**VIDEO, "prompt": "cat", "output": "video_coords", "max_sequence_length": 12}
    pipes["LTXConditionPipeline"](conditions=kind(video=frames), **stop)
    assert "Of a condition of 17 frames that begins with frame 0, 9 are used" in caplog.text
    pipes["LTXConditionPipeline"](conditions=[kind(image=frames[0]), kind(image=frames[1])], **stop)
    assert "2 conditions begin with frame 0" in caplog.text


def test_several_pictures_hold_one_video(pipes):
    two = {"image": [picture(0), picture(1)], "frame_index": [0, 8], "max_sequence_length": 12}
    made = pipes["LTXConditionPipeline"](prompt="cat", **two, **VIDEO, output="held_latents")
    assert len(made) == 1

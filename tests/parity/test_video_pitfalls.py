"""Pitfalls 4, 5, 7 and 9 of loops, chunks and stages planted into Wan and Helios beside diffusers': each is named."""

import functools
import types

import diffusers
import pytest
import torch
from diffusers.pipelines.helios import pipeline_helios, pipeline_helios_pyramid
from diffusers.pipelines.wan import pipeline_wan

import lockstep
from lockstep.blocks import components
from lockstep.guiders import ClassifierFreeZeroStarGuidance
from lockstep.parity import Verdict, compare, record
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.causes.live import state_of
from lockstep.parity.comparison.results import Standing
from lockstep.pipelines.common import pyramid as stages
from lockstep.pipelines.common import video
from lockstep.pipelines.helios import chunk, pyramid
from lockstep.pipelines.wan import denoise
from pipelines import tiny_video

# the reference's schedulers hand tensors to numpy
pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__ must accept:DeprecationWarning")
WORDS = {"prompt": "a cat", "negative_prompt": "blue", "max_sequence_length": 12, "output_type": "latent"}
WAN = {
    **WORDS, "height": 32, "width": 48, "num_frames": 5, "num_inference_steps": 4, "guidance_scale": 5.0,
    "guidance_scale_2": 3.0,
}  # fmt: skip
CHUNKS = {
    **WORDS, "height": 64, "num_frames": 10, "num_latent_frames_per_chunk": 2, "history_sizes": [4, 2, 1],
    "guidance_scale": 5.0,
}  # fmt: skip
GAMMA = 0.25  # at the published one the reference finds no factor of the block noise on a processor
RUNS = {
    "Wan": [WAN],
    "Wan, two videos": [WAN, {**WAN, "prompt": "a dog"}],
    "Helios": [{**CHUNKS, "width": 128, "pyramid_num_inference_steps_list": [3, 2, 2]}],
    "Helios in one size": [{**CHUNKS, "width": 64, "num_inference_steps": 3}],
}


def save(kind, folder):
    if kind.startswith("Wan"):
        return tiny_video.save_wan(folder, "experts")
    if kind == "Helios":
        return tiny_video.save_helios(folder, {}, {"is_cfg_zero_star": True}, GAMMA)
    return tiny_video.save_helios(folder, {"stages": 1, "stage_range": [0, 1]}, {}, GAMMA)


def run(pipe, kind, **more):
    for given in RUNS[kind]:
        pipe(**given, **more, generator=torch.Generator().manual_seed(7))


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """A trace of theirs, and ours on the same weights."""

    @functools.cache
    def load(kind):
        folder = tmp_path_factory.mktemp("video")
        weights = save(kind, folder / "weights")
        ours = lockstep.DiffusionPipeline.from_pretrained(weights)
        theirs = getattr(diffusers, type(ours).__name__).from_pretrained(weights)
        for pipe in (ours, theirs):
            pipe.set_progress_bar_config(disable=True)
        with pytest.MonkeyPatch.context() as patch:
            for module in (pipeline_wan, pipeline_helios, pipeline_helios_pyramid):
                patch.setattr(module, "ftfy", types.SimpleNamespace(fix_text=str), raising=False)
            with record(theirs, folder / "theirs.trace", level="module", side="reference"):
                run(theirs, kind)
        return folder / "theirs.trace", ours

    return load


def compared(reference, ours, kind, tmp_path):
    with record(ours, tmp_path / "ours.trace", level="module"):
        run(ours, kind, batch_guidance=False)  # as theirs: a forward for each branch
    return compare(reference, tmp_path / "ours.trace")


@pytest.mark.parametrize("kind", ["Wan", "Helios"])
def test_the_same_weights_pass(sides, tmp_path, kind):
    result = compared(*sides(kind), kind, tmp_path)
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.coverage.fraction >= (0.95 if kind == "Wan" else 0.6)


def noise_by_patches(patch):
    """Pitfall 4: what was drawn is laid out patch by patch."""
    draw = video.randn_tensor

    def drawn(shape, *more):
        patches = draw(shape, *more).reshape(*shape[:3], shape[3] // 2, shape[4] // 2, 2, 2)
        return patches.transpose(4, 5).reshape(shape)

    patch.setattr(video, "randn_tensor", drawn)


def block_noise_without_blocks(patch):
    """Pitfall 4: the size of a patch is not handed on to the block noise."""
    plain = stages.sample_block_noise
    patch.setattr(
        stages, "sample_block_noise", lambda shape, gamma, _, generator: plain(shape, gamma, (1, 1), generator)
    )


def shadowed_text(patch):
    """Pitfall 5: the loop over the branches leaves the negative prompt in the variable of the prompt."""

    def predicted(self, components, state, t, inputs, repeats, call=denoise.PredictVideo.denoise):
        if float(t) < 999:
            inputs = {**inputs, "encoder_hidden_states": state.negative_prompt_embeds}
        return call(self, components, state, t, inputs, repeats)

    patch.setattr(denoise.PredictVideo, "denoise", predicted)


def shadowed_text_of_stages(patch):
    """Pitfall 5: inside of chunks and stages the same, from the second stage on."""

    def predicted(self, components, state, t, inputs, repeats, call=chunk.PredictChunk.denoise):
        if state.stage > 0:
            inputs = {**inputs, "encoder_hidden_states": state.negative_prompt_embeds}
        return call(self, components, state, t, inputs, repeats)

    patch.setattr(pyramid.PredictStage, "denoise", predicted)


def history_kept(scheduler, patch):
    """Pitfall 7: a new schedule does not clear what the solver remembers, and the runs share one solver."""
    plain = scheduler.set_timesteps

    def kept(self, *args, **more):
        before = self.history
        plain(self, *args, **more)
        if before.outputs:
            self.history = before

    patch.setattr(scheduler, "set_timesteps", kept)
    patch.setattr(components, "own_copy", lambda part: part)


def scale_of_the_first_expert(patch):
    """Pitfall 9: the guider goes on with the first expert's scale."""
    patch.setattr(denoise.SetSecondGuidance, "__call__", lambda *_: None)


def zero_steps_in_every_stage(patch):
    """Pitfall 9: the guider's steps without a prediction begin again with every stage."""

    def guider(self, components, state, t):
        scale = components.guider.guidance_scale
        return ClassifierFreeZeroStarGuidance(guidance_scale=scale, zero_init_steps=state.zero_steps + 1)

    patch.setattr(pyramid.PredictStage, "guider", guider)


@pytest.mark.parametrize(
    ("kind", "plant", "step", "names", "words"),
    [
        ("Wan", noise_by_patches, "denoise:00", ["patch_noise"], "patch by patch (2 x 2)"),
        ("Wan", shadowed_text, "denoise:01", ["wrong_operand"], "transformer#1|in.encoder_hidden_states"),
        pytest.param(
            "Wan, two videos", functools.partial(history_kept, lockstep.UniPCMultistepScheduler), "pass:1/denoise:01",
            ["stale_state"], "`scheduler.history` is kept from one loop to the next", marks=pytest.mark.slow,
        ),
        ("Wan", scale_of_the_first_expert, "denoise:02", ["guidance"], "guidance weight 5 instead of 3"),
        pytest.param("Helios", block_noise_without_blocks, "", ["patch_noise"], "blocks of 4", marks=pytest.mark.slow),
        pytest.param(
            "Helios", shadowed_text_of_stages, "pass:1/denoise:00", ["wrong_operand"],
            "transformer#1|in.encoder_hidden_states", marks=pytest.mark.slow,
        ),
        pytest.param(
            "Helios in one size", functools.partial(history_kept, lockstep.HeliosScheduler), "pass:1/denoise:00",
            ["stale_state"], "`scheduler.history` is kept from one loop to the next", marks=pytest.mark.slow,
        ),
        pytest.param(
            "Helios", zero_steps_in_every_stage, "pass:1/denoise:00", ["guider_state"], "zero_init_steps",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["4 Wan", "5 Wan", "7 Wan", "9 Wan", "4 Helios", "5 Helios", "7 Helios", "9 Helios"],
)  # fmt: skip
def test_a_planted_pitfall_is_named(sides, tmp_path, monkeypatch, kind, plant, step, names, words):
    reference, ours = sides(kind)
    plant(monkeypatch)
    begun = state_of(ours)
    result = compared(reference, ours, kind, tmp_path)
    assert result.verdict is Verdict.BUG, result.sentence()
    assert step in ("", result.first.step), result.sentence()
    call = functools.partial(run, ours, kind, batch_guidance=False)
    causes = diagnose(result, candidate=Live(ours, call, None, begun), evaluations=6)
    assert causes[0].name in names, causes[0].why
    assert causes[0].standing is Standing.PROVEN, causes[0].why
    assert words in causes[0].why, causes[0].why

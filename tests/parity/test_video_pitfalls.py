"""Pitfalls of loops and stages planted into Wan beside diffusers': the first difference is where the fault is."""

import types

import diffusers
import pytest
import torch
from diffusers.pipelines.wan import pipeline_wan

import lockstep
from lockstep.parity import Verdict, compare, record
from lockstep.pipelines.common import video
from lockstep.pipelines.wan import denoise
from pipelines import tiny_video

GIVEN = {
    "prompt": "a cat", "negative_prompt": "blue", "height": 32, "width": 48, "num_frames": 5, "num_inference_steps": 4,
    "max_sequence_length": 12, "guidance_scale": 5.0, "guidance_scale_2": 3.0, "output_type": "latent",
}  # fmt: skip


def run(pipe, **more):
    pipe(**GIVEN, **more, generator=torch.Generator().manual_seed(7))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A trace of theirs, and ours on the same two experts."""
    folder = tmp_path_factory.mktemp("wan")
    tiny_video.save_wan(folder / "weights", "experts")
    theirs = diffusers.WanPipeline.from_pretrained(folder / "weights")
    ours = lockstep.DiffusionPipeline.from_pretrained(folder / "weights")
    for pipe in (ours, theirs):
        pipe.set_progress_bar_config(disable=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline_wan, "ftfy", types.SimpleNamespace(fix_text=str), raising=False)
        with record(theirs, folder / "theirs.trace", level="module", side="reference"):
            run(theirs)
    return folder / "theirs.trace", ours


def compared(both, tmp_path):
    reference, ours = both
    with record(ours, tmp_path / "ours.trace", level="module"):
        run(ours, batch_guidance=False)  # as theirs: a forward for each branch
    return compare(reference, tmp_path / "ours.trace")


def test_the_same_weights_pass(both, tmp_path):
    result = compared(both, tmp_path)
    assert result.verdict is Verdict.PASS, result.sentence()
    assert result.coverage.fraction >= 0.95


def noise_by_patches(patch):
    """Pitfall 4: what was drawn is laid out patch by patch."""
    draw = video.randn_tensor

    def drawn(shape, *more):
        patches = draw(shape, *more).reshape(*shape[:3], shape[3] // 2, shape[4] // 2, 2, 2)
        return patches.transpose(4, 5).reshape(shape)

    patch.setattr(video, "randn_tensor", drawn)


def shadowed_text(patch):
    """Pitfall 5: the loop over the branches leaves the negative prompt in the variable of the prompt."""

    def predicted(self, components, state, t, inputs, repeats, call=denoise.PredictVideo.denoise):
        if float(t) < 999:
            inputs = {**inputs, "encoder_hidden_states": state.negative_prompt_embeds}
        return call(self, components, state, t, inputs, repeats)

    patch.setattr(denoise.PredictVideo, "denoise", predicted)


def forgetful_scheduler(patch):
    """Pitfall 7: the history of the solver is not what the steps before have made."""
    plain = lockstep.UniPCMultistepScheduler._take

    def take(self, at):
        if at.index == 1:
            self.history.outputs = [2 * one for one in self.history.outputs]
        return plain(self, at)

    patch.setattr(lockstep.UniPCMultistepScheduler, "_take", take)


def scale_of_the_first_expert(patch):
    """Pitfall 9: the guider goes on with the first expert's scale."""
    patch.setattr(denoise.SetSecondGuidance, "__call__", lambda *_: None)


@pytest.mark.parametrize(
    ("plant", "step", "path"),
    [
        (noise_by_patches, "denoise:00", "transformer"),
        (shadowed_text, "denoise:01", "transformer"),
        (forgetful_scheduler, "denoise:01", "@scheduler.step"),
        (scale_of_the_first_expert, "denoise:02", "@scheduler.step"),
    ],
    ids=["4", "5", "7", "9"],
)
def test_a_planted_pitfall_is_placed(both, tmp_path, monkeypatch, plant, step, path):
    plant(monkeypatch)
    result = compared(both, tmp_path)
    assert result.verdict is Verdict.BUG, result.sentence()
    assert (result.first.step, result.first.key.path) == (step, path), result.sentence()

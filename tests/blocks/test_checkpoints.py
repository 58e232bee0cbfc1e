"""Every boundary can save, stop and load; an injection that leaves something open is refused."""

import numpy as np
import pytest
import torch

from blocks import tiny
from lockstep import DPMSolverMultistepScheduler
from lockstep.blocks import Checkpoint, LoopSequentialPipelineBlocks
from lockstep.errors import InjectionError, InputError, UnknownNameError

LOOP_READS = {"latents", "timesteps", "prompt_embeds", "negative_prompt_embeds", "generator", "guidance_scale"}


def captured(pipe, name, **inputs):
    checkpoint = Checkpoint(save=True, stop=True)
    output = pipe(**{"prompt": "cat", "seed": 5, **inputs}, checkpoints={name: checkpoint})
    return checkpoint, output


@pytest.mark.parametrize("scheduler", [tiny.DDIMScheduler, tiny.ancestral, DPMSolverMultistepScheduler])
def test_preloop_captures_what_the_loop_consumes_and_injecting_it_gives_the_same_picture(scheduler):
    pipe = tiny.pipeline(scheduler=scheduler())
    wanted = pipe("cat", seed=5).images
    saved, output = captured(pipe, "preloop")
    assert set(saved.data) == LOOP_READS
    assert output.stopped_at == "preloop"
    assert output.images is None
    assert pipe.denoiser.calls == 8, "the loop ran although the run was stopped before it"
    load = Checkpoint(load=True, data=saved.data)
    assert torch.equal(pipe("another prompt", seed=99, checkpoints={"preloop": load}).images, wanted)
    assert torch.equal(pipe("another prompt", seed=99, checkpoints={"preloop": load}).images, wanted), (
        "a load used its data up"
    )


def test_leaving_out_the_timesteps_is_refused_with_the_list_of_what_is_missing():
    pipe = tiny.pipeline()
    saved, _ = captured(pipe, "preloop")
    before = tiny.forwards(pipe)
    some = {name: value for name, value in saved.data.items() if name not in ("timesteps", "negative_prompt_embeds")}
    with pytest.raises(InjectionError) as caught:
        pipe("cat", checkpoints={"preloop": Checkpoint(load=True, data=some)})
    assert "'timesteps' (read by 'denoise' (Denoise))" in str(caught.value)
    assert "'negative_prompt_embeds' (read by 'denoise.predict' (Predict))" in str(caught.value)
    assert "latents" in str(caught.value).split("but what follows")[0]
    assert tiny.forwards(pipe) == before


def test_what_is_not_injected_can_be_proven_equal():
    pipe = tiny.pipeline()
    saved, _ = captured(pipe, "preloop")
    data = dict(saved.data)
    expect = {"timesteps": data.pop("timesteps")}
    load = Checkpoint(load=True, data=data, expect=expect)
    assert torch.equal(pipe("dog", seed=1, checkpoints={"preloop": load}).images, pipe("cat", seed=5).images)
    with pytest.raises(InjectionError, match="expects 'timesteps' to equal its reference, but it differs"):
        pipe("dog", seed=1, num_inference_steps=7, checkpoints={"preloop": load})


def test_timesteps_that_the_scheduler_does_not_have_are_refused():
    pipe = tiny.pipeline()
    saved, _ = captured(pipe, "preloop", num_inference_steps=6)
    load = Checkpoint(load=True, data=saved.data)
    with pytest.raises(InjectionError, match="injects timesteps that 'scheduler' of this run does not have"):
        pipe("dog", num_inference_steps=4, checkpoints={"preloop": load})
    whole = Checkpoint(load=True, data=saved.data, components=saved.components)
    wanted = pipe("cat", seed=5, num_inference_steps=6).images
    assert torch.equal(pipe("dog", num_inference_steps=4, checkpoints={"preloop": whole}).images, wanted)


@pytest.mark.parametrize("scheduler", [tiny.DDIMScheduler, tiny.ancestral, DPMSolverMultistepScheduler])
def test_a_run_can_go_on_from_the_middle_of_the_loop(scheduler):
    pipe = tiny.pipeline(scheduler=scheduler())
    wanted = pipe("cat", seed=5, num_inference_steps=6).images
    saved, _ = captured(pipe, "after_step_3", num_inference_steps=6)
    load = Checkpoint(load=True, data=saved.data, components=saved.components)
    got = pipe("dog", seed=77, num_inference_steps=6, checkpoints={"after_step_3": load}).images
    assert torch.equal(got, wanted)


def test_a_history_that_is_not_injected_is_refused():
    pipe = tiny.pipeline(scheduler=DPMSolverMultistepScheduler())
    saved, _ = captured(pipe, "after_step_2", num_inference_steps=6)
    with pytest.raises(InjectionError, match="'scheduler' keeps a history of earlier steps"):
        pipe("dog", num_inference_steps=6, checkpoints={"after_step_2": Checkpoint(load=True, data=saved.data)})


def test_aliases():
    pipe = tiny.pipeline()
    steps = []
    out = pipe("cat", seed=5, callback_on_step_end=lambda p, i, t, v: steps.append(v["latents"].clone()))
    encoding, _ = captured(pipe, "text_encoding")
    assert {"prompt_embeds", "negative_prompt_embeds"} <= set(encoding.data)
    after, _ = captured(pipe, "after_step_1")
    assert torch.equal(after.data["latents"], steps[1])
    post, _ = captured(pipe, "post_loop")
    assert torch.equal(post.data["latents"], steps[-1])
    decode, _ = captured(pipe, "decode")
    assert torch.equal(decode.data["images"], out.images)


def test_block_paths():
    pipe = tiny.pipeline()
    steps = []
    pipe(
        "cat",
        seed=5,
        callback_on_step_end=lambda p, i, t, v: steps.append((v["latents"].clone(), v["noise_pred"].clone())),
        callback_on_step_end_tensor_inputs=["latents", "noise_pred"],
    )
    for path, value, wanted in (
        ("denoise.002.step", "latents", steps[2][0]),
        ("denoise.002.predict", "noise_pred", steps[2][1]),
        ("denoise.2.predict", "noise_pred", steps[2][1]),
        ("denoise.001", "latents", steps[1][0]),
        ("denoise", "latents", steps[3][0]),
        ("prepare", "latents", captured(pipe, "preloop")[0].data["latents"]),
    ):
        assert torch.equal(captured(pipe, path)[0].data[value], wanted), path


def test_a_mistyped_name_is_told_with_the_step_that_was_asked_for():
    with pytest.raises(UnknownNameError, match=r"did you mean 'denoise.002.predict'"):
        tiny.pipeline()("cat", checkpoints={"denoise.2.predct": Checkpoint(save=True)})


@pytest.mark.parametrize(
    "name", ["preloop_", "denoise.step", "decode.000", "denoise.000.000", "image_encoder", "nowhere", "after_step_x"]
)
def test_unknown_names_are_refused_before_any_model_runs(name):
    pipe = tiny.pipeline()
    with pytest.raises(UnknownNameError, match=r"Unknown checkpoint .*preloop"):
        pipe("cat", checkpoints={name: Checkpoint(save=True)})
    assert tiny.forwards(pipe) == 0


def test_a_step_that_does_not_come_is_refused_when_the_loop_begins():
    pipe = tiny.pipeline()
    for name in ("after_step_4", "denoise.004.step", "denoise.004"):
        with pytest.raises(InputError, match=r"waits for step 4, but 'denoise' has 4 steps \(0 to 3\)"):
            pipe("cat", checkpoints={name: Checkpoint(save=True)})
    assert pipe.denoiser.calls == 0


def test_wrong_values_are_refused():
    pipe = tiny.pipeline()
    saved, _ = captured(pipe, "preloop")
    with pytest.raises(UnknownNameError, match="value in checkpoint 'preloop' 'latent'"):
        pipe("cat", checkpoints={"preloop": Checkpoint(load=True, data={**saved.data, "latent": 1})})
    with pytest.raises(InputError, match="wants a Checkpoint, got bool"):
        pipe("cat", checkpoints={"preloop": True})
    with pytest.raises(InputError, match="checkpoints wants"):
        pipe("cat", checkpoints=["preloop"])
    with pytest.raises(UnknownNameError, match="component in checkpoint"):
        pipe("cat", checkpoints={"preloop": Checkpoint(load=True, data=saved.data, components={"sheduler": None})})


def test_an_injected_value_of_another_type_is_refused_before_any_model_runs():
    saved = Checkpoint(save=True, stop=True)
    pipe = tiny.pipeline()
    pipe("cat", seed=1, checkpoints={"preloop": saved})
    calls = pipe.denoiser.calls
    wrong = Checkpoint(load=True, data={**saved.data, "latents": "noise"})
    with pytest.raises(InputError, match="'latents', which wants Tensor"):
        pipe("cat", seed=1, checkpoints={"preloop": wrong})
    assert pipe.denoiser.calls == calls


def test_arrays_of_another_framework_can_be_injected():
    pipe = tiny.pipeline()
    saved, _ = captured(pipe, "post_loop")
    arrays = {"latents": saved.data["latents"].numpy()}
    got = pipe("dog", seed=1, checkpoints={"post_loop": Checkpoint(load=True, data=arrays)}).images
    assert torch.equal(got, pipe("cat", seed=5).images)
    assert isinstance(arrays["latents"], np.ndarray)


def test_a_saved_value_is_a_snapshot():
    class InPlace(tiny.Step):
        def __call__(self, components, state, i, t):
            state.latents.add_(1.0)
            super().__call__(components, state, i, t)

    pipe = tiny.pipeline(scheduler=tiny.ancestral()).replace_block("denoise.step", InPlace)
    stopped, _ = captured(pipe, "preloop")
    saved = Checkpoint(save=True)
    wanted = pipe("cat", seed=5, checkpoints={"preloop": saved}).images
    assert torch.equal(saved.data["latents"], stopped.data["latents"]), "a later step changed what was saved"
    for _ in range(2):
        load = Checkpoint(load=True, data=saved.data)
        assert torch.equal(pipe("dog", checkpoints={"preloop": load}).images, wanted), "a run changed what it was given"


def test_several_checkpoints_at_once():
    pipe = tiny.pipeline()
    points = {
        name: Checkpoint(save=True)
        for name in ("text_encoding", "preloop", "after_step_0", "after_step_3", "post_loop", "decode")
    }
    pipe("cat", seed=5, checkpoints=points)
    assert all(point.data for point in points.values())
    assert not torch.equal(points["after_step_0"].data["latents"], points["after_step_3"].data["latents"])
    assert torch.equal(points["after_step_3"].data["latents"], points["post_loop"].data["latents"])


def test_loops_inside_loops_count_their_steps_together():
    class Chunks(LoopSequentialPipelineBlocks):
        block_classes = {"inner": tiny.Denoise}
        loop_over = 3

    pipe = tiny.pipeline().replace_block("denoise", Chunks)
    late, _ = captured(pipe, "after_step_9")
    same, _ = captured(pipe, "denoise.002.inner.001")
    assert torch.equal(late.data["latents"], same.data["latents"])
    assert set(captured(pipe, "preloop")[0].data) == LOOP_READS
    with pytest.raises(InputError, match="'after_step_12' was never reached"):
        captured(pipe, "after_step_12")


def test_a_block_can_have_an_alias_of_its_own():
    class Named(tiny.PrepareLatents):
        checkpoint_name = "noise_ready"

    pipe = tiny.pipeline().replace_block("prepare", Named)
    assert "latents" in captured(pipe, "noise_ready")[0].data


def test_timesteps_that_begin_elsewhere_are_refused():
    class FromTheMiddle(tiny.SetTimesteps):
        inputs = [*tiny.SetTimesteps.inputs, tiny.InputParam("skip", int, default=0)]

        def __call__(self, components, state):
            components.scheduler.set_timesteps(state.num_inference_steps)
            components.scheduler.set_begin_index(state.skip)
            state.timesteps = components.scheduler.timesteps[state.skip :]

    pipe = tiny.pipeline().replace_block("set_timesteps", FromTheMiddle)
    saved, _ = captured(pipe, "preloop", skip=2)
    with pytest.raises(InjectionError, match="timesteps that 'scheduler' of this run does not have"):
        pipe("cat", skip=1, checkpoints={"preloop": Checkpoint(load=True, data=saved.data)})
    same = Checkpoint(load=True, data=saved.data)
    assert torch.equal(pipe("dog", skip=2, checkpoints={"preloop": same}).images, pipe("cat", seed=5, skip=2).images)

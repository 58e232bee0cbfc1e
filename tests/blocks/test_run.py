"""The engine: events, callbacks, interrupts, threads, progress."""

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from blocks import tiny
from lockstep.blocks import Event, SequentialPipelineBlocks
from lockstep.errors import InputError, InterruptedRun, UnknownNameError, UnsupportedError


def test_classic_call_and_hand_assembled_blocks_are_one_thing():
    names = list(tiny.TinyBlocks().sub_blocks)
    by_hand = SequentialPipelineBlocks({name: type(tiny.TinyBlocks().sub_blocks[name]) for name in names})
    classic, hand = tiny.pipeline(), by_hand.init_pipeline(**tiny.models())
    assert torch.equal(classic("cat", seed=3).images, hand(prompt="cat", seed=3).images)


def test_events_come_in_order():
    events = list(tiny.pipeline().stream("cat", seed=1, num_inference_steps=2))
    assert all(isinstance(event, Event) for event in events)
    assert [(event.kind, event.path) for event in events if event.kind != "block_end"] == [
        ("block_start", "text_encoder"), ("block_start", "set_timesteps"), ("block_start", "prepare"),
        ("block_start", "denoise"),
        ("block_start", "denoise.000.predict"), ("block_start", "denoise.000.step"), ("step", "denoise"),
        ("block_start", "denoise.001.predict"), ("block_start", "denoise.001.step"), ("step", "denoise"),
        ("block_start", "decode"), ("output", ""),
    ]  # fmt: skip
    started = [event.path for event in events if event.kind == "block_start"]
    ended = {event.path: event.seconds for event in events if event.kind == "block_end"}
    assert set(started) == set(ended)
    assert all(seconds >= 0 for seconds in ended.values())
    steps = [(event.index, event.total, float(event.item)) for event in events if event.kind == "step"]
    assert steps == [(0, 2, 500.0), (1, 2, 0.0)]
    assert events[6].to_dict() != events[9].to_dict()
    assert events[-1].value.images.shape == (1, 3, 4, 4)


def test_a_stream_gives_the_same_picture_and_can_be_left():
    pipe = tiny.pipeline()
    *_, last = pipe.stream("cat", seed=1)
    assert torch.equal(last.value.images, pipe("cat", seed=1).images)
    for event in pipe.stream("cat", seed=1):
        if event.kind == "step":
            break
    assert pipe.interrupt() == 0, "a run that was left is still counted"


def test_gradients_are_off_inside_and_as_before_outside():
    seen = []

    class Look(tiny.Decode):
        def __call__(self, components, state):
            seen.append(torch.is_grad_enabled())
            super().__call__(components, state)

    for _ in tiny.pipeline().replace_block("decode", Look).stream("cat", seed=1):
        assert torch.is_grad_enabled()
    assert seen == [False]


def test_a_run_runs_once():
    run = tiny.pipeline().run("cat", seed=1)
    run.result()
    with pytest.raises(InputError, match="a run runs once"):
        run.result()


# ---- callbacks and previews ----


def test_callback_on_step_end_sees_and_replaces_values():
    pipe, seen = tiny.pipeline(), []

    def watch(owner, step, timestep, values):
        assert owner is pipe
        seen.append((step, float(timestep), values["latents"].clone()))
        return {"latents": values["latents"] * (0 if step == 2 else 1)}

    changed = pipe("cat", seed=1, callback_on_step_end=watch, output="latents")
    assert [entry[:2] for entry in seen] == [(0, 750.0), (1, 500.0), (2, 250.0), (3, 0.0)]
    plain = []
    pipe("cat", seed=1, callback_on_step_end=lambda p, i, t, values: plain.append(values["latents"].clone()))
    assert all(torch.equal(plain[k], seen[k][2]) for k in range(3))
    assert not torch.equal(plain[3], seen[3][2])
    assert torch.equal(changed, seen[3][2])


def test_callback_names_are_checked_before_any_model_runs():
    pipe = tiny.pipeline()
    with pytest.raises(UnknownNameError, match="did you mean 'latents'"):
        pipe("cat", callback_on_step_end=lambda *a: {}, callback_on_step_end_tensor_inputs=["latnts"])
    with pytest.raises(InputError, match="callback_on_step_end wants a function of .*, got int 3"):
        pipe("cat", callback_on_step_end=3)
    assert tiny.forwards(pipe) == 0
    with pytest.raises(UnknownNameError, match="returned by callback_on_step_end 'noise_pred'"):
        pipe("cat", callback_on_step_end=lambda *a: {"noise_pred": None})


@pytest.mark.parametrize("callback", [lambda pipe, step: {}, 3])
def test_a_callback_that_cannot_be_called_is_refused_before_any_model_runs(callback):
    pipe = tiny.pipeline()
    with pytest.raises(InputError, match="step, timestep, values"):
        pipe("cat", callback_on_step_end=callback)
    assert pipe.denoiser.calls == 0


def test_a_callback_gives_names_with_values():
    with pytest.raises(InputError, match="list"):
        tiny.pipeline()("cat", callback_on_step_end=lambda *_: [1])


@pytest.mark.parametrize(
    "option",
    [{"output": 3}, {"return_dict": "no"}, {"preview": "yes"}, {"callback_on_step_end_tensor_inputs": "latents"}],
)
def test_options_of_another_type_are_refused_before_any_model_runs(option):
    pipe = tiny.pipeline()
    with pytest.raises(InputError, match=f"{next(iter(option))}.* wants"):
        pipe("cat", **option)
    assert pipe.text_encoder.calls == 0


def test_a_copied_pipeline_gives_the_same_picture():
    pipe = tiny.pipeline()
    for twin in (copy.deepcopy(pipe), pickle.loads(pickle.dumps(pipe))):
        assert torch.equal(twin("cat", seed=np.int64(1)).images, pipe("cat", seed=1).images)
        assert twin.denoiser is not pipe.denoiser


def test_callback_can_ask_for_any_value():
    """Embeddings come as callbacks of the field know them: the rows without the prompt before those with it."""
    got = {}
    tiny.pipeline()(
        "cat", seed=1, callback_on_step_end=lambda p, i, t, values: got.update(values),
        callback_on_step_end_tensor_inputs=["latents", "prompt_embeds", "noise_pred"],
    )  # fmt: skip
    assert {name: value.shape[0] for name, value in got.items()} == {"latents": 1, "prompt_embeds": 2, "noise_pred": 1}


def test_previews():
    pipe = tiny.pipeline()
    events = list(pipe.stream("cat", seed=1, preview=lambda latents: latents.mean().item()))
    shown = [event for event in events if event.kind == "preview"]
    assert [event.index for event in shown] == [0, 1, 2, 3]
    assert isinstance(shown[0].value, float)
    with pytest.raises(UnsupportedError, match="no preview of its own"):
        pipe("cat", preview=True)


# ---- interrupt ----


def test_interrupt_from_another_thread_stops_within_one_step_and_leaves_the_pipeline_usable():
    pipe = tiny.pipeline()
    wanted = pipe("cat", seed=1).images
    reached, interrupted, steps = threading.Event(), threading.Event(), []

    def watch(owner, step, timestep, values):
        steps.append(step)
        if step == 1:
            reached.set()
            assert interrupted.wait(10)

    def interrupt():
        assert reached.wait(10)
        assert pipe.interrupt() == 1
        interrupted.set()

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(InterruptedRun, match=r"interrupted before 'denoise.002'") as caught:
        pipe("cat", seed=1, num_inference_steps=50, callback_on_step_end=watch)
    other.join()
    assert steps == [0, 1]
    assert caught.value.state.latents.shape == (1, 1, 4, 4)
    assert torch.equal(pipe("cat", seed=1).images, wanted)


def test_one_run_of_several_can_be_interrupted():
    pipe = tiny.pipeline()
    first, second = pipe.run("cat", seed=1), pipe.run("cat", seed=1)
    first.interrupt()
    with pytest.raises(InterruptedRun):
        first.result()
    assert second.result().images.shape == (1, 3, 4, 4)


# ---- threads ----


@pytest.mark.parametrize("scheduler", [tiny.DDIMScheduler, tiny.ancestral])
def test_four_threads_on_one_pipeline_equal_four_runs_in_sequence(scheduler):
    pipe = tiny.pipeline(scheduler=scheduler())
    calls = [{"prompt": p, "seed": s, "num_inference_steps": n, "guidance_scale": g} for p, s, n, g in
             (("cat", 1, 5, 1.0), ("dog", 2, 8, 7.5), ("house", 3, 11, 3.0), ("tree", 4, 20, 2.0))]  # fmt: skip
    one_by_one = [pipe(**call).images for call in calls]
    barrier = threading.Barrier(4)

    def together(call):
        barrier.wait(10)
        return [pipe(**call).images for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(together, calls))
    for wanted, got in zip(one_by_one, results, strict=True):
        assert all(torch.equal(wanted, image) for image in got)


def test_interleaved_streams_do_not_touch_each_other():
    pipe = tiny.pipeline(scheduler=tiny.ancestral())
    wanted = [pipe("cat", seed=1, num_inference_steps=3).images, pipe("dog", seed=2, num_inference_steps=5).images]
    streams = [pipe.stream("cat", seed=1, num_inference_steps=3), pipe.stream("dog", seed=2, num_inference_steps=5)]
    last = [None, None]
    while streams_left := [k for k in (0, 1) if last[k] is None or last[k].kind != "output"]:
        for k in streams_left:
            last[k] = next(streams[k])
    assert all(torch.equal(last[k].value.images, wanted[k]) for k in (0, 1))


def test_a_run_does_not_change_the_pipelines_own_scheduler_and_guider():
    pipe = tiny.pipeline(scheduler=tiny.ancestral())
    before = {name: repr(sorted(vars(pipe.all_components[name]).items(), key=str)) for name in ("scheduler", "guider")}
    pipe("cat", seed=1, guidance_scale=9.0)
    assert before == {
        name: repr(sorted(vars(pipe.all_components[name]).items(), key=str)) for name in ("scheduler", "guider")
    }


# ---- results ----


def test_forms_of_the_result():
    pipe = tiny.pipeline()
    whole = pipe("cat", seed=1)
    assert whole.images is whole["images"] is whole[0]
    assert torch.equal(pipe("cat", seed=1, return_dict=False)[0], whole.images)
    latents = pipe("cat", seed=1, output="latents")
    assert latents.shape == (1, 1, 4, 4)
    both = pipe("cat", seed=1, output=["latents", "images"])
    assert torch.equal(both["latents"], latents)
    assert torch.equal(both["images"], whole.images)
    with pytest.raises(UnknownNameError, match="did you mean 'latents'"):
        pipe("cat", output="latnts")
    with pytest.raises(AttributeError, match="it has: images"):
        whole.videos


def test_output_leaves_later_blocks_out():
    pipe = tiny.pipeline()
    embeds = pipe("cat", output="prompt_embeds", num_inference_steps=4)
    assert embeds.shape == (1, tiny.WIDTH)
    assert (pipe.text_encoder.calls, pipe.denoiser.calls, pipe.decoder.calls) == (2, 0, 0)


def test_an_error_inside_a_block_says_where():
    class Broken(tiny.Step):
        def __call__(self, components, state, i, t):
            if i == 2:
                raise RuntimeError("shapes do not match")
            super().__call__(components, state, i, t)

    pipe = tiny.pipeline().replace_block("denoise.step", Broken)
    with pytest.raises(RuntimeError, match="shapes do not match") as caught:
        pipe("cat", seed=1)
    assert caught.value.__notes__ == ["In block 'denoise.002.step' (Broken)."]
    assert pipe.interrupt() == 0


# ---- progress ----


def test_progress_is_quiet_when_asked_and_without_a_terminal(capfd):
    pipe = tiny.pipeline()
    pipe("cat", seed=1)
    pipe.set_progress_bar_config(disable=None)
    pipe("cat", seed=1)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(UnknownNameError, match="did you mean 'disable'"):
        pipe.set_progress_bar_config(disabled=True)


def test_progress_shows_nested_loops(capfd, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    chunks = type("Chunks", (tiny.LoopSequentialPipelineBlocks,), {"loop_over": 2})({"inner": tiny.Denoise()})
    pipe = tiny.pipeline().replace_block("denoise", chunks)
    pipe.set_progress_bar_config(disable=False)
    pipe("cat", seed=1)
    shown = capfd.readouterr().err
    assert "denoise" in shown
    assert "  inner" in shown
    assert "4/4" in shown
    assert "2/2" in shown

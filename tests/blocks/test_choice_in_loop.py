"""A choice can see the loop's i and t: two experts with a boundary, a refiner for the last steps."""

import pytest
import torch

from blocks import tiny
from lockstep.blocks import (
    AutoPipelineBlocks,
    Checkpoint,
    ComponentSpec,
    ConditionalPipelineBlocks,
    InputParam,
    LoopSequentialPipelineBlocks,
    SequentialPipelineBlocks,
)
from lockstep.errors import InjectionError, InputError, UnknownNameError, WiringError
from lockstep.pipelines.offload import Offload

BOUNDARY = InputParam("boundary", float, default=500.0, description="The timestep below which the second expert runs.")
STEPS = {"num_inference_steps": 4, "seed": 3}


class Expert(tiny.Predict):
    """The guided prediction of whoever plays the denoiser."""

    expected_components = [ComponentSpec("denoiser", tiny.TinyDenoiser, role=True), tiny.SCHEDULER, tiny.GUIDER]
    inputs = [*tiny.Predict.inputs, BOUNDARY]


class HighNoise(Expert):
    """For the first steps."""

    roles = {"denoiser": ComponentSpec("transformer", tiny.TinyDenoiser)}


class LowNoise(Expert):
    """For the last steps."""

    roles = {"denoiser": ComponentSpec("transformer_2", tiny.TinyDenoiser)}


class ChooseExpert(ConditionalPipelineBlocks):
    """One expert above the boundary, the other one below."""

    block_classes = {"high": HighNoise, "low": LowNoise}
    block_trigger_inputs = ["t", "boundary"]
    default_block_name = "low"

    def select_block(self, t, boundary):
        return "high" if boundary is None or t >= boundary else None


class Denoise(LoopSequentialPipelineBlocks):
    """Predict and step, once per timestep."""

    block_classes = {"predict": ChooseExpert, "step": tiny.Step}
    loop_over = "timesteps"


class TwoExperts(SequentialPipelineBlocks):
    """Text to pixels with two experts."""

    block_classes = {
        **dict(zip(tiny.TinyBlocks.block_names, tiny.TinyBlocks.block_classes, strict=True)),
        "denoise": Denoise,
    }
    outputs = tiny.TinyBlocks.result
    workflows = tiny.TinyBlocks.workflows


def experts(blocks=TwoExperts):
    parts = tiny.models()
    torch.manual_seed(1)
    second = tiny.TinyDenoiser().eval()
    pipe = blocks().init_pipeline(transformer=parts.pop("denoiser"), transformer_2=second, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_each_step_runs_the_expert_of_its_timestep():
    pipe = experts()
    starts = [
        event.path for event in pipe.stream("x", **STEPS) if event.kind == "block_start" and "predict" in event.path
    ]
    assert starts == [f"denoise.{k:03d}.predict.{name}" for k, name in enumerate(["high", "high", "low", "low"])]
    before = pipe.transformer.calls, pipe.transformer_2.calls
    pipe("x", boundary=1001.0, **STEPS)
    assert pipe.transformer.calls == before[0]
    assert pipe.transformer_2.calls == before[1] + 8


def test_the_result_is_that_of_the_two_experts_by_hand():
    pipe = experts()
    mixed = pipe("x", **STEPS).images
    saved = Checkpoint(save=True, stop=True)
    pipe("x", boundary=0.0, checkpoints={"after_step_1": saved}, **STEPS)
    rest = Checkpoint(load=True, data={**saved.data, "boundary": 1001.0}, components=saved.components)
    assert torch.equal(pipe("x", boundary=1001.0, checkpoints={"after_step_1": rest}, **STEPS).images, mixed)
    assert not torch.equal(pipe("x", boundary=0.0, **STEPS).images, mixed)


def test_the_drawing_and_the_schema_show_it():
    pipe = experts()
    assert "predict  ChooseExpert: one of at each step, by t, boundary" in pipe.draw()
    assert "high  [when selected] HighNoise" in pipe.draw()
    assert "with transformer, scheduler, guider" in pipe.draw()
    assert 'predict ? t"' in pipe.mermaid()
    assert {"transformer", "transformer_2"} <= set(pipe.schema()["components"])
    assert "boundary" in [entry["name"] for entry in pipe.schema()["inputs"]]
    assert "t" not in [entry["name"] for entry in pipe.schema()["inputs"]]
    workflow = pipe.blocks.get_workflow("text2image")
    assert list(workflow.block_at("denoise.predict").sub_blocks) == ["high", "low"]
    assert pipe("x", **STEPS).manifest["workflow"] == "text2image"


def test_every_boundary_of_a_chosen_expert_is_a_checkpoint():
    pipe = experts()
    wanted = pipe("x", **STEPS).images
    for name in ("denoise.001.predict.high", "denoise.002.predict", "denoise.003.predict.low", "after_step_2"):
        saved = Checkpoint(save=True)
        pipe("x", checkpoints={name: saved}, **STEPS)
        assert {"latents", "prompt_embeds"} <= set(saved.data), name
        again = Checkpoint(load=True, data=saved.data, components=saved.components)
        assert torch.equal(pipe("x", checkpoints={name: again}, **STEPS).images, wanted), name
        if "predict" in name:
            del again.data["noise_pred"]
            with pytest.raises(InjectionError, match="noise_pred"):
                pipe("x", checkpoints={name: again}, **STEPS)
    with pytest.raises(InputError, match="never reached"):
        pipe("x", checkpoints={"denoise.000.predict.low": Checkpoint(save=True)}, **STEPS)
    with pytest.raises(UnknownNameError, match="denoise.000.predict.low"):
        pipe("x", checkpoints={"denoise.000.predict.lo": Checkpoint(save=True)}, **STEPS)


def test_only_the_expert_that_runs_stays_on_the_accelerator():
    pipe = experts()
    moves, there = [], set()
    for name in ("text_encoder", "transformer", "transformer_2", "decoder"):
        model = pipe.components[name]

        def to(where, name=name):
            moves.append((name, str(where)))
            (there.add if str(where) == "cpu:0" else there.discard)(name)
            assert len(there) == 1 or str(where) == "cpu", there

        model.to = to
    pipe._offload = Offload(torch.device("cpu:0"), pipe.components)
    there.clear()
    moves.clear()
    resident = []
    pipe("x", callback_on_step_end=lambda *_: resident.append(set(there)) or {}, **STEPS)
    assert resident == [{"transformer"}] * 2 + [{"transformer_2"}] * 2
    came = [name for name, where in dict.fromkeys(moves) if where == "cpu:0"]
    assert came == ["text_encoder", "transformer", "transformer_2", "decoder"]
    assert ("transformer", "cpu") in moves


def test_a_refiner_for_the_last_steps_may_be_skipped():
    seen = []

    class Note(tiny.Step):
        """Looks at the latents."""

        def __call__(self, components, state, i, t):
            seen.append(i)
            state.latents = state.latents

    class Refine(ConditionalPipelineBlocks):
        """Only in the last steps."""

        block_classes = {"refine": Note}
        block_trigger_inputs = ["i", "timesteps"]

        def select_block(self, i, timesteps):
            return "refine" if i >= len(timesteps) - 2 else None

    pipe = experts().insert_block("denoise.refine", Refine)
    pipe("x", **STEPS)
    assert seen == [2, 3]
    saved = Checkpoint(save=True)
    pipe("x", checkpoints={"denoise.000.refine": saved}, **STEPS)
    assert "latents" in saved.data  # a branch that may not run makes nothing for sure


def test_a_choice_by_a_step_stands_inside_a_loop():
    with pytest.raises(WiringError, match="'predict' .ChooseExpert. chooses by t, but does not stand inside a loop"):
        SequentialPipelineBlocks({"predict": ChooseExpert}).init_pipeline()

    class ByPresence(AutoPipelineBlocks):
        """A loop always gives t."""

        block_classes = {"high": HighNoise}
        block_trigger_inputs = ["t"]

    with pytest.raises(WiringError, match="a loop always gives 't'"):
        ByPresence()


def test_a_counting_loop_has_no_t():
    class Counting(Denoise):
        """Four times."""

        loop_over = 4

    pipe = experts().replace_block("denoise", Counting)
    with pytest.raises(WiringError, match="asks for t .an item."):
        pipe("x", **STEPS)

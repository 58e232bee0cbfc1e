"""Patterns that pipelines of the field are written in: chunk loops, workflow selection, the guider loop,
free block states."""

import pytest
import torch

from blocks import tiny
from lockstep import ClassifierFreeGuidance, FrozenDict, PerturbedAttentionGuidance
from lockstep.blocks import (
    ComponentSpec,
    ConditionalPipelineBlocks,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
    randn_tensor,
)
from lockstep.errors import InterruptedRun

FRAMES = 2

# ---- a video made in chunks: each chunk continues the last one ----


class StartHistory(ModularPipelineBlocks):
    """No frames yet."""

    outputs = [OutputParam("history", torch.Tensor, "Frames of the chunks so far.")]

    def __call__(self, components, state):
        state.history = torch.zeros(1, 0, 4, 4)


HISTORY = InputParam("history", torch.Tensor, required=True)


class PrepareChunk(ModularPipelineBlocks):
    """The last frames of the chunk before."""

    inputs = [HISTORY]
    outputs = [OutputParam("context", torch.Tensor)]

    def __call__(self, components, state, k):
        state.context = state.history[:, -1:] if k else torch.zeros(1, 1, 4, 4)


class ChunkNoise(ModularPipelineBlocks):
    """Noise for the frames of one chunk."""

    inputs = ["generator", InputParam("context", torch.Tensor, required=True)]
    outputs = ["latents"]

    def __call__(self, components, state, k):
        state.latents = randn_tensor((1, FRAMES, 4, 4), state.generator) + state.context


class ShrinkStep(ModularPipelineBlocks):
    """One step of a toy denoiser; it sees the chunk and the step."""

    inputs = needs("latents")
    outputs = ["latents"]

    def __call__(self, components, state, k, i, t):
        state.latents = state.latents * 0.5 + 0.01 * (k + 1) * float(t) / 1000 + 0.001 * i


class InnerDenoise(LoopSequentialPipelineBlocks):
    """The steps of one chunk."""

    block_classes = [ShrinkStep]
    loop_over = "timesteps"


class UpdateHistory(ModularPipelineBlocks):
    """Append the chunk."""

    inputs = [HISTORY, *needs("latents")]
    outputs = [OutputParam("history", torch.Tensor)]

    def __call__(self, components, state, k):
        state.history = torch.cat([state.history, state.latents], dim=1)


class ChunkDenoise(LoopSequentialPipelineBlocks):
    """Chunk after chunk."""

    block_classes = [PrepareChunk, ChunkNoise, InnerDenoise, UpdateHistory]
    loop_over = "num_chunks"
    loop_inputs = [InputParam("num_chunks", int, default=3, minimum=1, description="How many chunks.")]


class ToVideo(ModularPipelineBlocks):
    """Frames out."""

    inputs = [HISTORY]
    outputs = ["videos"]

    def __call__(self, components, state):
        state.videos = state.history


def chunk_pipeline():
    blocks = {"timesteps": tiny.SetTimesteps, "start": StartHistory, "chunks": ChunkDenoise, "decode": ToVideo}
    pipe = SequentialPipelineBlocks(blocks).init_pipeline(scheduler=tiny.DDIMScheduler())
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_chunk_loop_equals_a_plain_python_loop():
    generator = torch.Generator().manual_seed(4)
    history = torch.zeros(1, 0, 4, 4)
    scheduler = tiny.DDIMScheduler()
    scheduler.set_timesteps(4)
    for k in range(3):
        context = history[:, -1:] if k else torch.zeros(1, 1, 4, 4)
        latents = torch.randn((1, FRAMES, 4, 4), generator=generator) + context
        for i, t in enumerate(scheduler.timesteps):
            latents = latents * 0.5 + 0.01 * (k + 1) * float(t) / 1000 + 0.001 * i
        history = torch.cat([history, latents], dim=1)
    assert torch.equal(chunk_pipeline()(generator=torch.Generator().manual_seed(4)).videos, history)
    assert chunk_pipeline()(num_chunks=5, seed=1).videos.shape == (1, 10, 4, 4)


def test_chunk_loop_has_steps_events_and_can_be_interrupted():
    pipe = chunk_pipeline()
    run = pipe.run(seed=1, num_chunks=2)
    paths = []

    def watch(event):
        if event.kind == "step":
            paths.append((event.path, event.index, event.total))
            if event.path == "chunks.001.inner_denoise":
                run.interrupt()

    run.observers.append(watch)
    with pytest.raises(InterruptedRun, match=r"before 'chunks.001.inner_denoise.001'"):
        run.result()
    assert paths == [("chunks.000.inner_denoise", k, 4) for k in range(4)] + [
        ("chunks", 0, 2),
        ("chunks.001.inner_denoise", 0, 4),
    ]


def test_chunk_loop_calls_back_once_per_innermost_step():
    seen = []
    chunk_pipeline()(seed=1, num_chunks=2, callback_on_step_end=lambda p, i, t, values: seen.append((i, float(t))))
    assert seen == [(0, 750.0), (1, 500.0), (2, 250.0), (3, 0.0)] * 2


# ---- one denoiser for three workflows, two triggers ----


def denoiser(name, *reads):
    def call(self, components, state):
        state.videos = torch.full((1,), float(len(reads))) + sum(
            (getattr(state, r).sum() for r in reads), torch.zeros(())
        )

    return type(name, (ModularPipelineBlocks,), {"inputs": needs(*reads), "outputs": ["videos"], "__call__": call})


class AutoDenoise(ConditionalPipelineBlocks):
    """Video to video, picture to video, or text to video."""

    block_classes = [
        denoiser("V2V", "video_latents", "image_latents"),
        denoiser("I2V", "image_latents"),
        denoiser("T2V"),
    ]
    block_names = ["video2video", "image2video", "text2video"]
    block_trigger_inputs = ["video_latents", "image_latents"]
    default_block_name = "text2video"

    def select_block(self, video_latents=None, image_latents=None):
        if video_latents is not None and image_latents is not None:
            return "video2video"
        return "image2video" if image_latents is not None else None


@pytest.mark.parametrize(
    ("given", "branch", "value"),
    [
        ({}, "text2video", 0.0),
        ({"image_latents": torch.ones(2)}, "image2video", 3.0),
        ({"image_latents": torch.ones(2), "video_latents": torch.ones(3)}, "video2video", 7.0),
    ],
)
def test_conditional_denoise_with_three_branches_and_two_triggers(given, branch, value):
    pipe = AutoDenoise().init_pipeline(given=["video_latents", "image_latents"])
    run = pipe.run(**given)
    assert run.plan.flow.choices == {"auto_denoise": branch}
    assert run.result().videos.item() == value


def test_a_trigger_alone_that_selects_nothing_is_not_ignored():
    pipe = AutoDenoise().init_pipeline(given=["video_latents", "image_latents"])
    assert pipe().videos.item() == 0.0
    assert pipe(video_latents=torch.ones(3)).videos.item() == 0.0  # the choice reads it, so it was considered


def test_triggers_and_blocks_are_paired_when_nothing_else_is_said():
    plain = type("Plain", (ConditionalPipelineBlocks,), {
        "block_classes": AutoDenoise.block_classes, "block_names": AutoDenoise.block_names,
        "block_trigger_inputs": AutoDenoise.block_trigger_inputs, "default_block_name": "text2video",
    })  # fmt: skip
    assert plain().choose({"image_latents": 1}) == "image2video"
    assert plain().choose({"image_latents": 1, "video_latents": 1}) == "video2video"
    assert plain().choose({}) == "text2video"


# ---- the guider loop ----


def test_guider_loop_equals_guidance_written_out():
    pipe = tiny.pipeline()
    got = pipe("cat", negative_prompt="dog", seed=2, guidance_scale=4.0, output="latents")
    parts, scheduler = tiny.models(), tiny.DDIMScheduler()
    scheduler.set_timesteps(4)
    latents = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        positive, negative = parts["text_encoder"](["cat"]), parts["text_encoder"](["dog"])
        for t in scheduler.timesteps:
            with_prompt, without = parts["denoiser"](latents, t, positive), parts["denoiser"](latents, t, negative)
            latents = scheduler.step(without + 4.0 * (with_prompt - without), t, latents)[0]
    assert torch.allclose(got, latents, rtol=1e-6, atol=1e-6)


def test_guiders_are_swapped_without_touching_blocks():
    spec = ComponentSpec(
        "guider",
        ClassifierFreeGuidance,
        config=FrozenDict({"guidance_scale": 7.5}),
        default_creation_method="from_config",
    )
    assert type(spec.create()) is ClassifierFreeGuidance
    pipe = tiny.pipeline()
    assert pipe.guider.guidance_scale == 3.0
    unguided = pipe("cat", seed=2, guidance_scale=1.0).images
    assert not torch.equal(unguided, pipe("cat", seed=2).images)
    pipe.guider = ClassifierFreeGuidance(guidance_scale=3.0, stop=0.0)
    assert torch.equal(pipe("cat", seed=2).images, unguided)
    assert issubclass(PerturbedAttentionGuidance, type(pipe.guider).__mro__[-3])


# ---- blocks in the style of the wider ecosystem: properties, free block states, loops that iterate by themselves ----


class FreeScale(ModularPipelineBlocks):
    """Works on the loop's shared block state; its scratch value is declared nowhere."""

    @property
    def inputs(self):
        return [InputParam("latents", required=True, type_hint=torch.Tensor)]

    def __call__(self, components, block_state, i: int, t: int):
        block_state.scaled = block_state.latents / 2
        return components, block_state


class FreeStep(ModularPipelineBlocks):
    @property
    def expected_components(self):
        return [tiny.SCHEDULER]

    @property
    def inputs(self):
        return [InputParam("latents", required=True, type_hint=torch.Tensor), InputParam("eta", default=0.0)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("latents", type_hint=torch.Tensor)]

    def __call__(self, components, block_state, i: int, t: int):
        block_state.latents = components.scheduler.step(block_state.scaled, t, block_state.latents)[0]
        return components, block_state


class FreeLoop(LoopSequentialPipelineBlocks):
    block_classes = [FreeScale, FreeStep]
    block_names = ["before", "after"]

    @property
    def description(self):
        return "Iterates by itself."

    @property
    def loop_expected_components(self):
        return [tiny.SCHEDULER]

    @property
    def loop_inputs(self):
        return [InputParam("timesteps", required=True, type_hint=torch.Tensor)]

    def __call__(self, components, state):
        block_state = self.get_block_state(state)
        assert components.scheduler.config.num_train_timesteps == 1000
        with self.progress_bar(total=len(block_state.timesteps)) as bar:
            for i, t in enumerate(block_state.timesteps):
                components, block_state = self.loop_step(components, block_state, i=i, t=t)
                bar.update()
        self.set_block_state(state, block_state)
        return components, state


class FreePrepare(ModularPipelineBlocks):
    @property
    def inputs(self):
        return [InputParam.template("generator"), InputParam.template("num_inference_steps", default=4)]

    @property
    def intermediate_outputs(self):
        return [OutputParam("latents", type_hint=torch.Tensor)]

    def __call__(self, components, state):
        block_state = self.get_block_state(state)
        block_state.shape = (1, 1, 4, 4)
        block_state.latents = randn_tensor(block_state.shape, block_state.generator)
        self.set_block_state(state, block_state)
        return components, state


def free_pipeline():
    blocks = {"set": tiny.SetTimesteps, "prepare": FreePrepare, "denoise": FreeLoop}
    pipe = SequentialPipelineBlocks(blocks).init_pipeline(scheduler=tiny.DDIMScheduler())
    pipe.set_progress_bar_config(disable=True)
    return pipe


def test_ecosystem_style_blocks_run():
    scheduler = tiny.DDIMScheduler()
    scheduler.set_timesteps(4)
    latents = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    for t in scheduler.timesteps:
        latents = scheduler.step(latents / 2, t, latents)[0]
    assert torch.equal(free_pipeline()(seed=1).latents, latents)
    assert FreeLoop().description == "Iterates by itself."


def test_ecosystem_style_loops_have_steps_callbacks_and_interrupts():
    pipe, seen = free_pipeline(), []
    out = pipe(
        seed=1,
        callback_on_step_end=lambda p, i, t, values: seen.append((i, float(t))) or {"latents": values["latents"] * 0},
    )
    assert seen == [(0, 750.0), (1, 500.0), (2, 250.0), (3, 0.0)]
    assert torch.equal(out.latents, torch.zeros(1, 1, 4, 4))
    assert [event.index for event in pipe.stream(seed=1) if event.kind == "step"] == [0, 1, 2, 3]
    with pytest.raises(InterruptedRun, match=r"'denoise.002'"):
        pipe(seed=1, callback_on_step_end=lambda p, i, t, values: p.interrupt() and None if i == 1 else None)


def test_ecosystem_style_outputs_have_to_be_written():
    class Forgets(FreePrepare):
        def __call__(self, components, state):
            self.set_block_state(state, self.get_block_state(state))

    with pytest.raises(Exception, match=r"'prepare' \(Forgets\) declares the output 'latents' but did not write it"):
        free_pipeline().replace_block("prepare", Forgets)(seed=1)

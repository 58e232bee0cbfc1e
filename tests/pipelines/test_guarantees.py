"""What every family gets from the mechanism, and none of them writes: a family is added as one line of `FAMILIES`."""

import json
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import lockstep as library
from helpers import assert_close, install_entry_point
from lockstep import Checkpoint
from lockstep.errors import InjectionError, InputError, InterruptedRun, NonFiniteError, UnknownNameError
from pipelines import tiny, tiny_flow, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image, toy_family


@dataclass(frozen=True)
class Family:
    """Where a tiny model of the family comes from, and what it calls its denoiser."""

    save: object
    kind: type
    denoiser: str
    layer: str  # a layer of the denoiser, for a LoRA
    scheduler: str | None  # one that draws noise at each step; none where chunks draw it
    latents: str = "[1, 4, 8, 8]"  # the shape of latents where no size is given; "" where none are taken
    guided: dict = field(default_factory=dict)  # arguments that turn guidance on, where it is off without them
    unguided: float = 1.0  # the guidance scale that is none
    begins: str = "image"  # what a run can start from besides a text
    workflows: tuple = ("text2image", "image2image")
    per_prompt: str = "num_images_per_prompt"
    length: dict = field(default_factory=dict)  # of a video that starts from a text
    side: int = 16
    file: str = "cat.png"
    unread: tuple = ()  # weights whose results are dropped
    partly: bool = True  # a picture or video is begun from at a `strength`; else it is what came before
    stages: int = 0  # of a pyramid, each with a number of steps
    indices: tuple = (0, 1, 2, 3)  # of the steps of a small run
    step: str = "denoise.001.step"  # blocks that a checkpoint is set at
    first: str = "start.latents"
    needed: str = "timesteps"  # a value without which the loop cannot begin

    def steps(self, count):
        """So many steps, in the first stage where there are several."""
        if self.stages:
            return {"pyramid_num_inference_steps_list": [count] + [1] * (self.stages - 1)}
        return {"num_inference_steps": count}

    @property
    def size(self):
        return {"height": self.side, "width": self.side}

    @property
    def small(self):
        count = len(self.indices) if self.partly else 2
        return {"prompt": "a cat", **self.size, **self.steps(count), **self.length}

    @property
    def latent(self):
        return {**self.small, "output_type": "latent"}

    @property
    def start(self):
        """What it begins with: a picture, or a video."""
        return picture() if self.begins == "image" else [picture() for _ in range(5)]

    def arguments(self, workflow):
        """Arguments for one of the workflows that all of them have."""
        if workflow == "text":
            return self.latent
        given = {self.begins: self.start, **({"strength": 0.75} if self.partly else {})}
        taken = {name: value for name, value in self.latent.items() if not self.partly or name != "num_frames"}
        return taken | given  # a video is as long as the one that it is made from


def save_toy(folder):
    tokenizer = tiny.tokenizer()
    shapes = {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8)}
    stages = {"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)}
    toy_family.ToyPipeline(
        tokenizer=tokenizer,
        text_encoder=tiny.text_encoder(len(tokenizer)),
        transformer=tiny.randomize(toy_family.ToyTransformer(), 2),
        vae=tiny.randomize(library.AutoencoderTiny(**shapes, **stages), 3),
        scheduler=library.FlowMatchEulerDiscreteScheduler(shift=3.0),
    ).save_pretrained(folder)
    return folder


def save_helios(folder):
    return tiny_video.save_helios(folder, {"stages": 1, "stage_range": [0, 1]}, {}, 1 / 3)


def save_pyramid(folder):
    stages = {"stages": 2, "stage_range": [0, 0.5, 1]}
    return tiny_video.save_helios(folder, stages, {"is_cfg_zero_star": True}, 1 / 3)


BRIEF = {"max_sequence_length": 12}
CHUNKS = {**BRIEF, "num_frames": 10, "num_latent_frames_per_chunk": 2, "history_sizes": [4, 2, 1]}
VIDEO = {
    "begins": "video", "workflows": ("text2video", "video2video"), "per_prompt": "num_videos_per_prompt", "file": "cat",
}  # fmt: skip
LONG = {**VIDEO, "latents": "", "length": CHUNKS, "partly": False, "needed": "history_latents"}
ATTENTION = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q"
FAMILIES = {
    "sd": Family(
        lambda folder: tiny.save_folder(folder, "sd1"),
        library.StableDiffusionPipeline, "unet", ATTENTION, "EulerAncestralDiscreteScheduler",
    ),
    "xl": Family(
        lambda folder: tiny.save_folder(folder, "xl"),
        library.StableDiffusionXLPipeline, "unet", ATTENTION, "EulerAncestralDiscreteScheduler",
    ),
    "toy": Family(save_toy, toy_family.ToyPipeline, "transformer", "blocks.0.out", "FlowMatchEulerDiscreteScheduler"),
    "sd3": Family(
        tiny_flow.save_sd3,
        library.StableDiffusion3Pipeline, "transformer", "transformer_blocks.0.attn.to_q",
        "FlowMatchEulerDiscreteScheduler", latents="[1, 16, 8, 8]",
        unread=("transformer_blocks.2.attn.add_q_proj", "transformer_blocks.2.attn.norm_added_q"),
    ),
    "flux": Family(
        tiny_flow.save_flux,
        library.FluxPipeline, "transformer", "transformer_blocks.0.attn.to_q", "FlowMatchEulerDiscreteScheduler",
        latents="[1, 4096, 16]", guided={"true_cfg_scale": 3.0, "negative_prompt": "blue"},
    ),
    "z_image": Family(
        tiny_z_image.save_z_image,
        library.ZImagePipeline, "transformer", "layers.0.attention.to_q", "FlowMatchEulerDiscreteScheduler",
        latents="[1, 4, 128, 128]", unguided=0.0,
    ),
    "qwen_image": Family(
        lambda folder: tiny_qwen_image.save_qwen_image(folder, terminal=None),
        library.QwenImagePipeline, "transformer", "transformer_blocks.0.attn.to_q", "FlowMatchEulerDiscreteScheduler",
        latents="[1, 4096, 16]", guided={"negative_prompt": "blue"},
        unread=tuple(
            f"transformer_blocks.1.{name}"
            for name in ("attn.add_q_proj", "attn.norm_added_q", "attn.to_add_out", "txt_mlp")
        ),
    ),
    "wan": Family(
        tiny_video.save_wan,
        library.WanPipeline, "transformer", "blocks.0.attn1.to_q", "FlowMatchEulerDiscreteScheduler",
        latents="[1, 4, 21, 60, 104]", length={**BRIEF, "num_frames": 5}, **VIDEO,
    ),
    "ltx": Family(
        lambda folder: tiny_ltx_video.save_ltx(folder, "0.9.5"),
        library.LTXPipeline, "transformer", "transformer_blocks.0.attn1.to_q", "FlowMatchEulerDiscreteScheduler",
        latents="[1, 7392, 8]", length={**BRIEF, "num_frames": 9}, side=32, indices=(0, 1), partly=False,
        workflows=("text2video", "image2video"), per_prompt="num_videos_per_prompt", file="cat",
    ),
    "helios": Family(
        save_helios, library.HeliosPipeline, "transformer", "blocks.0.attn1.to_q", None, indices=(0, 1, 0, 1),
        step="chunks.001.denoise.001.step", first="chunks.001.latents", **LONG,
    ),
    "pyramid": Family(
        save_pyramid, library.HeliosPyramidPipeline, "transformer", "blocks.0.attn1.to_q", None, side=32, stages=2,
        indices=(0, 1, 0) * 2, step="chunks.001.denoise.001.denoise.000.step", first="chunks.001.shrink", **LONG,
    ),
}  # fmt: skip


SLOW = ("xl", "pyramid")  # variants of a family that is there already


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in FAMILIES]
)
def family(request):
    return FAMILIES[request.param]


@pytest.fixture(scope="module")
def home(family, tmp_path_factory):
    return family.save(tmp_path_factory.mktemp("model"))


@pytest.fixture
def pipe(family, home):
    made = library.DiffusionPipeline.from_pretrained(home)
    assert type(made) is family.kind
    made.set_progress_bar_config(disable=True)
    return made


def picture(side=16):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side, 3), dtype=np.uint8))


STARTS = ("text", "start")


def drawing_noise(pipe, family):
    """The pipeline with a scheduler that draws noise at each step."""
    if family.scheduler is None:
        return pipe
    more = {"stochastic_sampling": True} if "Flow" in family.scheduler else {}
    pipe.scheduler = getattr(library, family.scheduler).from_config(pipe.scheduler.config, **more)
    return pipe


@pytest.mark.parametrize("workflow", STARTS)
def test_picture_k_of_a_batch_is_the_picture_of_its_seed_alone(pipe, family, workflow):
    arguments = family.arguments(workflow)
    drawing_noise(pipe, family)
    batch = pipe(**arguments, **{family.per_prompt: 3}, seed=10)
    assert batch.manifest["workflow"] == family.workflows[STARTS.index(workflow)]
    for k in (0, 2):
        assert_close(batch[0][k : k + 1], pipe(**arguments, seed=10 + k)[0], 1e-5, f"sample {k}")
    assert not torch.equal(batch[0][0], batch[0][1])


def test_threads_are_bit_equal_to_runs_in_sequence(pipe, family):
    drawing_noise(pipe, family)

    def run(k):
        more = {**family.steps(3 + k), "guidance_scale": 2.0 + k, "seed": k}
        return pipe(**{**family.latent, **more, "prompt": f"cat {k}"})[0]

    wanted, results = [run(k) for k in range(3)], [None] * 3
    threads = [threading.Thread(target=lambda k=k: results.__setitem__(k, run(k))) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(3):
        assert torch.equal(results[k], wanted[k]), f"thread {k}"


@pytest.mark.parametrize("workflow", STARTS)
def test_every_boundary_is_a_checkpoint(pipe, family, workflow):
    arguments = {**family.arguments(workflow), "seed": 5}
    wanted = pipe(**arguments)[0]
    for name in ("text_encoding", "preloop", "after_step_1", family.step, "post_loop", family.first, "decode"):
        saved = Checkpoint(save=True)
        pipe(**arguments, checkpoints={name: saved})
        again = Checkpoint(load=True, data=saved.data, components=saved.components)
        assert torch.equal(pipe(**arguments, checkpoints={name: again})[0], wanted), name
    stopped = Checkpoint(save=True, stop=True)
    assert pipe(**arguments, checkpoints={"preloop": stopped}).stopped_at == "preloop"
    partial = {name: value for name, value in stopped.data.items() if name != family.needed}
    with pytest.raises(InjectionError, match=family.needed):
        pipe(**arguments, checkpoints={"preloop": Checkpoint(load=True, data=partial)})


def test_interrupt_stops_within_a_step_and_leaves_the_pipeline_usable(pipe, family):
    seen = []

    def callback(pipe, step, timestep, values):
        seen.append(step)
        if step == 1:
            thread = threading.Thread(target=pipe.interrupt)
            thread.start()
            thread.join()

    with pytest.raises(InterruptedRun):
        pipe(**{**family.small, **family.steps(20)}, callback_on_step_end=callback)
    assert seen == [0, 1]
    assert len(pipe(**family.small)[0]) == 1


def test_a_saved_pipeline_is_the_same_pipeline(pipe, family, tmp_path):
    pipe.save_pretrained(tmp_path)
    again = library.DiffusionPipeline.from_pretrained(tmp_path)
    named = json.loads((tmp_path / "model_index.json").read_text())[family.denoiser]
    kind = type(getattr(pipe, family.denoiser))
    assert named == ["diffusers" if kind.__module__.startswith("lockstep.") else kind.__module__, kind.__name__]
    assert torch.equal(again(**family.latent, seed=1)[0], pipe(**family.latent, seed=1)[0])


@pytest.mark.parametrize(
    "guider", ["AdaptiveProjectedGuidance", "ClassifierFreeZeroStarGuidance", "TangentialClassifierFreeGuidance"]
)
def test_other_guiders_take_the_place_of_the_first(pipe, family, guider):
    plain = pipe(**family.latent, seed=1)[0]
    pipe.guider = getattr(library, guider)()
    assert not torch.allclose(pipe(**family.latent, seed=1)[0], plain)


def test_guidance_in_one_batch_or_one_by_one(pipe, family):
    guided = {**family.latent, **family.guided, "seed": 1}
    together = pipe(**guided)
    assert together.state.negative_prompt_embeds is not None
    assert_close(pipe(**guided, batch_guidance=False)[0], together[0], 1e-5)
    off = pipe(**family.latent, seed=1, guidance_scale=family.unguided)
    assert off.state.negative_prompt_embeds is None


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"promt": "x"}, UnknownNameError, ["did you mean 'prompt'"]),
        ({}, InputError, ["prompt"]),
        ({"prompt": "x", "STEPS": 0}, InputError, ["at least 1", "0"]),
        ({"prompt": "x", "strength": 0.5}, InputError, ["strength", "START"]),
        ({"prompt": ["x", "y"], "negative_prompt": ["z"]}, InputError, ["2", "1"]),
        ({"prompt": "x", "START": 1, "strength": 0.0}, InputError, ["strength", "no step"]),
        ({"prompt": "x", "latents": torch.zeros(1, 4, 3, 3)}, InputError, ["LATENTS", "[1, 4, 3, 3]"]),
        ({"prompt": "x", "START": 2}, InputError, ["'START' has 2", "1 samples"]),
    ],
)
def test_mistakes_are_named_before_any_model_runs(pipe, family, arguments, error, words):
    for name, taken in (("strength", family.partly), ("latents", family.latents)):
        if name in arguments and not taken:
            error, words = UnknownNameError, [f"{name!r}"]
    if "STEPS" in arguments:
        arguments = {**arguments, **family.steps(arguments["STEPS"])}
        del arguments["STEPS"]
    words = [word.replace("LATENTS", family.latents).replace("START", family.begins) for word in words]
    if "START" in arguments:
        count = arguments["START"]
        begun = {family.begins: family.start if count == 1 else [family.start] * count}
        arguments = {name: value for name, value in arguments.items() if name != "START"} | begun
    for name in pipe.model_names:
        getattr(pipe, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    with pytest.raises(error) as caught:
        pipe(**arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_planted_nan_is_found_at_its_block_and_step(pipe, family):
    with torch.no_grad():
        getattr(pipe, family.denoiser).get_submodule(family.layer).weight[0, 0] = float("nan")
    with pytest.raises(NonFiniteError) as caught:
        pipe(**family.small)
    assert "predict" in str(caught.value)
    assert "step 0" in str(caught.value)
    assert f"{family.denoiser}.{family.layer}.weight" in str(caught.value)


def test_nan_in_any_weight_of_the_denoiser_is_in_its_prediction(pipe, family):
    """Nothing on the way (a softmax, a norm, a kernel, a guider) makes numbers of it."""
    denoiser, calls = getattr(pipe, family.denoiser), []
    hook = denoiser.register_forward_pre_hook(lambda _, args, kwargs: calls.append((args, kwargs)), with_kwargs=True)
    pipe(**family.latent, seed=1)
    hook.remove()
    args, kwargs = calls[-1]

    def prediction():
        made = denoiser(*args, **kwargs)[0]
        return torch.stack(made) if isinstance(made, list) else made

    with torch.no_grad():
        assert prediction().isfinite().all()
        weights = [(n, weight) for n, weight in denoiser.named_parameters() if not n.startswith(family.unread)]
        for name, weight in weights[:: max(1, len(weights) // 60)]:
            kept = weight.clone()
            weight.fill_(torch.nan)
            assert prediction().isnan().any(), name
            weight.copy_(kept)


def test_nan_in_the_autoencoder_is_named(pipe, family):
    with torch.no_grad():
        next(pipe.vae.decoder.parameters()).fill_(torch.nan)
    for kind in ("pil", "np", "pt"):
        with pytest.raises(NonFiniteError):
            pipe(**{**family.small, **family.steps(1)}, output_type=kind)


def test_latents_load_no_autoencoder_and_ready_embeddings_no_text_encoder(pipe, family, home):
    lazy = library.DiffusionPipeline.from_pretrained(home, load=False)
    assert torch.equal(lazy(**family.latent, seed=1)[0], pipe(**family.latent, seed=1)[0])
    assert lazy.components["vae"] is None
    names = [pipe.face.renamed.get(param.name, param.name) for param in pipe.inputs]
    embeds = [name for name in names if name.endswith(("prompt_embeds", "prompt_embeds_mask"))]
    ready = pipe("a cat", output=embeds, **{name: family.length[name] for name in BRIEF if name in family.length})
    lazy = library.DiffusionPipeline.from_pretrained(home, load=False)
    made = lazy(**ready, **{name: value for name, value in family.latent.items() if name != "prompt"}, seed=1)[0]
    assert torch.equal(made, pipe(**family.latent, seed=1)[0])
    assert lazy.components["text_encoder"] is None


def lora_file(pipe, family, path):
    """A LoRA on one layer of the denoiser, by peft's names."""
    weight = getattr(pipe, family.denoiser).get_submodule(family.layer).weight
    draw = torch.Generator().manual_seed(0)
    parts = {"A": torch.randn(3, weight.shape[1], generator=draw), "B": torch.randn(len(weight), 3, generator=draw)}
    name = f"{family.denoiser}.{family.layer}"
    save_file({f"{name}.lora_{part}.weight": tensor for part, tensor in parts.items()}, path)
    return parts["B"] @ parts["A"]


def test_a_lora_is_added_and_taken_away(pipe, family, tmp_path):
    plain = pipe(**family.latent, seed=1)[0]
    layer = getattr(pipe, family.denoiser).get_submodule(family.layer)
    before = layer.weight.detach().clone()
    addition = lora_file(pipe, family, tmp_path / "style.safetensors")
    pipe.load_lora_weights(tmp_path / "style.safetensors", strength=0.5)
    assert_close(layer.weight, before + 0.5 * addition, 1e-6)
    assert not torch.equal(pipe(**family.latent, seed=1)[0], plain)
    pipe.unload_lora_weights()
    assert torch.equal(pipe(**family.latent, seed=1)[0], plain)


def options(settings):
    """Settings as a command line has them."""
    lines = {f"--{name.replace('_', '-')}": value for name, value in settings.items() if name != "prompt"}
    return [str(word) for name, value in lines.items() for word in (name, value)]


def save_start(family, folder):
    """What a run begins with, as a file."""
    if family.begins == "image":
        picture().save(folder / "start.png")
        return folder / "start.png"
    with library.media.writer(folder / "start", fps=8) as video:
        for frame in family.start:
            video.add(frame)
    return folder / "start"


def test_the_command_line_makes_replays_and_describes_it(pipe, family, home, lockstep, tmp_path):
    lora_file(pipe, family, tmp_path / "style.safetensors")
    begun = save_start(family, tmp_path)
    quick = ["-m", home, "--seed", "3"]
    settings = {**family.small, **family.steps(2)}
    length = options({name: value for name, value in settings.items() if name == "num_frames"})
    size = options({name: value for name, value in settings.items() if name != "num_frames"})
    started = [f"--{family.begins}", begun, *(["--strength", "0.8"] if family.partly else length)]
    for more in (length, [*length, "--lora", f"{tmp_path / 'style.safetensors'}:0.5"], started):
        code, _, err = lockstep("generate", "a cat", *quick, *size, "-o", family.file, "--overwrite", *more)
        assert code == 0, err
        code, out, err = lockstep("replay", family.file)
        assert code == 0, err
        assert "identical" in out
    code, out, _ = lockstep("schema", home, "--json")
    schema = json.loads(out)
    assert code == 0
    assert schema["pipeline"] == family.kind.__name__
    assert schema["workflows"][family.workflows[1]] == [family.begins]
    assert family.denoiser in schema["components"]
    assert not {"denoiser", "autoencoder"} & set(schema["components"])
    code, out, _ = lockstep("blocks", home)
    assert code == 0
    predict = [line for line in out.splitlines() if "-> noise_pred" in line]
    assert any(f"with {family.denoiser}, guider" in line or "controlnet" in line for line in predict)


def test_previews_and_events(pipe, family):
    events = list(pipe.stream(**family.small, seed=1, preview=True))
    steps = [event.index for event, after in pairwise(events) if event.kind == "step" and after.kind == "preview"]
    assert steps == [event.index for event in events if event.kind == "preview"] == list(family.indices)
    assert events[-1].kind == "output"
    assert len(events[-1].value[0]) == 1


def test_a_family_of_an_installed_package_is_found_by_its_name(tmp_path, monkeypatch):
    from lockstep.pipelines.finding import brought_class

    install_entry_point(tmp_path, monkeypatch, "NewPipeline", "pipelines.toy_family:ToyPipeline")
    assert brought_class("NewPipeline") is toy_family.ToyPipeline
    assert brought_class("NoPipeline") is None


def test_the_toy_family_is_small_and_knows_no_other_family():
    text = Path(toy_family.__file__).read_text()
    assert len(text.splitlines()) < 120
    assert "stable_diffusion" not in text

"""Runs on every rank: each case computes alone, then over the ranks, and says how far apart the two are."""

import hashlib
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

import torch
from torch.distributed.fsdp import fully_shard

import lockstep
from lockstep import kernels, parity
from lockstep.attention import SequenceParallel, attention_backend, dispatch_attention_fn
from lockstep.attention.parallel import shares
from lockstep.cli.app import run as run_command
from lockstep.errors import LockstepError
from lockstep.kit.testing.closeness import relative_l2
from lockstep.parallel import ParallelConfig, Parallelism
from lockstep.parallel.ranks import Ranks
from pipelines import tiny, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image

# what the ranks need, imported once before they part
PIPELINES = [
    lockstep.StableDiffusionPipeline,
    lockstep.FluxPipeline,
    lockstep.StableDiffusion3Pipeline,
    lockstep.WanPipeline,
    lockstep.ZImagePipeline,
    lockstep.QwenImagePipeline,
    lockstep.HeliosPipeline,
]
SHARDS = fully_shard
LATER = [  # what the library, torch or the command line imports when it is first wanted
    *["torch._dynamo", "torch._inductor.config", "rich.progress", "pydantic.types", "lockstep.cli.parity.compare"],
    *["lockstep.models.acceleration", "lockstep.models.driven", "lockstep.parity.recording", "lockstep.kernels.trial"],
]
MODULES = [importlib.import_module(name) for name in LATER]
FOLDER, RANK = Path(), 0  # set by `run`
TIMES = {"timeout_s": 60.0, "lost_after_s": 20.0}
CASES = {}
SD = {"prompt": "a photo of a cat", "num_inference_steps": 2, "seed": 1, "height": 16, "width": 16}
FLUX = {"prompt": "a photo of a cat", "num_inference_steps": 2, "seed": 1, "height": 24, "width": 40}
SMALL = {"num_inference_steps": 2, "seed": 1, "height": 24, "width": 40}
LONG_AND_SHORT = ["a photo of a cat, 3d style, on a blue background with a red house", "red dog"]
LONG_VIDEO = {
    "prompt": "a cat", "height": 16, "width": 48, "num_frames": 10, "num_latent_frames_per_chunk": 2,
    "history_sizes": [4, 2, 1], "max_sequence_length": 12, "num_inference_steps": 1, "seed": 1,
}  # fmt: skip
QWEN_SHAPES = [[(1, 3, 5), (1, 2, 3)]] * 2
VIDEO = {"prompt": "a cat", "height": 16, "width": 48, "num_frames": 5, "num_inference_steps": 2, "seed": 1}


def case(world):
    def keep(function):
        CASES.setdefault(world, []).append(function)
        return function

    return keep


def config(**degrees):
    return ParallelConfig(**degrees, **TIMES)


def apart(got, wanted):
    """How far a tensor is from what one process gave, and what it is, to be held against the other ranks'."""
    return {
        "error": relative_l2(got, wanted),
        "bitwise": torch.equal(got, wanted),
        "sha256": hashlib.sha256(got.float().contiguous().numpy().tobytes()).hexdigest(),
    }


def refused(function):
    """The error that a function ends with."""
    try:
        function()
    except LockstepError as problem:
        return {"type": type(problem).__name__, "message": str(problem)}
    return {"type": None, "message": ""}


# ---- one attention ----

SIZES = {  # batch, tokens, query heads, key heads
    "even": (2, 32, 4, 4),
    "uneven": (1, 37, 5, 5),
    "grouped": (1, 34, 8, 4),
    "few": (1, 3, 4, 4),
}


def tensors(kind):
    batch, tokens, heads, key_heads = SIZES[kind]
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(batch, tokens, many, 8, generator=generator) for many in (heads, key_heads, key_heads)]


def one_attention(ranks, kind, streams=None, **how):
    """An attention over all ranks against the same in one process; streams are the lengths of kinds of tokens."""
    whole = tensors(kind)
    grouped = {"enable_gqa": kind == "grouped"}
    wanted = dispatch_attention_fn(*whole, **how, **grouped)
    tokens, place = ranks.tokens, ranks.tokens.place
    totals = streams or [whole[0].shape[1]]
    lengths = tuple(shares(total, tokens.size) for total in totals)

    def own(tensor):
        parts = tensor.split(totals, dim=1)
        return torch.cat([part.split(list(of), dim=1)[place] for part, of in zip(parts, lengths, strict=True)], dim=1)

    told = None if streams is None else lambda: lengths
    parallel = SequenceParallel(tokens, ranks.ulysses, ranks.ring, told, guard=ranks.exchanging)
    got = dispatch_attention_fn(*map(own, whole), **how, **grouped, parallel_config=parallel)
    return {"error": relative_l2(got, own(wanted)), "bitwise": torch.equal(got, own(wanted))}


def attentions(**degrees):
    ranks = Ranks(config(**degrees))
    keys = torch.rand(1, 1, 1, 37, generator=torch.Generator().manual_seed(4)) > 0.4
    by_head = torch.randn(1, 5, 37, 37, generator=torch.Generator().manual_seed(5))
    by_head[..., 3, :20] = -torch.inf  # one query that sees nothing of the first rank's keys
    found = {
        "even": one_attention(ranks, "even"),
        "uneven": one_attention(ranks, "uneven"),
        "grouped": one_attention(ranks, "grouped"),
        "causal": one_attention(ranks, "uneven", is_causal=True),
        "mask of keys": one_attention(ranks, "uneven", attn_mask=keys),
        "mask of heads": one_attention(ranks, "uneven", attn_mask=by_head),
        "two streams": one_attention(ranks, "uneven", streams=[9, 28]),
        "a stream of one token": one_attention(ranks, "uneven", streams=[1, 36]),
        "scaled": one_attention(ranks, "even", scale=0.5),
        "fewer tokens than ranks": one_attention(ranks, "few"),
    }
    if ranks.ring.size > 1:
        with attention_backend("native_math"):
            found["by definition"] = one_attention(ranks, "uneven")
    return found


@case(2)
def ulysses_attention():
    return attentions(ulysses=2)


@case(2)
def ring_attention():
    return attentions(ring=2)


@case(4)
def ulysses_attention_of_four():
    return attentions(ulysses=4)


@case(4)
def ring_attention_of_four():
    return attentions(ring=4)


@case(4)
def ring_of_ulysses_attention():
    return attentions(ulysses=2, ring=2)


@case(2)
def attention_refusals():
    ranks = Ranks(config(ulysses=2))
    parallel = SequenceParallel(ranks.tokens, ranks.ulysses)
    ring = SequenceParallel(ranks.tokens, ring=ranks.tokens)
    query, key, value = tensors("even")
    return {
        "dropout": refused(lambda: dispatch_attention_fn(query, key, value, dropout_p=0.1, parallel_config=parallel)),
        "gradient": refused(
            lambda: dispatch_attention_fn(query.requires_grad_(), key, value, parallel_config=parallel)
        ),
        "heads": refused(
            lambda: dispatch_attention_fn(
                *(one.detach()[:, :, :1] for one in (query, key, value)), parallel_config=parallel
            )
        ),
        "mask": refused(
            lambda: dispatch_attention_fn(
                query.detach(), key, value, attn_mask=torch.ones(5, 5).bool(), parallel_config=parallel
            )
        ),
        "backend": refused(
            lambda: dispatch_attention_fn(query.detach(), key, value, backend="chunked", parallel_config=ring)
        ),
    }


# ---- pipelines ----


def pipeline(name, **parts):
    pipe = lockstep.DiffusionPipeline.from_pretrained(FOLDER / name, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def made(pipe, call, **more):
    with torch.no_grad():
        return pipe(**{"output_type": "latent", **call, **more})[0]


ALONE = {}  # what a pipeline gave by itself, computed once for all ways of spreading it


def alone(pipe, call, **more):
    of = (id(pipe), repr(pipe.guider), repr(call), repr(more))
    if of not in ALONE:
        ALONE[of] = made(pipe, call, **more), pipe  # which is held, for its number to be its own
    return ALONE[of][0]


def compared(pipe, call, parallel, *, again=False, **more):
    """A call alone and over the ranks."""
    wanted = alone(pipe, call, **more)
    pipe.enable_parallelism(parallel)
    got = made(pipe, call, **more)
    pipe.disable_parallelism()
    found = apart(got, wanted)
    return found | {"alone again": torch.equal(made(pipe, call, **more), wanted)} if again else found


@case(2)
def cfg_sd():
    pipe = pipeline("sd")
    found = {"batched": compared(pipe, SD, config(cfg=2), again=True)}
    found["one by one"] = compared(pipe, SD, config(cfg=2), batch_guidance=False)
    guiders = {
        "three branches": lockstep.SkipLayerGuidance(
            guidance_scale=5.0, skip_layer_config={"indices": [0], "fqn": "mid_block.attentions.0.transformer_blocks"},
            skip_layer_guidance_start=0.0, skip_layer_guidance_stop=0.9,
        ),
        "some steps": lockstep.ClassifierFreeGuidance(guidance_scale=5.0, start=0.5),
        "projected": lockstep.AdaptiveProjectedGuidance(guidance_scale=5.0),
    }  # fmt: skip
    for name, guider in guiders.items():
        pipe.guider = guider
        found[name] = compared(pipe, SD, config(cfg=2), batch_guidance=False)
    return found


@case(2)
def cfg_without_a_seed():
    pipe = pipeline("sd")
    pipe.enable_parallelism(config(cfg=2))
    result = pipe(**{**SD, "seed": None}, output_type="latent")
    return {"seed": result.manifest["seed"], "parallel": result.manifest["parallel"]}


@case(2)
def tokens_flux():
    pipe = pipeline("flux")
    found = {"ulysses": compared(pipe, FLUX, config(ulysses=2), again=True, max_sequence_length=13)}
    found["ring"] = compared(pipe, FLUX, config(ring=2), max_sequence_length=13)
    found["one text token"] = compared(pipe, FLUX, config(ulysses=2), max_sequence_length=1)
    if kernels.why_not() is None:
        pipe.accelerate()
        found["accelerated"] = compared(pipe, FLUX, config(ulysses=2), max_sequence_length=13)
    return found


@case(2)
def tokens_sd3():
    pipe = pipeline("sd3")
    call = {**FLUX, "max_sequence_length": 13, "guidance_scale": 4.0}
    return {name: compared(pipe, call, config(**{name: 2})) for name in ("ulysses", "ring")}


@case(2)
def tokens_wan():
    pipe = pipeline("wan")
    call = {**VIDEO, "max_sequence_length": 11}
    return {name: compared(pipe, call, config(**{name: 2})) for name in ("ulysses", "ring", "cfg")}


@case(2)
def tokens_wan_by_time():
    """A time for each token, which is shared out with them."""
    return {"ulysses": compared(pipeline("wan 5B"), {**VIDEO, "height": 32}, config(ulysses=2), max_sequence_length=11)}


@case(2)
def tokens_z_image():
    """Two texts of different lengths: the shorter sequence has zeros behind it, which a mask leaves out."""
    pipe = pipeline("z image")
    call = {**SMALL, "prompt": LONG_AND_SHORT, "guidance_scale": 3.0}
    return {name: compared(pipe, call, config(**{name: 2})) for name in ("ulysses", "ring")}


@case(2)
def tokens_qwen_image():
    """Two texts of different lengths, of which a mask says what counts."""
    pipe = pipeline("qwen image")
    call = {**SMALL, "prompt": LONG_AND_SHORT, "negative_prompt": ["red", "a blue house"]}
    return {name: compared(pipe, call, config(**{name: 2})) for name in ("ulysses", "ring", "cfg")}


@case(2)
def tokens_helios():
    """Two chunks: the second sees the first as its past, whose tokens are shared out beside those of now."""
    pipe = pipeline("helios")
    return {name: compared(pipe, LONG_VIDEO, config(**{name: 2})) for name in ("ulysses", "ring")}


@case(2)
def weights():
    pipe = pipeline("flux")
    wanted = made(pipe, FLUX, max_sequence_length=13)
    models = [pipe.transformer, pipe.text_encoder, pipe.text_encoder_2]
    whole = [sum(p.numel() for p in model.parameters()) for model in models]
    pipe.enable_parallelism(config(fsdp=2))
    own = [sum(p.to_local().numel() for p in model.parameters()) for model in models]
    result = pipe(**FLUX, max_sequence_length=13, output_type="latent")
    return {
        "fsdp": apart(result.images, wanted),
        "shares": [part / all for part, all in zip(own, whole, strict=True)],
        "hash": result.manifest["weights"]["transformer"],
        "saved": refused(lambda: pipe.save_pretrained(FOLDER / f"never-{RANK}")),
        "ended": refused(pipe.disable_parallelism),
    }


@case(2)
def weights_of_several_dtypes():
    pipe = pipeline("wan", dtype=torch.bfloat16)
    call = {**VIDEO, "max_sequence_length": 11, "batch_guidance": False}
    wanted = made(pipe, call)
    pipe.enable_parallelism(config(fsdp=2, cfg=2))
    dtypes = {str(p.dtype) for p in pipe.transformer.parameters()}
    return {"fsdp": apart(made(pipe, call), wanted), "dtypes": sorted(dtypes)}


@case(2)
def tiles():
    found = {}
    for name, call in (("sd", {**SD, "height": 64, "width": 48}), ("wan", VIDEO)):
        pipe = pipeline(name)
        how = {"tile_sample_min_size": 32} if name == "sd" else {
            "tile_sample_min_height": 16, "tile_sample_min_width": 32, "tile_sample_stride_width": 16,
            "tile_sample_stride_height": 16,
        }  # fmt: skip
        pipe.vae.enable_tiling(**how)
        if name == "wan":
            call = {**call, "max_sequence_length": 11}
        found[name] = compared(pipe, call, config(cfg=2), output_type="pt", batch_guidance=False)
    return found


@case(2)
def disagreements():
    """Each of these is refused on every rank, before anything is computed."""
    found = {}
    pipe = pipeline("sd")
    other = config(cfg=2) if RANK == 0 else ParallelConfig(cfg=2, timeout_s=60.0, lost_after_s=21.0)
    found["config"] = refused(lambda: pipe.enable_parallelism(other))
    changed = pipeline("sd")
    if RANK == 1:
        with torch.no_grad():
            changed.unet.conv_in.weight[0, 0, 0, 0] += 1e-3
    found["weights"] = refused(lambda: changed.enable_parallelism(config(cfg=2)))
    pipe.enable_parallelism(config(cfg=2))
    found["prompt"] = refused(lambda: pipe(**{**SD, "prompt": f"a cat of rank {RANK}"}, output_type="latent"))
    found["seed"] = refused(lambda: pipe(**{**SD, "seed": RANK}, output_type="latent"))
    pipe.guider = lockstep.ClassifierFreeGuidance(guidance_scale=5.0 + RANK)
    found["guider"] = refused(lambda: pipe(**SD, output_type="latent"))
    pipe.guider = lockstep.ClassifierFreeGuidance(guidance_scale=5.0)
    embeds = torch.randn(1, 77, 16, generator=torch.Generator().manual_seed(RANK))

    def otherwise(pipe, step, timestep, values):
        return {"latents": values["latents"] + RANK} if step == 1 else {}

    found["result"] = refused(lambda: pipe(**SD, output_type="latent", callback_on_step_end=otherwise))
    given = {"prompt_embeds": embeds, "negative_prompt_embeds": embeds, "num_inference_steps": 1, "seed": 1}
    found["tensor"] = refused(lambda: pipe(**given, output_type="latent"))
    found["after all of it"] = {"done": bool(made(pipe, SD).isfinite().all())}
    return found


@case(2)
def a_rank_that_does_not_come():
    ranks = Ranks(ParallelConfig(cfg=2, timeout_s=2.0, lost_after_s=20.0))
    if RANK == 1:
        return {}
    one = torch.zeros(1)
    return refused(lambda: ranks.gathered("what rank 1 leaves out", one, ranks.branches, (1, 1), 0))


@case(2)
def refusals():
    pipe = pipeline("sd")
    flux = pipeline("flux")
    blurred = pipeline("sd3", guider=lockstep.SmoothedEnergyGuidance(
        guidance_scale=4.0, seg_guidance_config={"indices": [0], "fqn": "transformer_blocks"},
        seg_guidance_start=0.0, seg_guidance_stop=1.0,
    ))  # fmt: skip
    blurred.enable_parallelism(config(ulysses=2))
    found = {
        "unet": refused(lambda: pipe.enable_parallelism(config(ulysses=2))),
        "product": refused(lambda: pipe.enable_parallelism(config(cfg=3))),
        "fsdp": refused(lambda: pipe.enable_parallelism(config(cfg=2, fsdp=3))),
        "both": refused(lambda: pipe.enable_parallelism(config(cfg=2), ring=2)),
        "blur": refused(lambda: made(blurred, {**FLUX, "max_sequence_length": 13})),
    }
    flux.enable_parallelism(config(cfg=2))
    found["one branch"] = refused(lambda: made(flux, FLUX, max_sequence_length=13))
    true_guidance = {"true_cfg_scale": 2.0, "negative_prompt": "red"}
    found["one branch"]["guided"] = bool(made(flux, FLUX, max_sequence_length=13, **true_guidance).isfinite().all())
    flux.disable_parallelism()
    flux.enable_parallelism(config(ulysses=2))
    found["twice"] = refused(lambda: flux.enable_parallelism(config(ulysses=2)))
    block = flux.transformer.single_transformer_blocks[0]
    flux.disable_parallelism()
    block.attn.set_processor(lambda attn, hidden, *args, **kwargs: hidden)
    found["processor"] = refused(lambda: flux.enable_parallelism(config(ulysses=2)))
    return found


@case(4)
def wan_of_four():
    pipe = pipeline("wan")
    call = {**VIDEO, "max_sequence_length": 11}
    return {
        "cfg and ulysses": compared(pipe, call, config(cfg=2, ulysses=2)),
        "cfg and ring": compared(pipe, call, config(cfg=2, ring=2)),
        "ring of ulysses": compared(pipe, call, config(ulysses=2, ring=2)),
    }


@case(4)
def flux_of_four():
    pipe = pipeline("flux")
    found = {"ring of ulysses": compared(pipe, FLUX, config(ulysses=2, ring=2), max_sequence_length=13)}
    found["ring"] = compared(pipe, FLUX, config(ring=4), max_sequence_length=13)
    return found


@case(4)
def sd_of_four():
    """More ranks than branches: two of them repeat what others compute."""
    return {"cfg": compared(pipeline("sd"), SD, config(cfg=4), batch_guidance=False)}


@case(4)
def weights_of_four():
    pipe = pipeline("wan")
    call = {**VIDEO, "max_sequence_length": 11}
    wanted = made(pipe, call)
    pipe.enable_parallelism(config(cfg=2, ulysses=2, fsdp=4))
    return {"all at once": apart(made(pipe, call), wanted)}


def alone_and_spread(model, given, **degrees):
    """A model without a pipeline."""
    with torch.no_grad():
        wanted = model(**given).sample
        spread = Parallelism(config(**degrees), {"transformer": model})
        got = model(**given).sample
        spread.end()
    got, wanted = (torch.cat([p.flatten() for p in one]) if isinstance(one, list) else one for one in (got, wanted))
    return apart(got, wanted)


@case(4)
def bare_models():
    """What a model reads besides: residuals of ControlNets, a mask of the whole sequence, tokens of an image."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator)

    flux = lockstep.FluxTransformer2DModel.from_pretrained(FOLDER / "flux", subfolder="transformer")
    ids = torch.cartesian_prod(torch.arange(1.0), torch.arange(3.0), torch.arange(5.0))
    given = {
        "hidden_states": random(2, 15, 16), "encoder_hidden_states": random(2, 7, 24), "timestep": torch.ones(2),
        "pooled_projections": random(2, 16), "img_ids": ids, "txt_ids": torch.zeros(7, 3), "guidance": torch.ones(2),
        "controlnet_block_samples": [random(2, 15, 24)], "controlnet_single_block_samples": [random(2, 15, 24)],
        "joint_attention_kwargs": {"attention_mask": random(2, 1, 1, 22) > -0.5},
    }  # fmt: skip
    found = {"flux": alone_and_spread(flux, given, ring=4)}
    found["flux, ring of ulysses"] = alone_and_spread(flux, given, ulysses=2, ring=2)

    sd3 = lockstep.SD3Transformer2DModel.from_pretrained(FOLDER / "sd3", subfolder="transformer")
    given = {
        "hidden_states": random(1, 16, 6, 10), "encoder_hidden_states": random(1, 7, 40), "timestep": torch.ones(1),
        "pooled_projections": random(1, 32), "block_controlnet_hidden_states": [random(1, 15, 16)] * 2,
    }  # fmt: skip
    found["sd3"] = alone_and_spread(sd3, given, ring=4)

    wan = tiny_video.parts("image")["transformer"]
    given = {
        "hidden_states": random(1, 12, 3, 2, 6), "encoder_hidden_states": random(1, 512, 16), "timestep": torch.ones(1),
        "encoder_hidden_states_image": random(1, 5, 16),
    }  # fmt: skip
    found["wan with an image"] = alone_and_spread(wan, given, ulysses=2, ring=2)

    qwen = tiny.randomize(
        lockstep.QwenImageTransformer2DModel(**{**tiny_qwen_image.TRANSFORMER, "zero_cond_t": True}), 2
    )
    given = {
        "hidden_states": random(2, 21, 16), "encoder_hidden_states": random(2, 7, 16), "timestep": torch.ones(2),
        "encoder_hidden_states_mask": torch.tensor([[1] * 7, [1] * 4 + [0] * 3]), "img_shapes": QWEN_SHAPES,
        "controlnet_block_samples": [random(2, 21, 24)],
    }  # fmt: skip
    found["qwen, editing"] = alone_and_spread(qwen, given, ulysses=2, ring=2)

    z = tiny.randomize(lockstep.ZImageTransformer2DModel(**tiny_z_image.TRANSFORMER), 2)
    given = {
        "x": [random(4, 1, 6, 10), random(4, 1, 20, 14)], "cap_feats": [random(70, 16), random(9, 16)],
        "t": torch.ones(2) / 2,
    }  # fmt: skip
    found["z image, pictures of two sizes"] = alone_and_spread(z, given, ulysses=2, ring=2)

    amplified = {"rope_dim": (4, 4, 4), "is_amplify_history": True, "guidance_cross_attn": False}
    helios = tiny.randomize(lockstep.HeliosTransformer3DModel(**{**tiny_video.TRANSFORMER, **amplified}), 2)
    channels = helios.config.in_channels
    given = {
        "hidden_states": random(1, channels, 3, 2, 6), "encoder_hidden_states": random(1, 7, helios.config.text_dim),
        "timestep": torch.ones(1), "indices_hidden_states": torch.arange(3, 6)[None],
        "latents_history_short": random(1, channels, 3, 2, 6), "indices_latents_history_short": torch.arange(3)[None],
    }  # fmt: skip
    found["helios, keys of the past amplified"] = alone_and_spread(helios, given, ulysses=2, ring=2)
    first = {name: one for name, one in given.items() if "history" not in name}
    found["helios, no past"] = alone_and_spread(helios, first, ring=4)

    ltx = tiny_ltx_video.ltx_parts()["transformer"]
    channels = ltx.config.in_channels
    given = {
        "hidden_states": random(2, 15, channels), "encoder_hidden_states": random(2, 7, ltx.config.caption_channels),
        "timestep": random(2, 15).abs(), "encoder_attention_mask": torch.tensor([[1] * 7, [1] * 4 + [0] * 3]),
        "num_frames": 1, "height": 3, "width": 5,
    }  # fmt: skip
    found["ltx"] = alone_and_spread(ltx, given, ulysses=2, ring=2)
    return found


def recorded(name, call, parallel, plant=None, **more):
    """One process (where nothing is planted) and the ranks, each watched: their traces are compared by the test."""
    pipe = pipeline(name)
    if RANK == 0 and plant is None:
        with parity.record(pipe, FOLDER / f"{name}.trace", level="module", keep="full"):
            pipe(**call, **more)
    pipe.enable_parallelism(parallel)
    kind = name if plant is None else plant.__name__
    if plant is not None:
        plant(pipe)
    with parity.record(pipe, FOLDER / f"{kind}.rank{RANK}.trace", level="module", keep="full"):
        pipe(**call, **more)
    return {}


@case(2)
def traces():
    once = {**FLUX, "num_inference_steps": 1}
    recorded("flux", once, config(ulysses=2), output_type="latent", max_sequence_length=13)
    recorded("flux", once, config(ring=2), plant=another_bias, output_type="latent", max_sequence_length=13)
    return {}


def another_bias(pipe):
    """A fault in one block, on all ranks alike."""
    with torch.no_grad():
        pipe.transformer.single_transformer_blocks[0].attn.to_k.bias[3] += 0.5


@case(2)
def commands():
    """`lockstep parity record` on ranks, and in one process."""
    how = ["--steps", "1", "--height", "16", "--width", "16", "-o", FOLDER / "cli.trace"]
    found = {"ranks": left_with("parity", "record", FOLDER / "sd", "--parallel", "cfg=2", *how)}
    if RANK == 0:
        found["alone"] = left_with("parity", "record", FOLDER / "sd", "--one-by-one", "--level", "module", *how)
    return found


def left_with(*words):
    """The exit code of a command."""
    try:
        run_command([str(word) for word in words])
    except SystemExit as leave:
        return leave.code
    return None


@case(4)
def traces_of_four():
    once = {**VIDEO, "max_sequence_length": 11, "num_inference_steps": 1}
    return recorded("wan", once, config(cfg=2, ring=2), output_type="latent", batch_guidance=False)


def run(folder, group):
    """Every case for the number of ranks that the environment says; what each gave goes into a file of this rank."""
    global FOLDER, RANK
    FOLDER, RANK, world = folder, int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found, seconds = {}, {}
    for function in CASES[world]:
        started = time.process_time()
        try:
            found[function.__name__] = function()
        except Exception:
            found[function.__name__] = {"raised": traceback.format_exc()}
        seconds[function.__name__] = round(time.process_time() - started, 2)
    print(seconds, file=sys.stderr)
    (folder / f"{group}-{RANK}.json").write_text(json.dumps(found))

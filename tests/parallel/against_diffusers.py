"""Runs on every rank: a tiny FLUX by Lockstep and by diffusers over two ranks, on the same weights and inputs."""

import json
import os

import diffusers
import torch

import lockstep
from lockstep.kit.testing.closeness import relative_l2
from lockstep.parallel import ParallelConfig, Parallelism


def inputs(picture, text):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator)

    ids = torch.cartesian_prod(torch.arange(1.0), torch.arange(1.0), torch.arange(float(picture)))
    return {
        "hidden_states": random(1, picture, 16), "encoder_hidden_states": random(1, text, 24), "img_ids": ids,
        "pooled_projections": random(1, 16), "txt_ids": torch.zeros(text, 3), "guidance": torch.ones(1),
        "timestep": torch.ones(1),
    }  # fmt: skip


def theirs(folder, given, **degrees):
    """Diffusers over the ranks, or the kind of error that it ends with."""
    model = diffusers.FluxTransformer2DModel.from_pretrained(folder / "flux", subfolder="transformer")
    model.enable_parallelism(config=diffusers.ContextParallelConfig(**degrees))
    try:
        return model(**given, return_dict=False)[0], None
    except Exception as problem:
        return None, f"{type(problem).__name__}: {problem}"


def ours(folder, given, **degrees):
    model = lockstep.FluxTransformer2DModel.from_pretrained(folder / "flux", subfolder="transformer")
    alone = model(**given).sample
    spread = Parallelism(ParallelConfig(**degrees, timeout_s=60.0), {"transformer": model})
    got = model(**given).sample
    spread.end()
    return got, relative_l2(got, alone)


@torch.no_grad()
def run(folder, group):
    even, odd = inputs(16, 8), inputs(15, 7)
    found = {}
    mine, found["ulysses to one process"] = ours(folder, even, ulysses=2)
    _, found["odd lengths to one process"] = ours(folder, odd, ulysses=2)
    _, found["ring to one process"] = ours(folder, odd, ring=2)
    torch.accelerator.device_count = lambda: 1  # by which diffusers divides; there is none
    other, found["their ulysses"] = theirs(folder, even, ulysses_degree=2)
    found["to theirs"] = None if other is None else relative_l2(mine, other)
    found["their odd lengths"] = theirs(folder, odd, ulysses_degree=2)[1]
    found["their ring"] = theirs(folder, even, ring_degree=2)[1]
    (folder / f"{group}-{os.environ['RANK']}.json").write_text(json.dumps(found))

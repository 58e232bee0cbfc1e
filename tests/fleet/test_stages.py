"""A row in three parts, with nothing between them but what can be sent: the same file as in one place."""

import functools
import pickle

import numpy as np
import pytest
import torch

from lockstep.blocks import ModularPipelineBlocks
from lockstep.cli.batch_rows import row_inputs
from lockstep.cli.pipelines import loaded
from lockstep.errors import UnsupportedError
from lockstep.fleet.making import Maker, Setup
from lockstep.fleet.plan import Plan
from lockstep.fleet.ray_stages import joined
from lockstep.fleet.stages import Handed, Stage, cut, packed, unpacked
from lockstep.pipelines.pipeline import DiffusionPipeline
from pipelines import tiny

SMALL = {"height": "32", "width": "32", "num_inference_steps": "2"}
ROWS = [
    {"prompt": "a cat", "seed": 1, **SMALL},
    {"prompt": "a dog", "negative_prompt": "red", "guidance_scale": "3", "seed": 2, **SMALL},
    {"prompt": "a house", "eta": "1.0", "seed": 3, **SMALL},  # draws noise at every step
]
MODELS = {0: {"text_encoder"}, 1: {"unet"}, 2: {"vae"}}


def setup_of(folder, target, load=True):
    options = {"dtype": "float32", "device": None, "workflow": None, "scheduler": None, "guider": None}
    trial = dict(enumerate(ROWS))
    return Setup(functools.partial(loaded, str(folder), load=load, **options), row_inputs, target, 1, trial)


@pytest.mark.parametrize("kind", ["sd1", "xl"])
def test_three_stages_make_the_file_of_one(kind, folder, tmp_path):
    model = folder if kind == "sd1" else tiny.save_folder(tmp_path / "model", kind)
    whole = Maker(setup_of(model, tmp_path / "whole"))
    stages = [Stage(setup_of(model, tmp_path / "stages", load=False), place) for place in range(3)]
    for stage in stages:
        stage.check()
    shared = functools.reduce(joined, [stage.shared() for stage in stages])
    assert shared == whole.shared()
    for place, names in MODELS.items():
        held = {n for n, part in stages[place].pipe.all_components.items() if isinstance(part, torch.nn.Module)}
        assert {name.removesuffix("_2") for name in held} == names, "a stage has its own models alone"
    rows = [row for row in ROWS if kind == "sd1" or "eta" not in row]
    for row in Plan.of(shared, rows, rows, ".png").rows:
        wanted = whole.make(row).result()
        handed = Handed(row)
        for stage in stages:
            handed, output = stage.run(pickle.loads(pickle.dumps(handed)))
        told = stages[-1].finish(row, output, handed.seconds).result()
        assert told["pixels"] == wanted["pixels"]
        one, other = ((tmp_path / place / row.file).read_bytes() for place in ("whole", "stages"))
        assert one == other


def test_values_travel_as_arrays_and_come_out_as_they_went_in():
    torch.manual_seed(5)
    noise = torch.Generator().manual_seed(7)
    torch.randn(3, generator=noise)
    values = {
        "latents": torch.randn(2, 3), "half": torch.randn(4).bfloat16(), "steps": [torch.arange(3), 5],
        "generator": noise, "words": {"a": (torch.ones(2), "b")},
    }  # fmt: skip
    sent = pickle.loads(pickle.dumps(packed(values)))
    sent["latents"].data.flags.writeable = False  # as it lies in a shared store
    got = unpacked(sent, torch.device("cpu"))
    assert torch.equal(got["latents"], values["latents"])
    got["latents"].zero_()  # a stage may write to what it has
    assert got["half"].dtype == torch.bfloat16
    assert torch.equal(got["half"], values["half"])
    assert torch.equal(got["steps"][0], torch.arange(3))
    assert isinstance(got["words"]["a"], tuple)
    assert isinstance(sent["latents"].data, np.ndarray)
    assert torch.equal(torch.randn(4, generator=got["generator"]), torch.randn(4, generator=noise))


class Draw(ModularPipelineBlocks):
    """All in one."""

    inputs = ["prompt"]
    outputs = ["images"]

    def __call__(self, components, state):
        state.images = []


def test_what_has_no_stages_is_refused(folder):
    pipe = DiffusionPipeline.from_pretrained(folder, load=False)
    assert [part[-1] for part in cut(pipe, {"prompt": "a cat"})][:2] == ["text_encoder", "denoise"]
    with pytest.raises(UnsupportedError, match="cannot be run in stages"):
        cut(Draw().init_pipeline(), {"prompt": "a cat"})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--stages", "1,2,1"), "--stages are actors of Ray"),
        (("--stages", "1,2", "--backend", "ray"), "--stages wants three numbers"),
        (("--stages", "1,2,x", "--backend", "ray"), "whole numbers above 0"),
        (("--places", "texts=small"), "give both"),
        (("--stages", "1,1,1", "--places", "text=small"), "did you mean 'texts'"),
    ],
)
def test_stages_that_are_asked_for_wrongly(lockstep, folder, tmp_path, options, told):
    (tmp_path / "rows.txt").write_text("a cat\n")
    code, _, err = lockstep("batch", tmp_path / "rows.txt", "-o", tmp_path / "out", "-m", folder, *options)
    assert (code, told in err) == (2, True), err

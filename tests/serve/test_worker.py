"""The worker's hands without a server: models within their memory, and batches in which one job is bad."""

import numpy as np
import pytest
import torch
from PIL import Image

from lockstep.schedulers.names import find_scheduler
from lockstep.serve.worker.batch import Batch, Task, partial_steps
from lockstep.serve.worker.edits import edited
from lockstep.serve.worker.models import Models, held_bytes, weight_bytes

EMOJI = "lockstep/emoji"


def models(folder, budget=2**40):
    return Models({"emoji": EMOJI, "tiny": str(folder)}, {}, {}, budget, None, "float32")


def task(job, place, **more):
    inputs = {"prompt": "a dog", "num_inference_steps": 2, **more}
    request = {
        "model": "emoji",
        "inputs": inputs,
        "count": 1,
        "seed": 3,
        "steps": 2,
        "count_input": "num_images_per_prompt",
    }
    return Task(job, 1, request, place / job)


def ran(tasks, held, folder, most_rows=4):
    told = []
    Batch(tasks, held, folder, told.append, most_rows).run()
    return [message for message in told if message["tell"] not in ("step", "preview")]


def test_the_longest_unused_model_goes_where_memory_is_short(folder):
    both = models(folder)
    both.pipeline("emoji"), both.pipeline("tiny")
    assert list(both.loaded()) == ["emoji", "tiny"]
    sizes = both.loaded()
    tight = models(folder, budget=max(sizes.values()))
    changes = []
    tight.changed = lambda: changes.append(dict(tight.loaded()))
    for name in ("emoji", "tiny", "emoji"):
        tight.pipeline(name)
        assert list(tight.loaded()) == [name]
        assert tight.loaded() == {name: sizes[name]}
    assert all(sum(change.values()) <= tight.budget for change in changes)


def test_what_the_files_weigh_bounds_what_a_model_takes(folder):
    held = models(folder)
    assert 0 < held_bytes(held.pipeline("tiny")) <= 1.1 * weight_bytes(str(folder))


def test_one_bad_job_does_not_take_its_neighbours_along(folder, tmp_path):
    tasks = [task("good", tmp_path), task("bad", tmp_path, image={"file": "gone.png"}), task("fine", tmp_path)]
    told = {message["job"]: message for message in ran(tasks, models(folder), tmp_path)}
    assert [told[job]["tell"] for job in ("good", "bad", "fine")] == ["done", "failed", "done"]
    assert told["good"]["result"]["batch"] == 1
    assert "gone.png" in told["bad"]["error"]["message"]


def test_a_cancelled_row_is_dropped_and_the_others_stay(folder, tmp_path):
    tasks = [task("stays", tmp_path), task("goes", tmp_path)]
    told = []
    batch = Batch(tasks, models(folder), tmp_path, told.append, 4)
    batch.cancel("goes")
    batch.run()
    ends = {message["job"]: message["tell"] for message in told if message["tell"] in ("done", "cancelled")}
    assert ends == {"stays": "done", "goes": "cancelled"}
    assert not (tmp_path / "goes").exists()


def test_a_job_of_many_pictures_runs_in_pieces(folder, tmp_path):
    many = task("many", tmp_path)
    many.request["count"] = 5
    (done,) = ran([many], models(folder), tmp_path, most_rows=2)
    assert [output["facts"]["seed"] for output in done["outputs"]] == [3, 4, 5, 6, 7]


def test_partial_pictures_come_evenly_and_before_the_end():
    assert partial_steps({"partials": 3, "steps": 20}) == {5, 10, 15}
    assert partial_steps({"partials": 0, "steps": 20}) == set()
    assert partial_steps({"partials": 3, "steps": 1}) == {1}


def test_edits_keep_shape_and_type():
    value = torch.arange(4.0).reshape(1, 4)
    assert edited("x", value, {"add": 1}).tolist() == [[1, 2, 3, 4]]
    assert edited("x", value, {"multiply": [[0, 1, 0, 1]]}).tolist() == [[0, 1, 0, 3]]
    assert edited("x", value, {"value": 7}).tolist() == [[7] * 4]
    noisy = edited("x", value, {"noise": {"seed": 1, "strength": 0.5}})
    assert torch.equal(noisy, edited("x", value, {"noise": {"seed": 1, "strength": 0.5}}))
    assert edited("n", 3, {"value": 4}) == 4
    for wrong in ({"add": [1, 2, 3]}, {"value": [[1], [2]]}, {"multiply": "x"}):
        with pytest.raises(ValueError, match="does not fit"):
            edited("x", value, wrong)
    with pytest.raises(ValueError, match="wants int"):
        edited("n", 3, {"value": "4"})


SETTINGS = [
    *({}, {"height": 96, "width": 160}, {"guidance_scale": 6.0}),
    *({"scheduler": name} for name in ("euler_a", "dpm++_2m_karras", "unipc", "lcm")),
    *({"guider": name} for name in ("AdaptiveProjectedGuidance", "TangentialClassifierFreeGuidance")),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_a_row_of_a_batch_is_what_it_is_alone(folder, tmp_path, setting):
    """Over samplers, guiders, sizes, and a prompt of more than one piece: at most 1 of 255 apart, in float32."""
    inputs = {name: value for name, value in setting.items() if name not in ("scheduler", "guider")}
    prompts = ["a red heart", "a dog", " ".join(["a house and a tree"] * 20)]
    parts = {}
    if "scheduler" in setting:
        kind, settings = find_scheduler(setting["scheduler"])
        parts["scheduler"] = {"class": kind.__name__, "settings": settings}
    if "guider" in setting:
        parts["guider"] = {"class": setting["guider"], "settings": {}}

    def tasks(where):
        made = [task(f"{where}{k}", tmp_path, **{**inputs, "prompt": prompt}) for k, prompt in enumerate(prompts)]
        for one in made:
            one.request |= parts
        return made

    held = models(folder)
    together = tasks("together")
    ran(together, held, tmp_path)
    for row, alone in enumerate(tasks("alone")):
        ran([alone], held, tmp_path)
        one, other = (np.asarray(Image.open(t.place / "0.png")).astype(int) for t in (together[row], alone))
        assert np.abs(one - other).max() <= 1

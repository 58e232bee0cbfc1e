"""The eighteen pitfalls, planted into a scaffolded family: each is caught by check, stages or an injection."""

import importlib
import re
from pathlib import Path

import pytest
import torch

from kit.plants import OTHER_WAYS, PLANTS
from kit.scaffold import edited, importable, written
from lockstep import Checkpoint, parity
from lockstep.errors import InjectionError
from lockstep.kit.checks import running
from lockstep.kit.checks.checklist import check_family
from lockstep.kit.checks.source import family_in
from lockstep.kit.pitfalls import PITFALLS, describe, pitfall_of_error
from lockstep.kit.results import save_result
from lockstep.kit.stages import StageSide, measured_floor, walk_stages

PAGE = Path(__file__).parents[2] / "docs" / "pitfalls.md"
CAUGHT = {}  # which -> (by what, where, how it is named)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    kinds = ("pipeline", "sunrise"), ("scheduler", "half_moon"), ("guider", "fading")
    home = written(tmp_path_factory.mktemp("planted") / "sunrise-models", *kinds)
    save_result(family_in("sunrise", home), "reference", "port", {"encode": "PASS"})
    return home


def sides():
    """Both sides of the family as its files are now."""
    names = ("reference_sunrise_pipeline", "port_sunrise_pipeline")
    return [StageSide(*importlib.import_module(name).build()) for name in names]


@pytest.fixture(scope="module")
def floor(home, tmp_path_factory):
    with importable(home):
        return measured_floor(sides()[0], tmp_path_factory.mktemp("floor"))


def by_check(plant, home):
    family = family_in(plant.family, home)
    found = [one for of_rule in check_family(family, run=False).values() for one in of_rule]
    found += running.blocks_read_what_they_declare(family) if plant.number == 8 else []
    named = [one for one in found if one.pitfall == plant.number]
    assert named, found
    return f"{named[0].path.name}:{named[0].line}"


def by_stages(plant, floor, folder):
    reference, port = sides()
    if plant.number == 17:
        for part in (reference.target.text_encoder, reference.target.transformer, reference.target.vae):
            part.to(torch.float16 if plant.way else torch.bfloat16)
    results = list(walk_stages(reference, port, folder, plant.stage, floor, plant.evaluations))
    (named,) = [one for one in results if one.pitfalls]
    assert named.stage == plant.stage
    assert named.pitfalls[0] == plant.number, (named.pitfalls, named.sentence())
    assert named.passed == (plant.number == 17)
    first = named.comparison.first if named.comparison is not None else None
    return f"{named.stage}: {first.key if first is not None else named.verdict}"


def by_injection(plant, home):
    """A test of one's own that injects the latents alone."""
    pipe, saved = importlib.import_module("port_sunrise_pipeline").pipeline(), Checkpoint(save=True, stop=True)
    call = {"prompt": "a cat", "height": 16, "width": 16, "num_inference_steps": 4, "output_type": "latent"}
    pipe(**call, checkpoints={"preloop": saved})
    part = Checkpoint(load=True, data={"latents": saved.data["latents"]})
    with pytest.raises(InjectionError) as refused:
        pipe(**call, checkpoints={"preloop": part})
    assert pitfall_of_error(refused.value) == plant.number
    return re.findall(r"consumes ('\w+')", str(refused.value))[0]


def by_trace(plant, folder):
    """One step given the values of a trace that holds the latents alone."""
    reference, port = sides()
    with parity.record(reference.target, folder / "ref.trace", keep={"*": "none", "@scheduler.step": "full"}):
        reference.call()
    with (
        pytest.raises(parity.TeacherForcingError) as refused,
        parity.inject(port.target, folder / "ref.trace", at="denoise:01"),
    ):
        port.call()
    assert pitfall_of_error(refused.value) == plant.number
    return str(refused.value)[:60]


WAYS = [
    pytest.param(plant, marks=pytest.mark.slow if plant.slow else (), id=plant.name) for plant in (*PLANTS, *OTHER_WAYS)
]


@pytest.mark.parametrize("plant", WAYS)
def test_a_planted_pitfall_is_caught_and_named(home, floor, tmp_path, plant):
    if plant.by == "parity":
        with importable(home):
            place = by_trace(plant, tmp_path) if plant.way else by_injection(plant, home)
    else:
        with edited(home.file(plant.part, plant.family), *plant.changes), importable(home):
            place = by_check(plant, home) if plant.by == "check" else by_stages(plant, floor, tmp_path)
    CAUGHT[plant.name] = (plant.by, place, describe(plant.number))


def test_without_a_plant_nothing_is_named(home, floor, tmp_path):
    with importable(home):
        assert [(one.verdict, one.pitfalls) for one in walk_stages(*sides(), tmp_path, floor=floor)] == [
            ("PASS", [])
        ] * 3
        for name in ("sunrise", "half_moon", "fading"):
            assert not [one for of in check_family(family_in(name, home), run=False).values() for one in of]


def test_all_eighteen_are_planted_and_are_those_of_the_page(capsys):
    rows = re.findall(r"^\| (\d+) \| \*\*(.+?)\*\*", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(number): name.lower() for number, name in rows} == PITFALLS
    assert [plant.number for plant in PLANTS] == list(PITFALLS) == list(range(1, 19))
    assert {plant.number for plant in OTHER_WAYS} == set(PITFALLS)
    with capsys.disabled():
        print()
        for name, (by, place, _) in CAUGHT.items():
            print(f"{name:<60} {by:<7} {place}")

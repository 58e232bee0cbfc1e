"""`lockstep bench`: sides in turn, absent ones told, growth, JSON and a picture."""

import json

import pytest
from PIL import Image

pytestmark = pytest.mark.filterwarnings("ignore")  # peers' own


def test_sides_in_turn_with_ratios_errors_and_a_plot(lockstep, tmp_path):
    picture = tmp_path / "bars.png"
    only = "diffusers; lockstep; lockstep, exact; lockstep, high"
    code, out, err = lockstep(
        "bench", "--size", "16", "--rounds", "1", "--only", only, "--plot", str(picture), "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    sides = {side["name"]: side for side in found["tables"][0]["sides"]}
    assert set(sides) == set(only.split("; "))
    assert found["tables"][0]["reference"] == "diffusers"
    assert sides["diffusers"]["ratio"] == 1
    assert sides["lockstep"]["error"] < 1e-5
    assert sides["lockstep, exact"]["absent"] or sides["lockstep, exact"]["error"] < 1e-5
    assert sides["lockstep"]["ratio"] > 0
    for side in sides.values():
        assert (side["absent"] is None) == (len(side["seconds"]) == 1)
    assert "native bf16" in found["machine"]
    assert Image.open(picture).size[0] == 960


def test_an_autoencoder_whose_config_has_more_than_its_class_takes(lockstep):
    words = ("--part", "vae", "--size", "8", "--rounds", "1", "--only", "diffusers; lockstep; lockstep, exact")
    code, out, err = lockstep("bench", *words, "--json")
    assert code == 0, err
    sides = {side["name"]: side for side in json.loads(out)["tables"][0]["sides"]}
    assert sides["lockstep"]["error"] < 1e-5


def test_a_whole_picture_beside_diffusers(lockstep):
    only = "lockstep; diffusers; stable-diffusion.cpp"  # the last does not know the embedded model, or is not there
    words = ("--part", "picture", "--steps", "1", "--rounds", "1", "--only", only)
    code, out, err = lockstep("bench", *words, "--json")
    assert code == 0, err
    (table,) = json.loads(out)["tables"]
    assert {side["name"] for side in table["sides"] if side["seconds"]} >= {"lockstep", "diffusers"}
    absent = {side["name"]: side["absent"] for side in table["sides"] if not side["seconds"]}
    assert all("stable" in name and "stable" in told for name, told in absent.items())
    assert table["reference"] == "diffusers"
    assert table["exact"] == "lockstep"


def test_growth_of_one_axis(lockstep, tmp_path):
    picture = tmp_path / "lines.png"
    words = ("--growth", "batch=1:2", "--size", "8", "--rounds", "1", "--only", "lockstep")
    code, out, err = lockstep("bench", *words, "--plot", str(picture), "--json")
    assert code == 0, err
    (table,) = json.loads(out)["tables"]
    assert table["what"] == "batch"
    assert table["values"] == [1, 2]
    assert set(table["seconds"]) == {"lockstep"}
    assert all(len(points) == 2 for points in table["seconds"].values())
    assert Image.open(picture).size[0] == 960


def test_wrong_words_are_told(lockstep, tmp_path):
    for words, said in (
        (["--growth", "size=0"], "whole numbers above 0"),
        (["--growth", "colour"], "axis of growth"),
        (["--growth", "batch=1", "--only", "warp"], "level that can be measured here"),
        (["--only", "tensorrt", "--size", "8"], "openvino"),
        (["--plot", str(tmp_path / "x.jpg")], "PNG"),
        (["--part", "ears"], "unet"),
        (["--only", "foo", "--size", "8"], "'lockstep'; 'lockstep, bf16 weights'; "),
        (["sd15-unett"], "did you mean 'sd15-unet'?"),
        (["--instructions", "avx1"], "did you mean 'avx2'?"),
        (["--instructions", "mmx"], "avx2"),
        (["--instructions", "avx2"], "torch is loaded already"),
    ):
        code, _, err = lockstep("bench", *words)
        assert code == 2
        assert said in err

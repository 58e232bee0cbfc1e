"""`lockstep train emoji`: the stages of the embedded model in a row."""

import json
import shutil

import pytest
from PIL import Image


@pytest.fixture(scope="module")
def begun(work, settings, autoencoder_settings, as_toml, tmp_path_factory):
    """A work folder of its own, as far as the items, with settings files beside it."""
    folder = tmp_path_factory.mktemp("stages")
    shutil.copytree(work, folder / "work", ignore=shutil.ignore_patterns("tokenizer", "latents", "runs"))
    (folder / "emoji.toml").write_text(as_toml(settings))
    (folder / "autoencoder.toml").write_text(as_toml(autoencoder_settings))
    return folder


def test_the_stages_in_a_row_make_a_model_that_draws(lockstep, begun, tmp_path):
    def stage(*words):
        code, out, err = lockstep("train", "emoji", *words, "--work", begun / "work")
        assert code == 0, err
        return out

    teacher = ["--teacher", begun / "work/teacher"]
    config = begun / "autoencoder.toml"
    assert "tokenizer" in stage("tokenizer")
    encoded = int(stage("latents", *teacher, "--core").split()[-3])
    assert encoded > 0
    assert stage("latents", *teacher, "--core").strip().endswith("0 pictures encoded")
    stage("latents", *teacher)
    stage("autoencoder", *teacher, "--config", config)
    assert "step 2" in stage("diffusion", *teacher, "--config", begun / "emoji.toml", "--steps", 2)
    stage("sheet", "sheet.png", *teacher, "-p", "a dog", "-p", "a cat")
    with Image.open(tmp_path / "sheet.png") as drawn:
        assert drawn.size[0] > 2 * 128
    stage("export", "model", "--autoencoder-config", config)
    assert json.loads((tmp_path / "model/model_index.json").read_text())["_class_name"] == "StableDiffusionPipeline"
    assert lockstep("generate", "a dog", "-m", "model", "--steps", 1)[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["data", "itmes"], 2, "did you mean 'items'"),
        (["data", "items"], 3, "`render`"),
        (["data", "render"], 3, "`fetch`"),
        (["tokenizer"], 3, "`items`"),
        (["latents"], 2, "--teacher"),
        (["latents", "--teacher", "nowhere"], 3, "`items`"),
        (["latents", "--teacher", "nowhere", "--part", "held_out", "--core"], 2, "--part held_out"),
        (["autoencoder", "--teacher", "nowhere", "--config", "autoencodr"], 3, "autoencoder, emoji"),
        (["diffusion", "--teacher", "nowhere", "--start-from", "nothing"], 3, "Runs: none"),
        (["sheet", "sheet.png", "--teacher", "nowhere"], 3, "There is no run 'main'"),
        (["export", "model"], 3, "There is no run 'main'"),
    ],
)
def test_mistakes_are_told(lockstep, words, code, told):
    got, _, err = lockstep("train", "emoji", *words)
    assert (got, told in err) == (code, True), err

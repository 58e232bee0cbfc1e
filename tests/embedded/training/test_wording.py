"""A text encoder with more words reads sentences as the released one read the plain caption."""

import json

import pytest
import torch

from lockstep.embedded.training.diffusion import build_models, train_diffusion
from lockstep.embedded.training.export import export_upon, write_folder
from lockstep.embedded.training.settings import WordingSettings
from lockstep.embedded.training.vocabulary import widen_tokenizer
from lockstep.embedded.training.wording import WordingTraining, train_wording
from lockstep.errors import NotFoundError
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from lockstep.training.checkpoint import load_checkpoint
from lockstep.training.loop import Run
from lockstep.training.settings import build_settings
from lockstep.training.trainee import averaged_tensors

TINY = {
    "steps": 4, "batch_size": 8, "pictures": 4, "queries": 8, "styles": ["3d", "flat"],
    "optimizer": {"warmup_steps": 1, "learning_rate": 3e-3}, "cadence": {"evaluate_steps": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def wording_settings():
    return build_settings(WordingSettings, json.loads(json.dumps(TINY)), "tiny")


@pytest.fixture(scope="module")
def released(work, settings, tmp_path_factory):
    """A folder as the export writes it, of fresh weights that words make a difference to."""
    models = build_models(settings, work / "tokenizer")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for parameter in models["text_encoder"].parameters():
            parameter.data += 0.3 * torch.randn_like(parameter)
    vae = AutoencoderTiny(encoder_block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4)
    target = tmp_path_factory.mktemp("released") / "model"
    return write_folder(target, {**models, "vae": vae}, work / "tokenizer", settings.scheduler, "float32", 60.0)


@pytest.fixture(scope="module")
def widened(work, released, tmp_path_factory):
    """A work folder of its own, whose tokenizer has more words."""
    import shutil

    copy = tmp_path_factory.mktemp("widened") / "work"
    shutil.copytree(work, copy, ignore=shutil.ignore_patterns("runs"))
    widen_tokenizer(copy, released)
    return copy


def test_before_the_first_step_plain_captions_are_read_as_before(widened, released, wording_settings, tmp_path):
    training = WordingTraining(widened, wording_settings, Run(tmp_path / "run"), released)
    plain = ["a dog", "a cat, flat style", "a star on a blue background", ""]
    assert training.difference(training.trainee.modules["text_encoder"], plain, plain) < 1e-10
    assert training.difference(training.trainee.modules["text_encoder"], plain, plain[::-1]) > 0.1


def test_sentences_come_nearer_to_their_plain_captions(widened, released, wording_settings, tmp_path):
    training = WordingTraining(widened, wording_settings, Run(tmp_path / "run"), released)
    start = training.loss_at(0).item()
    for _ in range(30):
        training.trainee.learn(training.loss_at(0), 3e-3)
    assert training.loss_at(0).item() < 0.6 * start


def test_captions_never_speak_of_what_is_held_out(widened, released, wording_settings, tmp_path):
    training = WordingTraining(widened, wording_settings, Run(tmp_path / "run"), released)
    for step in range(40):
        for slot in range(4):
            import random

            item = training.draw_item(random.Random(f"{step} {slot}"))
            concept = training.table.concepts[item.concept]
            assert item.colour is None or item.colour != concept.held_out_colour
            assert item.background is None or item.background != concept.held_out_background


def test_a_run_and_its_export_upon_the_released_model(widened, released, wording_settings, tmp_path):
    import lockstep

    train_wording(widened, wording_settings, released)
    log = [json.loads(line) for line in (widened / "runs/wording/log.jsonl").read_text().splitlines()]
    assert any("difference_to_another" in line for line in log)
    target = export_upon(widened, tmp_path / "again", released, dtype="float32")
    pipe = lockstep.DiffusionPipeline.from_pretrained(target)
    before = lockstep.DiffusionPipeline.from_pretrained(released)
    assert len(pipe.tokenizer) > len(before.tokenizer)
    assert pipe.folder_defaults == {"num_inference_steps": 2}
    for name, value in before.unet.state_dict().items():
        assert torch.equal(pipe.unet.state_dict()[name], value)
    with pytest.raises(NotFoundError, match=r"model_index\.json"):
        WordingTraining(widened, wording_settings, Run(tmp_path / "run"), tmp_path)


def test_a_run_goes_on_from_a_released_model_and_is_exported_upon_it(widened, released, settings, tmp_path, as_toml):
    import lockstep

    trained = train_diffusion(
        widened, settings, run_name="further", teacher_folder=widened / "teacher", steps=2, start_from=str(released),
        settings_text=as_toml(settings),
    )  # fmt: skip
    tensors, before = load_checkpoint(trained)[0], lockstep.DiffusionPipeline.from_pretrained(released)
    target = export_upon(widened, tmp_path / "again", released, run_name="further", dtype="float32")
    pipe = lockstep.DiffusionPipeline.from_pretrained(target)
    for name in ("unet", "text_encoder"):
        written, was = getattr(pipe, name).state_dict(), getattr(before, name).state_dict()
        averaged = averaged_tensors(tensors, name)
        assert all(torch.equal(written[key], averaged[key]) for key in averaged)
        alike = [key for key in was if was[key].shape == written[key].shape and was[key].dim() > 1]
        moved = sum(float((written[key] - was[key]).norm() / was[key].norm()) for key in alike) / len(alike)
        assert 0 < moved < 0.3, "two steps from where it was"

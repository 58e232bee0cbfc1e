"""Latents and our own autoencoder's halves."""

import json
import shutil

import numpy as np
import pytest
import torch

from lockstep.embedded.training.autoencoder import AutoencoderTraining, is_held_out, psnr, train_autoencoder
from lockstep.embedded.training.data import load_items
from lockstep.embedded.training.latents import encode_latents, load_teacher, open_store
from lockstep.errors import NotFoundError
from lockstep.training.checkpoint import load_checkpoint
from lockstep.training.pixels import to_pixels


def test_latents_are_the_teachers_and_normal(work):
    table = load_items(work)
    store = open_store(work, table)
    assert store.done.all()
    normalised = store.read(range(len(table.items)))
    torch.testing.assert_close(normalised.mean((0, 2, 3)), torch.zeros(4), atol=2e-3, rtol=0)
    torch.testing.assert_close(normalised.std((0, 2, 3)), torch.ones(4), atol=2e-3, rtol=0)
    rgba = np.load(work / "pictures/rgba.npy")
    item = table.items[-1]
    with torch.inference_mode():
        wanted = load_teacher(work / "teacher").encode(to_pixels(table.render(item, rgba)[None]), return_dict=False)[0]
    torch.testing.assert_close(store.normal().restore(normalised[-1:]), wanted, atol=2e-3, rtol=2e-3)


def test_encoding_goes_on_where_it_stopped_and_survives_other_items(work, tmp_path):
    copy = tmp_path / "work"
    shutil.copytree(work, copy, ignore=shutil.ignore_patterns("runs"))
    table = load_items(copy)
    store = open_store(copy, table)
    before = store.read([5, 9])
    store.done[3] = False
    store.done.flush()
    assert encode_latents(copy, copy / "teacher") == 1
    content = json.loads((copy / "items.json").read_text())
    del content["items"][0]
    content["items"].append({**content["items"][0], "background": "purple", "kind": "background"})
    for index, item in enumerate(content["items"]):
        item["index"] = index
    (copy / "items.json").write_text(json.dumps(content))
    changed = open_store(copy, load_items(copy))
    assert changed.done.sum() == len(table.items) - 1, "only the new item has no latents"
    assert torch.equal(changed.read([4, 8]), before)
    with pytest.raises(NotFoundError, match="not encoded"):
        changed.read([len(content["items"]) - 1])
    assert encode_latents(copy, copy / "teacher") == 1


def test_both_halves_train_and_resume_to_the_bit(work, autoencoder_settings):
    import dataclasses

    for part in ("decoder", "encoder"):
        short = dataclasses.replace(
            autoencoder_settings, cadence=dataclasses.replace(autoencoder_settings.cadence, evaluate_steps=2)
        )
        path = train_autoencoder(work, short, part, work / "teacher")
        tensors, facts = load_checkpoint(path)
        assert facts["step"] == 4
        path.unlink()
        training = AutoencoderTraining(work, short, part, work / "teacher")
        from lockstep.training.loop import train

        training.run.begin_decay(2, 2)
        options = {"title": part, "batch_size": 4, "cadence": short.cadence}
        train(training.trainee, training.run, training.loss_at, until=2, **options)
        resumed = load_checkpoint(train_autoencoder(work, short, part, work / "teacher"))[0]
        assert all(torch.equal(resumed[name], tensors[name]) for name in tensors)
        lines = [json.loads(line) for line in training.run.log.read_text().splitlines()]
        assert any("teacher_psnr" in line for line in lines)


def test_the_decoder_learns(work, autoencoder_settings):
    training = AutoencoderTraining(work, autoencoder_settings, "decoder", work / "teacher")
    before = np.mean([training.loss_at(step).item() for step in range(4)])
    for step in range(30):
        training.trainee.learn(training.loss_at(step), 3e-3)
    assert np.mean([training.loss_at(step).item() for step in range(4)]) < 0.8 * before


def test_held_out_concepts_are_never_trained_on(work, autoencoder_settings):
    training = AutoencoderTraining(work, autoencoder_settings, "encoder", work / "teacher")
    assert {item.concept for item in training.items}.isdisjoint({item.concept for item in training.held_out})
    assert all(is_held_out(item, 0.2) for item in training.held_out)


def test_psnr_of_a_known_error():
    pixels = torch.zeros(2, 3, 4, 4)
    assert psnr(pixels + 0.2, pixels).tolist() == pytest.approx([20.0, 20.0], abs=1e-4)

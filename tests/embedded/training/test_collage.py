"""Scenes in latents, and what a decoder learns from edges and from a critic."""

import random

import torch

from lockstep.embedded.training.adversary import critic_loss, deceiving_loss, new_critic
from lockstep.embedded.training.collage import WHITE, Collage, encode_tiles, name_of
from lockstep.embedded.training.data import load_items
from lockstep.embedded.training.data.scenes import SceneDrawer
from lockstep.embedded.training.edges import edge_loss, edge_strength
from lockstep.embedded.training.latents import adopt_normal, load_normal, open_store


def test_tiles_are_encoded_once_and_pasted_in_their_places(work):
    table = load_items(work)
    drawer = SceneDrawer(table)
    encode_tiles(work, work / "teacher")
    assert encode_tiles(work, work / "teacher") == 0
    collage = Collage(work, drawer, open_store(work, table).normal())
    for seed in range(20):
        scene = drawer.draw(random.Random(seed))
        latents = collage.paste(scene)
        left = torch.ones(16, 16, dtype=torch.bool)
        for placement in scene.placements:
            tile = collage.tiles[name_of(placement.tile)]
            rows = slice(placement.row, placement.row + tile.shape[1])
            columns = slice(placement.column, placement.column + tile.shape[2])
            assert torch.equal(latents[:, rows, columns], tile)
            left[rows, columns] = False
        assert torch.equal(latents[:, left], collage.tiles[WHITE][:, left])


def test_the_statistics_are_found_again_from_the_encoder(work, tmp_path):
    """An encoder that gives exactly what it was taught gives back the mean and the deviation."""
    import json
    import shutil

    from lockstep.embedded.training.latents import load_teacher

    copy = tmp_path / "work"
    shutil.copytree(work, copy, ignore=shutil.ignore_patterns("runs"))
    wanted = {"mean": [0.3, -0.2, 0.1, 0.5], "deviation": [0.5, 1.5, 0.7, 1.1]}
    teacher = load_teacher(copy / "teacher").to(memory_format=torch.contiguous_format)
    last = teacher.encoder.layers[-1]
    mean, deviation = (torch.tensor(wanted[name]) for name in ("mean", "deviation"))
    last.weight.data /= deviation[:, None, None, None]
    last.bias.data = (last.bias.data - mean) / deviation
    teacher.save_pretrained(tmp_path / "released/vae")
    adopt_normal(copy, tmp_path / "released")
    found = load_normal(copy)
    torch.testing.assert_close(torch.tensor(found.mean), mean, atol=5e-3, rtol=0)
    torch.testing.assert_close(torch.tensor(found.deviation), deviation, atol=5e-3, rtol=5e-3)
    assert json.loads((copy / "latents/normal.json").read_text())["pictures"] > 0


def test_a_soft_edge_is_weaker_and_costs_more_than_a_shifted_one():
    sharp = -torch.ones(1, 3, 32, 32)
    sharp[..., 14:] = 1
    soft = torch.nn.functional.avg_pool2d(sharp, (1, 7), stride=1, padding=(0, 3), count_include_pad=False)
    shifted = sharp.roll(1, -1)
    shifted[..., 0] = -1
    assert edge_strength(soft) < 0.6 * edge_strength(sharp)
    assert edge_loss(shifted, sharp) < 0.2 * edge_loss(soft, sharp)


def test_the_critic_and_the_decoder_pull_in_opposite_directions():
    critic = new_critic(0)
    decoded = torch.randn(2, 3, 32, 32, requires_grad=True)
    deceiving_loss(critic, decoded).backward()
    assert decoded.grad is not None
    assert decoded.grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in critic.parameters())
    decoded.grad = None
    critic_loss(critic, decoded, torch.randn(2, 3, 32, 32)).backward()
    assert decoded.grad is None
    assert all(parameter.grad is not None for parameter in critic.parameters())

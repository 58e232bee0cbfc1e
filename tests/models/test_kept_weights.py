"""Prepared weights on disk: written once, mapped from then on, never taken where they are not the model's."""

import json

import pytest
import torch

from lockstep import UNet2DConditionModel, kernels
from lockstep.errors import InputError
from lockstep.models import fast_layers, kept_weights, remembered

pytestmark = pytest.mark.skipif(kernels.library() is None, reason="no kernels were compiled here")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model's files, with a cache of its own for what is prepared of them."""
    monkeypatch.setenv("LOCKSTEP_ENGINES", str(tmp_path / "engines"))
    monkeypatch.setattr(remembered, "LARGE", 0)
    torch.manual_seed(0)
    UNet2DConditionModel(
        sample_size=16,
        block_out_channels=(32, 64),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=24,
        attention_head_dim=2,
        norm_num_groups=8,
    ).save_pretrained(tmp_path / "unet")
    return tmp_path / "unet"


def kept(folder):
    place = folder.parent / "engines" / "prepared"
    return sorted(place.iterdir()) if place.is_dir() else []


def loaded(folder):
    return UNet2DConditionModel.from_pretrained(folder)


@torch.no_grad()
def predict(unet):
    random = torch.Generator().manual_seed(1)
    sample, text = torch.randn(2, 4, 16, 16, generator=random), torch.randn(2, 7, 24, generator=random)
    return unet(sample, torch.tensor([5, 700]), text).sample


@pytest.fixture
def preparations(monkeypatch):
    """How many linear layers were prepared, not taken from the disk."""
    counted, prepare = [], fast_layers.FastLinear.prepare
    monkeypatch.setattr(fast_layers.FastLinear, "prepare", lambda self: (counted.append(self), prepare(self))[1])
    return counted


def test_the_second_start_prepares_nothing_and_computes_the_same_bits(folder, preparations, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PREPARED", "off")
    unet = loaded(folder).accelerate()
    in_memory, told = predict(unet), unet.acceleration
    assert kept(folder) == []
    monkeypatch.delenv("LOCKSTEP_PREPARED")
    assert torch.equal(predict(loaded(folder).accelerate()), in_memory)
    (place,) = kept(folder)
    written, before = place.stat().st_ino, len(preparations)
    again = loaded(folder).accelerate()
    assert torch.equal(predict(again), in_memory)
    assert again.acceleration == told
    assert len(preparations) == before
    assert [one.stat().st_ino for one in kept(folder)] == [written]


@pytest.mark.parametrize("harm", ["a byte", "cut off", "empty", "no end"])
def test_a_damaged_file_is_noticed_and_made_again(folder, preparations, harm):
    unet = loaded(folder).accelerate()
    (place,) = kept(folder)
    right = place.read_bytes()
    flipped = bytes([*right[:1000], right[1000] ^ 1, *right[1001:]])
    harmed = {"a byte": flipped, "cut off": right[: len(right) // 2], "empty": b"", "no end": right[:-3] + b"xyz"}
    place.unlink()  # what is mapped stays as it was
    place.write_bytes(harmed[harm])
    before = len(preparations)
    assert torch.equal(predict(loaded(folder).accelerate()), predict(unet))
    assert len(preparations) > before
    assert kept(folder) == [place]
    assert place.read_bytes() == right


def rewritten(right, change):
    """A file whose end says something else of its places."""
    end = kept_weights.END
    length, magic = end.unpack(right[-end.size :])
    told = json.loads(right[-end.size - length : -end.size])
    told = change(told) or told
    text = json.dumps(told).encode()
    return right[: -end.size - length] + text + end.pack(len(text), magic)


def of_a_layer(change):
    """The same change of the last tensor of the last layer."""

    def changed(told):
        change(told[list(told)[-1]][-1])

    return changed


PLACES = {
    "behind the end": of_a_layer(lambda one: one.__setitem__(0, 1 << 40)),
    "before the beginning": of_a_layer(lambda one: one.__setitem__(0, -64)),
    "somewhere else": of_a_layer(lambda one: one.__setitem__(0, one[0] - 64)),
    "too long": of_a_layer(lambda one: one[2][0].__setitem__(0, 1 << 40)),
    "too long for any number": of_a_layer(lambda one: one[2][0].__setitem__(0, 1 << 80)),
    "steps outside": of_a_layer(lambda one: one[2][1].__setitem__(0, 1 << 30)),
    "a word for a number": of_a_layer(lambda one: one.__setitem__(0, "x")),
    "another dtype": of_a_layer(lambda one: one.__setitem__(1, "int3")),
    "a number too many": of_a_layer(lambda one: one.append(1)),
    "a layer is missing": lambda told: told.pop(list(told)[-1]) and None,
    "nothing of a layer": lambda told: told[list(told)[-1]].clear(),
    "a list": lambda told: list(told),
}


@pytest.mark.parametrize("places", PLACES)
def test_wrong_places_are_told_in_words_and_made_again(folder, places, monkeypatch):
    unet = loaded(folder).accelerate()
    (place,) = kept(folder)
    right, said = place.read_bytes(), []
    place.unlink()
    place.write_bytes(rewritten(right, PLACES[places]))
    monkeypatch.setattr(kept_weights, "say_once", said.append)
    assert torch.equal(predict(loaded(folder).accelerate()), predict(unet))
    assert any("are damaged" in line and "prepared again" in line for line in said)
    assert place.read_bytes() == right


def test_other_weights_take_nothing_of_it(folder, preparations):
    loaded(folder).accelerate()
    changed = loaded(folder)
    with torch.no_grad():
        changed.conv_in.weight.mul_(2)
    before = len(preparations)
    changed.accelerate()
    assert len(preparations) > before
    assert len(kept(folder)) == 1
    changed.accelerate("off").save_pretrained(folder)  # the same place, other numbers
    exact = predict(changed)
    result = predict(loaded(folder).accelerate())
    assert float((result - exact).norm() / exact.norm()) < 5e-6
    assert len(kept(folder)) == 2


def test_weights_that_change_later_are_prepared_again(folder):
    loaded(folder).accelerate()
    unet = loaded(folder).accelerate()
    with torch.no_grad():
        unet.time_embedding.linear_1.weight.mul_(3)
    after = predict(unet)
    exact = predict(unet.accelerate("off"))
    assert float((after - exact).norm() / exact.norm()) < 5e-6


def test_no_more_is_kept_than_may_be_and_the_oldest_goes(folder, monkeypatch):
    loaded(folder).accelerate()
    (first,) = kept(folder)
    size = first.stat().st_size
    monkeypatch.setenv("LOCKSTEP_PREPARED", str(size + size // 2))
    changed = loaded(folder)
    with torch.no_grad():
        changed.conv_in.weight.mul_(2)
    changed.save_pretrained(folder)
    loaded(folder).accelerate()
    assert len(kept(folder)) == 1
    assert not first.exists()
    monkeypatch.setenv("LOCKSTEP_PREPARED", str(size // 2))
    kept(folder)[0].unlink()
    assert loaded(folder).accelerate().acceleration is not None
    assert kept(folder) == []
    monkeypatch.setenv("LOCKSTEP_PREPARED", "much")
    with pytest.raises(InputError, match="LOCKSTEP_PREPARED .* wants a number of bytes"):
        loaded(folder).accelerate()


def test_a_folder_that_cannot_be_made_keeps_nothing(folder):
    (folder.parent / "engines").write_text("a file where the folder would be")
    unet = loaded(folder)
    exact = predict(unet)
    result = predict(unet.accelerate())
    assert float((result - exact).norm() / exact.norm()) < 5e-6


@pytest.mark.skipif(kernels.library() is None or not kernels.found().bf16, reason="no kernels for bf16 here")
def test_each_level_has_a_file_of_its_own(folder, preparations):
    exact, high = predict(loaded(folder).accelerate()), predict(loaded(folder).accelerate("high"))
    assert len(kept(folder)) == 2
    before = len(preparations)
    assert torch.equal(predict(loaded(folder).accelerate("high")), high)
    assert torch.equal(predict(loaded(folder).accelerate()), exact)
    assert len(preparations) == before


def test_what_an_interrupted_run_left_goes(folder, monkeypatch):
    left = folder.parent / "engines" / "prepared" / ".UNet2DConditionModel-1.abcd.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    monkeypatch.setattr(kept_weights, "DAY", -1)
    loaded(folder).accelerate()
    assert not left.exists()
    assert len(kept(folder)) == 1


def test_a_cache_without_room_is_told(folder, monkeypatch, caplog):
    monkeypatch.setenv("LOCKSTEP_PREPARED", "9kB")
    loaded(folder).accelerate()
    loaded(folder).accelerate()
    assert (
        len([line for line in caplog.messages if "no room" in line and "at most 9 kB (LOCKSTEP_PREPARED)" in line]) == 1
    )
    monkeypatch.setenv("LOCKSTEP_PREPARED", "0")
    loaded(folder).accelerate()
    assert kept(folder) == []

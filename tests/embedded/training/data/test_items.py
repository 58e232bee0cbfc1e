import random
from collections import Counter
from dataclasses import replace

import pytest

from lockstep.embedded.training.data import COLOURS, DEFAULT_STYLE, build_items, compose, load_items, load_pictures
from lockstep.embedded.training.data.concepts import code_of
from lockstep.embedded.training.data.items import MAIN_COUNTS
from lockstep.errors import NotFoundError


@pytest.fixture
def table(built):
    return load_items(built)


def find(table, emoji, style, **wanted):
    wanted = {"colour": None, "background": None, "mirror": False} | wanted
    items = [i for i in table.items if i.concept == code_of(emoji) and i.style == style]
    return next(i for i in items if all(getattr(i, name) == value for name, value in wanted.items()))


def captions_drawn(table, item, count=400):
    rng = random.Random(0)
    return [table.draw_caption(item, rng) for _ in range(count)]


def test_held_out_pairs_occur_in_no_training_item(table):
    held_out = {c.code: (c.held_out_colour, c.held_out_background) for c in table.concepts.values()}
    assert held_out[code_of("🐘")] == ("green", "yellow")
    for item in table.items:
        colour, background = held_out[item.concept]
        assert item.colour is None or item.colour != colour
        assert item.background is None or item.background != background
    prompts = {table.prompt(item) for item in table.held_out}
    assert {"a purple banana", "a green elephant on a yellow background"} <= prompts


def test_items_have_their_share_of_every_kind(table):
    kinds = Counter(item.kind for item in table.select(styles=("3d",)) if item.concept == code_of("🍌"))
    assert kinds == {"base": 2} | MAIN_COUNTS
    for item in table.items:
        assert (item.kind in ("background", "both")) == (item.background is not None)
        assert item.colour is None or item.colour != item.background
        assert item.index == table.items.index(item)


def test_no_picture_is_recoloured_into_the_colour_that_it_has(table):
    for item in table.items:
        natural = table.pictures[item.picture].natural
        if natural and item.kind != "base":
            assert natural != item.background
            assert natural != item.colour


def test_a_thing_known_by_a_colour_gets_it_where_the_art_differs(table):
    # The drawings of the heart here are pink, except in the Firefox set.
    assert find(table, "❤️", "3d", colour="red").kind == "base"
    assert find(table, "❤️", "firefox").kind == "base"
    assert table.prompt(find(table, "❤️", "3d", colour="red")) == "a red heart"
    drawn = Counter(c.split(",")[0] for c in captions_drawn(table, find(table, "❤️", "3d", colour="red")))
    assert drawn["a heart"] > 50
    assert drawn["a red heart"] > 50
    assert not [words for words in drawn if "red red" in words or "blue red" in words]


def test_canonical_captions(table):
    banana = find(table, "🍌", "noto")
    assert table.caption(banana) == "a banana, noto style"
    assert table.caption(replace(banana, colour="orange")) == "an orange banana, noto style"
    assert (
        table.caption(replace(banana, colour="red", background="blue"))
        == "a red banana, noto style on a blue background"
    )
    assert table.prompt(replace(banana, background="orange")) == "a banana on an orange background"


def test_a_plain_name_means_the_default_style(table):
    plain = {}
    for style in ("3d", "noto", "firefox"):
        drawn = captions_drawn(table, find(table, "🐘", style), 2000)
        plain[style] = sum(style not in caption for caption in drawn) / len(drawn)
    assert DEFAULT_STYLE == "3d"
    assert plain["3d"] == pytest.approx(0.7, abs=0.05)
    assert 0 < plain["noto"] < 0.05
    assert 0 < plain["firefox"] < 0.05


def test_drawn_captions_vary_and_repeat_with_the_seed(table):
    item = find(table, "🐶", "3d")
    drawn = captions_drawn(table, item)
    assert drawn == captions_drawn(table, item)
    assert {"a dog", "dog", "🐶", "a dog, 3d style"} <= set(drawn)
    assert any("puppy" in caption for caption in drawn)
    assert any("please" in caption for caption in drawn)
    assert any(caption.endswith("!!!") for caption in drawn)
    assert all("3d" in caption or "style" not in caption for caption in drawn)


def test_every_draw_moves_the_generator_equally(table):
    """A resumed run can count draws instead of storing a state, whatever the items were."""
    states = set()
    for item in random.Random(0).sample(table.items, 20):
        rng = random.Random(7)
        table.draw_caption(item, rng)
        states.add(rng.getstate())
    assert len(states) == 1


def test_a_natural_colour_is_sometimes_said_and_never_a_wrong_one(table):
    said = {
        word for caption in captions_drawn(table, find(table, "🍌", "noto"), 1000) for word in caption.split()
    } & set(COLOURS)
    assert said == {"yellow"}


def test_select_and_render(table, built):
    rgba, _ = load_pictures(built)
    items = table.select(core=True, styles=("noto",), kinds=("base",), mirrored=True)
    assert items
    assert all(i.core and i.style == "noto" and i.kind == "base" and i.mirror for i in items)
    item = items[0]
    assert (table.render(item, rgba) == compose(rgba[item.picture], item.colour, item.background, True)).all()
    assert not any(i.mirror for i in table.items if i.kind != "base")


def test_the_table_is_the_same_byte_for_byte(built, tmp_path):
    first = (built / "items.json").read_bytes()
    assert build_items(built).read_bytes() == first


def test_without_items_the_error_names_the_stage(tmp_path):
    with pytest.raises(NotFoundError, match="`items`"):
        load_items(tmp_path)


def test_the_command_writes_items_and_sheets(lockstep, built):
    code, out, err = lockstep("train", "emoji", "data", "items", "sheets", "--work", built)
    assert code == 0, err
    assert "held out" in out
    assert (built / "sheets/compositions.png").stat().st_size > 1000

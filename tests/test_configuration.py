"""Configurations: recorded, typed, frozen, and safe on the way to disk and back."""

import json
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.configuration import ConfigMixin, FrozenDict, fits, register_to_config
from lockstep.errors import ConfigError, FileFormatError, LockstepError, NotFoundError


class Thing(ConfigMixin):
    @register_to_config
    def __init__(
        self,
        width: int = 8,
        scale: float = 1.0,
        kind: Literal["a", "b"] = "a",
        sizes: tuple[int, ...] = (1, 2),
        name: str | None = None,
    ) -> None:
        self.doubled = width * 2


def test_arguments_are_recorded_with_their_defaults():
    thing = Thing(4, kind="b")
    assert dict(thing.config) == {"width": 4, "scale": 1.0, "kind": "b", "sizes": (1, 2), "name": None}
    assert thing.config.width == 4
    assert thing.doubled == 8


def test_a_config_is_frozen():
    config = Thing().config
    for change in (
        lambda: config.update(width=1),
        lambda: config.__setitem__("width", 1),
        lambda: setattr(config, "width", 1),
    ):
        with pytest.raises(ConfigError, match="cannot be changed"):
            change()
    with pytest.raises(AttributeError, match="width"):
        config.widht


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": "8"}, ["width", "int", "'8'"]),
        ({"width": True}, ["width", "bool"]),
        ({"kind": "c"}, ["kind", "'a', 'b'"]),
        ({"sizes": [1, "x"]}, ["sizes", "list of int"]),
        ({"name": 3}, ["name", "str or null"]),
        ({"colour": 1}, ["colour"]),
    ],
)
def test_wrong_values_are_refused_by_name(values, words):
    with pytest.raises(ConfigError) as caught:
        Thing(**values)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_round_trip_keeps_and_reports_unknown_keys(tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"_class_name": "Thing", "_diffusers_version": "0.6.0", "width": 3, "later": {"a": 1}})
    )
    thing = Thing.from_config(tmp_path)
    assert thing.unknown_config_keys == ["later"]
    thing.save_config(tmp_path / "again")
    again = json.loads((tmp_path / "again" / "config.json").read_text())
    assert again["later"] == {"a": 1}
    assert again["_class_name"] == "Thing"
    assert again["width"] == 3


def test_overrides_replace_and_unknown_overrides_are_refused():
    thing = Thing.from_config(Thing(width=3).config, scale=2)
    assert (thing.config.width, thing.config.scale) == (3, 2)
    with pytest.raises(ConfigError, match="widht"):
        Thing.from_config({}, widht=3)


@pytest.mark.parametrize("text", ["", "[1]", "{", "nul", '{"width": '])
def test_damaged_json_is_a_clear_error(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(FileFormatError, match="config.json"):
        Thing.load_config(tmp_path)


def test_missing_file_lists_what_is_there(tmp_path):
    (tmp_path / "other.txt").write_text("")
    with pytest.raises(NotFoundError, match="other.txt"):
        Thing.load_config(tmp_path)
    with pytest.raises(NotFoundError):
        Thing.load_config(str(tmp_path / "nowhere"))


def test_frozen_dicts_copy_and_pickle():
    import copy
    import pickle

    config = FrozenDict(a=1)
    assert copy.deepcopy(config) == config == pickle.loads(pickle.dumps(config))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["width", "scale", "kind", "sizes", "name", "extra", "_x"]), json_values))
def test_any_json_object_builds_or_is_refused_by_name(values):
    try:
        thing = Thing.from_config(values)
    except LockstepError as problem:
        assert any(repr(key) in str(problem) for key in values)  # noqa: PT017  a refusal is one of two right answers
    else:
        assert isinstance(thing.config.width, int)


def test_an_int_is_a_float_but_a_bool_is_neither():
    assert fits(1, float)
    assert not fits(True, float)
    assert not fits(True, int)
    assert fits([1, 2], tuple[int, ...])
    assert fits(None, int | None)

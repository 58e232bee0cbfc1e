"""Settings files: names, types, nesting."""

import pytest

from lockstep.errors import ConfigError, FileFormatError, NotFoundError
from lockstep.training.settings import AutoencoderSettings, DiffusionSettings, load_settings


def test_round_trip(tmp_path, settings, as_toml):
    (tmp_path / "some.toml").write_text(as_toml(settings))
    assert load_settings(DiffusionSettings, tmp_path / "some.toml") == settings


@pytest.mark.parametrize("cls, name", [(DiffusionSettings, "emoji"), (AutoencoderSettings, "autoencoder")])
def test_those_of_the_package_load(cls, name):
    assert sum(load_settings(cls, name).mixture.kinds.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("batch_size = 'many'", ConfigError, "batch_size.*int.*many"),
        ("[mixture]\nmirored = 0.1", ConfigError, "mirored.*did you mean 'mirrored'"),
        ("batch_size = ", FileFormatError, "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, error, message):
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_settings(DiffusionSettings, tmp_path / "wrong.toml")


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(NotFoundError, match="autoencoder, emoji"):
        load_settings(DiffusionSettings, "emogi")

"""The settings that come with the recipe, and the settings of a run."""

import pytest

from lockstep.embedded.training.settings import CONFIGS, AutoencoderSettings, DiffusionSettings
from lockstep.errors import NotFoundError
from lockstep.training.settings import find_settings, load_settings


def test_round_trip(tmp_path, settings, as_toml):
    (tmp_path / "some.toml").write_text(as_toml(settings))
    assert load_settings(DiffusionSettings, tmp_path / "some.toml") == settings


@pytest.mark.parametrize(("cls", "name"), [(DiffusionSettings, "emoji"), (AutoencoderSettings, "autoencoder")])
def test_those_of_the_package_load(cls, name):
    assert sum(load_settings(cls, find_settings(name, CONFIGS)).mixture.kinds.values()) == pytest.approx(1)


def test_a_name_that_is_not_there_lists_those_that_are():
    with pytest.raises(NotFoundError, match="autoencoder, emoji"):
        find_settings("emogi", CONFIGS)

"""Settings files: names, types, nesting."""

from dataclasses import dataclass, field

import pytest

from lockstep.errors import ConfigError, FileFormatError
from lockstep.training.settings import OptimizerSettings, load_settings


@dataclass(frozen=True)
class Recipe:
    batch_size: int = 4
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)


def test_what_a_file_leaves_out_keeps_its_default(tmp_path):
    (tmp_path / "some.toml").write_text("[optimizer]\nmuon = true")
    assert load_settings(Recipe, tmp_path / "some.toml") == Recipe(4, OptimizerSettings(muon=True))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("batch_size = 'many'", ConfigError, "batch_size.*int.*many"),
        ("[optimizer]\nlerning_rate = 0.1", ConfigError, "lerning_rate.*did you mean 'learning_rate'"),
        ("batch_size = ", FileFormatError, "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path, text, error, message):
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(error, match=message):
        load_settings(Recipe, tmp_path / "wrong.toml")

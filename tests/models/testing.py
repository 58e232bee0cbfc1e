"""The mixins of the kit for models of the house, whose reference is a class that loads the same folder."""

import pytest

from lockstep.kit.testing import models as kit
from lockstep.kit.testing.models import (
    AttentionTesterMixin,
    LoraTesterMixin,
    MemoryTesterMixin,
    TorchCompileTesterMixin,
    TrainingTesterMixin,
    assert_same_weights,
)

__all__ = [
    "AttentionTesterMixin",
    "BaseModelTesterConfig",
    "Everything",
    "LoraTesterMixin",
    "MemoryTesterMixin",
    "ModelTesterMixin",
    "TorchCompileTesterMixin",
    "TrainingTesterMixin",
]


class BaseModelTesterConfig(kit.BaseModelTesterConfig):
    """What the mixins need to know of a model."""

    reference_class: type  # loads the same folder

    def reference(self, folder, model):
        """The reference's model with the same weights."""
        model.save_pretrained(folder)
        return self.reference_class.from_pretrained(folder).eval()


class ModelTesterMixin(kit.ModelTesterMixin):
    """Forward, gradients, saving, loading and errors, and the reference's own files."""

    @pytest.mark.parametrize("shards", [False, True])
    def test_loads_what_the_reference_saves(self, tmp_path, shards):
        model = self.model()
        reference = self.reference(tmp_path / "ours", model)
        reference.save_pretrained(tmp_path / "theirs", **({"max_shard_size": "100KB"} if shards else {}))
        assert_same_weights(model, self.model_class.from_pretrained(tmp_path / "theirs"))


class Everything(
    ModelTesterMixin,
    MemoryTesterMixin,
    AttentionTesterMixin,
    LoraTesterMixin,
    TrainingTesterMixin,
    TorchCompileTesterMixin,
):
    """All that a model with attention is tried for."""

"""Tests that a family need not write: mixins for its models and pipelines, in the house and in packages of others.

closeness.py   how close is close; models whose every tensor says something
models.py      the mixins of a model's test
pipelines.py   the mixin of a pipeline's test
tiny.py        the parts of a tiny pipeline that every family shares
"""

from .closeness import TOLERANCE, assert_close, randomized, relative_l2
from .models import (
    AttentionTesterMixin,
    BaseModelTesterConfig,
    LoraTesterMixin,
    MemoryTesterMixin,
    ModelTesterMixin,
    TorchCompileTesterMixin,
    TrainingTesterMixin,
    assert_same_weights,
)
from .pipelines import PipelineTesterMixin, assert_stages

__all__ = [
    "TOLERANCE",
    "AttentionTesterMixin",
    "BaseModelTesterConfig",
    "LoraTesterMixin",
    "MemoryTesterMixin",
    "ModelTesterMixin",
    "PipelineTesterMixin",
    "TorchCompileTesterMixin",
    "TrainingTesterMixin",
    "assert_close",
    "assert_same_weights",
    "assert_stages",
    "randomized",
    "relative_l2",
]

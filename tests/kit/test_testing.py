"""The mixins of the kit: a gradient that is nothing but rounding is no difference, and a real one is."""

import pytest
import torch
from torch import nn

from lockstep.configuration import ConfigMixin, register_to_config
from lockstep.kit.testing import models
from lockstep.kit.testing.models import ModelTesterMixin
from lockstep.models.modeling import ModelMixin


class Attending(ModelMixin, ConfigMixin):
    """Attention whose keys have a bias, which a softmax does not see."""

    @register_to_config
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return ((self.to_q(x) @ self.to_k(x).mT).softmax(dim=-1) @ self.to_v(x),)


class Reference(Attending):
    """The same with the scores in another order of operations."""

    def forward(self, x):
        scores = torch.einsum("bqd,dk,bsk->bqs", self.to_q(x), self.to_k.weight, x)
        scores = scores + (self.to_q(x) * self.to_k.bias).sum(-1, keepdim=True)
        return (scores.softmax(dim=-1) @ self.to_v(x),)


class Config(ModelTesterMixin):
    model_class = Attending
    scale = 1.0

    def init_dict(self):
        return {"width": 8}

    def inputs(self):
        return {"x": 3 * torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(0))}

    def reference(self, folder, model):
        other = Reference(width=8)
        other.load_state_dict(model.state_dict())
        other.to_v.weight.register_hook(lambda gradient: gradient * self.scale)
        return other


def test_the_bias_of_keys_has_no_gradient_to_compare(tmp_path, monkeypatch):
    Config().test_gradients_against_reference(tmp_path)
    monkeypatch.setattr(models, "ROUNDING", 0.0)
    with pytest.raises(AssertionError, match=r"gradient of to_k\.bias"):
        Config().test_gradients_against_reference(tmp_path)


def test_a_gradient_that_differs_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(Config, "scale", 1.01)
    with pytest.raises(AssertionError, match=r"gradient of to_v\.weight"):
        Config().test_gradients_against_reference(tmp_path)

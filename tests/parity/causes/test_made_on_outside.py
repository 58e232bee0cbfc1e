"""What the reference does with a result inside of its model, a port may do in the code that calls it."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing, Verdict
from parity.causes.test_classes import diagnosed, drawn, seeded

X, HINT = drawn(2, 8, 4, 4), drawn(2, 8, 4, 4, seed=2)
SCALE = 0.8


class Control(nn.Module):
    """Residuals for each level of a net and one for its middle."""

    def __init__(self, nested):
        super().__init__()
        self.first, self.second, self.hint = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.levels, self.middle = nn.ModuleList(nn.Conv2d(8, 8, 1) for _ in range(2)), nn.Conv2d(8, 8, 1)
        self.nested = nested

    def begun(self, x, hint):
        x = self.first(x) + self.hint(hint)
        return x, x

    def forward(self, x, hint):
        x, kept = self.begun(x, hint)
        y = self.second(torch.relu(x))
        given = [self.levels[0](kept), self.levels[1](y), self.middle(torch.relu(y))]
        return ([SCALE * z for z in given[:2]], SCALE * given[2]) if self.nested else given


class Bent(Control):
    def begun(self, x, hint):
        x = self.first(x)
        return x + self.hint(hint), x + torch.tanh(self.hint(hint))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))

    def forward(self, x, levels, middle):
        x = torch.relu(self.first(x) + levels[0])
        return self.last(torch.relu(self.middle(x) + middle) + levels[1])


class Pipeline:
    def __init__(self, control):
        self.control, self.net = seeded(control), seeded(Net())

    @torch.no_grad()
    def __call__(self):
        given = self.control(X, HINT)
        if self.control.nested:
            return self.net(X, *given)
        return self.net(X, [SCALE * z for z in given[:2]], SCALE * given[2])


def result_of(folder, port):
    return diagnosed(folder, Pipeline(Control(nested=True)), Pipeline(port), lambda pipe: pipe(), evaluations=60)


def test_a_list_of_unscaled_results_is_right(tmp_path):
    """Also where the reference returns a list and one more."""
    result = result_of(tmp_path, Control(nested=False))
    assert result.verdict in (Verdict.PASS, Verdict.NOISE), result.sentence()


def test_a_fault_inside_is_told_and_not_the_scale(tmp_path):
    result = result_of(tmp_path, Bent(nested=False))
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "tanh(" in cause.why, cause.why
    assert "0.8" not in cause.why, cause.why

"""A search that is ended from outside still gives its verdict, and leaves signals as they were."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import torch
from torch import nn

from lockstep.cli.parity.runs import RunRecipe, Side
from lockstep.parity.causes.interrupts import ending_orderly
from parity.causes.test_classes import diagnosed, drawn, seeded


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 6)

    def forward(self, x):
        return self.proj(x).cumsum(-1)


class Other(Model):
    """Nothing that anybody would guess."""

    def forward(self, x):
        return self.proj(x).cumsum(-1).sort(-1).values ** 3 + torch.roll(x, 2, 1).sin()


@pytest.fixture(autouse=True)
def nobody_handles_signals():
    """As in a new process: a command that was tested in this one before has left its handler."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGXCPU)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGXCPU"])
def test_a_signal_ends_the_search_with_its_verdict(tmp_path, name):
    number, asked = getattr(signal, name), []

    def tell(words):
        if not asked and signal.getsignal(number) is not signal.SIG_DFL:  # else it would end the tests
            asked.append(words)
            os.kill(os.getpid(), number)

    result = diagnosed(tmp_path, seeded(Model()), seeded(Other()), lambda m: m(drawn(2, 5, 6)), tell=tell)
    assert asked
    assert result.search.interrupted
    assert result.verdict == "BUG"
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.parametrize("where", ["arranged_traces", "recorded_causes"])
def test_an_interrupt_before_the_search_leaves_the_answer(tmp_path, monkeypatch, where):
    """Whatever is done behind the verdict's line, its end is the verdict with what is known."""
    from lockstep.cli.parity import proofs
    from lockstep.parity.causes import diagnosis
    from lockstep.parity.comparison import answer

    def signalled(*args):
        os.kill(os.getpid(), signal.SIGTERM)

    result = diagnosed(tmp_path, seeded(Model()), seeded(Other()), lambda m: m(drawn(2, 5, 6)), limit=0)
    result.causes, result.nodes[0].arranged = [], "4 rows in 2 calls"
    monkeypatch.setattr(answer if where == "arranged_traces" else diagnosis, where, signalled)
    run = RunRecipe("port.py:build")
    proofs.name_causes(result, Side(run, seeded(Model()), None), Side(run, seeded(Other()), None))
    assert result.search.interrupted
    assert result.causes[0].name == "unknown"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_other_threads_leave_signals_alone():
    done = []

    def run():
        with ending_orderly():
            done.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done == [signal.SIG_DFL]

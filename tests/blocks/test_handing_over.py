"""A block that is a generator hands over what it yields, while it runs; an interrupt between keeps what is done."""

import pytest
import torch

from lockstep.blocks import ModularPipelineBlocks, OutputParam, SequentialPipelineBlocks
from lockstep.errors import InterruptedRun


class Counts(ModularPipelineBlocks):
    """One, two, three."""

    outputs = [OutputParam("seen", list)]

    def __call__(self, components, state):
        seen = []
        try:
            for number in (1, 2, 3):
                seen.append((number, torch.is_grad_enabled()))
                yield number
        finally:
            state.seen = seen


def pipeline():
    return SequentialPipelineBlocks({"counts": Counts}).init_pipeline()


def test_values_come_as_they_are_ready_and_nothing_leaks_out():
    grads, found = [], []
    for event in pipeline().stream():
        if event.kind == "frames":
            grads.append(torch.is_grad_enabled())
            found.append(event.value)
    assert found == [1, 2, 3]
    assert grads == [True] * 3  # the block computes without gradients, who listens does not
    assert event.value.state.seen == [(1, False), (2, False), (3, False)]


def test_an_interrupt_between_two_values_keeps_what_is_done():
    run = pipeline().run()
    run.observers.append(lambda event: run.interrupt() if event.value == 2 else None)
    with pytest.raises(InterruptedRun, match="counts") as stopped:
        run.result()
    assert [number for number, _ in stopped.value.state.seen] == [1, 2]


def test_an_error_names_the_block():
    class Fails(Counts):
        """Breaks after the first."""

        def __call__(self, components, state):
            yield 1
            raise ValueError("no more")

    with pytest.raises(ValueError, match="no more") as caught:
        SequentialPipelineBlocks({"fails": Fails}).init_pipeline()()
    assert any("'fails'" in note for note in caught.value.__notes__)

"""Blocks in the manner of scripts for the wider ecosystem: defaults of branches, groups of values, a run's values."""

import pytest

from lockstep.blocks import (
    AutoPipelineBlocks,
    ConditionalPipelineBlocks,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
)
from lockstep.errors import InputError, UnknownNameError


class Edit(ModularPipelineBlocks):
    """A little of the picture."""

    inputs = [InputParam("image"), InputParam("strength", float, default=0.3)]
    outputs = [OutputParam("used")]

    def __call__(self, components, state):
        state.used = state.strength


class Paint(Edit):
    """Nearly all of it."""

    inputs = [InputParam("image"), InputParam("mask"), InputParam("strength", float, default=0.9)]


class EditOrPaint(AutoPipelineBlocks):
    """By what is given."""

    block_classes = [Paint, Edit]
    block_names = ["paint", "edit"]
    block_trigger_inputs = ["mask", "image"]


class Refine(ConditionalPipelineBlocks):
    """One choice inside another."""

    block_classes = [Paint, EditOrPaint]
    block_names = ["refine", "first"]
    block_trigger_inputs = ["again"]
    default_block_name = "first"

    def select_block(self, again=None):
        return "refine" if again else None


def strength_of(blocks):
    return next(param for param in blocks.inputs if param.name == "strength")


def test_branches_that_disagree_on_a_default_each_say_theirs():
    merged = strength_of(EditOrPaint())
    assert merged == InputParam("strength", float, defaults_by_block={"paint": 0.9, "edit": 0.3})
    nested = strength_of(Refine())
    assert nested.default is None
    assert nested.defaults_by_block == {"refine": 0.9, "first.paint": 0.9, "first.edit": 0.3}
    assert strength_of(Edit()).defaults_by_block is None
    told = " ".join(Refine().doc.split())
    assert "strength (`float`, *optional*, defaults to 0.9 or 0.3, depending on the workflow):" in told
    assert "defaults to 0.3):" in Edit().doc
    assert EditOrPaint().init_pipeline()(image="i").get("used") == 0.3
    assert EditOrPaint().init_pipeline()(image="i", mask="m").get("used") == 0.9


class Make(ModularPipelineBlocks):
    """One value of the group, and one beside it."""

    inputs = [InputParam("a"), InputParam("b")]
    outputs = [OutputParam("a", kwargs_type="fields"), OutputParam("b")]

    def __call__(self, components, state):
        state.a, state.b = f"{state.a}!", f"{state.b}!"


class Take(ModularPipelineBlocks):
    """All of the group, whatever is in it."""

    inputs = [InputParam(kwargs_type="fields"), InputParam("b")]
    outputs = [OutputParam("taken")]

    def __call__(self, components, state):
        working = self.get_block_state(state)
        working.taken = (dict(working.fields), getattr(working, "c", None), working.b)
        self.set_block_state(state, working)


def test_a_group_of_values_is_given_as_a_dictionary():
    pipe = Take().init_pipeline()
    assert pipe(fields={"c": 1, "d": 2}, output="taken") == ({"c": 1, "d": 2}, 1, None)
    assert pipe(output="taken") == ({}, None, None)  # nothing is left of the run before
    both = SequentialPipelineBlocks({"make": Make, "take": Take})
    assert both.init_pipeline()(a="x", b="y", fields={"c": 1}, output="taken") == ({"a": "x!", "c": 1}, 1, "y!")
    assert [param.kwargs_type for param in both.inputs if param.name is None] == ["fields"]
    assert "**fields" in both.doc
    with pytest.raises(InputError, match="'fields' wants a dictionary of values by name, got int 3"):
        pipe(fields=3)
    with pytest.raises(UnknownNameError, match="'c'"):
        pipe(c=1)


def test_the_values_of_a_run_by_name_and_those_of_the_result():
    made = Edit().init_pipeline()(image="i")
    assert made.values["used"] == 0.3
    assert sorted(made.values) == ["image", "strength", "used"]
    assert made.values() == (0.3,)
    assert dict(made) == {"used": 0.3}

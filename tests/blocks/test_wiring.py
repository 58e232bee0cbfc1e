"""Who reads and makes what, checked when a pipeline is put together."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks import tiny
from lockstep.blocks import (
    AutoPipelineBlocks,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
)
from lockstep.blocks.wiring import check_wiring, trace
from lockstep.errors import UnknownNameError, WiringError


def leaf(reads=(), makes=(), name="Leaf"):
    """A block that reads required tensors and makes tensors; a made value is one more than the sum of what was read."""

    def call(self, components, state):
        total = sum((getattr(state, r) for r in reads), torch.ones(()))
        for made in makes:
            setattr(state, made, total)

    inputs = [InputParam(r, torch.Tensor, required=True) for r in reads]
    return type(
        name,
        (ModularPipelineBlocks,),
        {"inputs": inputs, "outputs": [OutputParam(m, torch.Tensor) for m in makes], "__call__": call},
    )


def test_a_missing_producer_names_block_value_and_candidates():
    with pytest.raises(WiringError) as caught:
        tiny.pipeline(lambda: tiny.TinyBlocks().removed("prepare"))
    message = str(caught.value)
    assert message.startswith("Block 'mix.mix' (MixImage) needs 'latents' (Tensor), but no block before it makes it.")
    assert "PrepareLatents" in message
    assert "given=['latents']" in message


def test_a_producer_that_comes_too_late_is_named():
    with pytest.raises(WiringError, match="made only later, by 'second'"):
        SequentialPipelineBlocks({"first": leaf(["x"]), "second": leaf([], ["x"])}).init_pipeline()


def test_a_near_miss_is_pointed_out():
    with pytest.raises(WiringError, match="Did you mean 'embedding'"):
        SequentialPipelineBlocks({"first": leaf([], ["embedding"]), "second": leaf(["embeding"])}).init_pipeline()


def test_what_the_caller_gives_by_hand():
    blocks = SequentialPipelineBlocks({"use": leaf(["x"], ["y"])})
    with pytest.raises(WiringError, match="needs 'x'"):
        blocks.init_pipeline()
    assert blocks.init_pipeline(given=["x"])(x=torch.tensor(2.0)).y == 3
    with pytest.raises(UnknownNameError, match="value in given= 'z'"):
        blocks.init_pipeline(given=["z"])


def test_two_producers_must_agree_on_the_type():
    other = type("Other", (ModularPipelineBlocks,), {"outputs": [OutputParam("x", int)]})
    with pytest.raises(
        WiringError, match=r"'x' has two types: block 'a' \(Leaf\) says Tensor, block 'b' \(Other\) says int"
    ):
        SequentialPipelineBlocks({"a": leaf([], ["x"]), "b": other}).init_pipeline()


def test_producer_and_consumer_must_agree_on_the_type():
    reader = type("Reader", (ModularPipelineBlocks,), {"inputs": [InputParam("x", str)]})
    with pytest.raises(WiringError, match="'x' has two types"):
        SequentialPipelineBlocks({"a": leaf([], ["x"]), "b": reader}).init_pipeline()
    union = type("Union", (ModularPipelineBlocks,), {"inputs": [InputParam("x", torch.Tensor | str)]})
    check_wiring(SequentialPipelineBlocks({"a": leaf([], ["x"]), "b": union}))


def test_two_defaults_are_refused_in_a_sequence_and_allowed_in_branches():
    def reader(default):
        return type("Reader", (ModularPipelineBlocks,), {"inputs": [InputParam("n", int, default=default)]})

    with pytest.raises(
        WiringError, match=r"'n' has two defaults: block 'a' \(Reader\) says 1, block 'b' \(Reader\) says 2"
    ):
        SequentialPipelineBlocks({"a": reader(1), "b": reader(2)}).init_pipeline()
    check_wiring(SequentialPipelineBlocks({"a": reader(1), "b": reader(None), "c": reader(1)}))
    Choice = type("Choice", (AutoPipelineBlocks,), {"block_trigger_inputs": ["image", None]})
    pipe = Choice({"a": reader(1), "b": reader(2)}).init_pipeline()
    assert next(param for param in pipe.inputs if param.name == "n").default is None


def test_branches_that_run_together_must_agree():
    def chosen(default):
        reader = type(
            "Reader",
            (ModularPipelineBlocks,),
            {"inputs": [InputParam("n", int, default=default)], "__call__": lambda *a: None},
        )
        return type("Choice", (AutoPipelineBlocks,), {"block_trigger_inputs": ["image"]})({"only": reader})

    blocks = SequentialPipelineBlocks({"a": chosen(1), "b": chosen(2)})
    pipe = blocks.init_pipeline()
    pipe()
    with pytest.raises(WiringError, match="two defaults"):
        pipe(image=torch.zeros(1))
    named = type("Named", (SequentialPipelineBlocks,), {"workflows": {"picture": ["image"]}})
    with pytest.raises(WiringError, match="two defaults"):
        named(blocks.sub_blocks).init_pipeline()


def test_a_value_that_only_some_branches_make():
    Maybe = type("Maybe", (AutoPipelineBlocks,), {"block_trigger_inputs": ["image"]})
    blocks = SequentialPipelineBlocks({"maybe": Maybe({"make": leaf([], ["x"])}), "use": leaf(["x"], ["y"])})
    pipe = blocks.init_pipeline()
    assert pipe(image=torch.zeros(1)).y == 2
    with pytest.raises(
        ValueError,
        match=r"Block 'use' \(Leaf\) needs 'x'.*It would be made by 'maybe.make' \(Leaf\), which runs as maybe = make",
    ):
        pipe()
    assert [param.name for param in pipe.inputs] == ["image"], (
        "what a block makes in some branches is not for the caller"
    )
    named = type("Named", (SequentialPipelineBlocks,), {"workflows": {"plain": []}})
    with pytest.raises(WiringError, match=r"needs 'x'.*\(workflow 'plain'\)"):
        named(blocks.sub_blocks).init_pipeline()


def test_a_value_that_only_some_branches_make_may_be_given_where_a_block_says_so():
    Maybe = type("Maybe", (AutoPipelineBlocks,), {"block_trigger_inputs": ["image"]})
    use = leaf(["x"], ["y"])
    use.inputs = [InputParam("x", torch.Tensor, required=True, given=True)]
    pipe = SequentialPipelineBlocks({"maybe": Maybe({"make": leaf([], ["x"])}), "use": use}).init_pipeline()
    assert pipe(x=torch.tensor(4.0)).y == 5
    assert pipe(image=torch.zeros(1)).y == 2


def test_loop_arguments_only_inside_loops():
    with pytest.raises(WiringError, match="asks for i, t but does not stand inside a loop"):
        SequentialPipelineBlocks(
            {"encode": tiny.Encode, "set": tiny.SetTimesteps, "prepare": tiny.PrepareLatents, "p": tiny.Predict}
        ).init_pipeline()
    odd = type("Odd", (ModularPipelineBlocks,), {"__call__": lambda self, components, state, frame: None})
    with pytest.raises(WiringError, match="asks for 'frame'"):
        type("L", (LoopSequentialPipelineBlocks,), {"loop_over": 2})({"odd": odd}).init_pipeline()


def test_result_names_have_to_be_made():
    with pytest.raises(WiringError, match="gives 'videos' as its result"):
        type("S", (SequentialPipelineBlocks,), {"outputs": ["videos"]})({"a": leaf([], ["x"])}).init_pipeline()


def test_names_of_blocks():
    for name in ("a.b", "0", "", "a b"):
        with pytest.raises(WiringError, match="identifier"):
            SequentialPipelineBlocks({name: leaf()})
    with pytest.raises(WiringError, match="one different name per block"):
        type("S", (SequentialPipelineBlocks,), {"block_classes": [tiny.Encode, tiny.Encode]})()
    with pytest.raises(WiringError, match="A block is wanted"):
        SequentialPipelineBlocks({"a": 3}).init_pipeline()
    assert list(type("S", (SequentialPipelineBlocks,), {"block_classes": [tiny.SetTimesteps]})().sub_blocks) == [
        "set_timesteps"
    ]


def test_trace_of_the_tiny_pipeline():
    flow = trace(tiny.TinyBlocks())
    edges = {(a.path, name, b.path) for a, name, b in flow.edges}
    assert ("text_encoder", "prompt_embeds", "denoise.predict") in edges
    assert ("denoise.step", "latents", "decode") in edges
    assert ("image_encoder.encode", "image_latents", "mix.mix") in edges
    assert "image_latents" not in flow.inputs
    assert {"prompt", "image", "latents", "generator"} <= set(flow.inputs)
    assert flow.groups["denoiser_input_fields"] == ["prompt_embeds", "negative_prompt_embeds"]


NAMES = ["a", "b", "c", "d"]
LEAVES = st.tuples(st.sets(st.sampled_from(NAMES), max_size=2), st.sets(st.sampled_from(NAMES), max_size=2))


@settings(max_examples=60, deadline=None)
@given(st.lists(LEAVES, min_size=1, max_size=5), st.data())
def test_the_check_accepts_exactly_what_can_run(leaves, data):
    """A sequence is accepted if and only if every value was made before it is read; then it runs,
    however it is nested."""
    made, runs = set(), True
    for reads, makes in leaves:
        runs &= reads <= made
        made |= makes
    parts = {f"b{k}": leaf(sorted(reads), sorted(makes)) for k, (reads, makes) in enumerate(leaves)}
    cut = data.draw(st.integers(0, len(parts)))
    names = list(parts)
    inner = SequentialPipelineBlocks({name: parts[name] for name in names[:cut]})
    tree = SequentialPipelineBlocks({"inner": inner, **{name: parts[name] for name in names[cut:]}})
    if not runs:
        with pytest.raises(WiringError, match="no block before it makes it"):
            tree.init_pipeline()
        return
    pipe = tree.init_pipeline()
    state = pipe.run()
    list(state)
    assert {name for name in NAMES if name in state.state} == made


def test_needs_in_the_middle_of_a_tree_become_inputs_of_the_part():
    part = SequentialPipelineBlocks({"use": leaf(["x"], ["y"]), "again": leaf(["y", "z"])})
    assert part.input_names == ["x", "z"]
    assert part.output_names == ["y"]
    assert needs("latents")[0].required

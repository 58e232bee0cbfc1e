"""A block sees what it declares and nothing else."""

import pytest
import torch

from blocks import tiny
from lockstep.blocks import InputParam, ModularPipelineBlocks, OutputParam, PipelineState
from lockstep.errors import WiringError


def run_block(body, inputs=("prompt",), **values):
    class Probe(ModularPipelineBlocks):
        pass

    Probe.inputs = [InputParam.template(i) if isinstance(i, str) else i for i in inputs]
    Probe.outputs = [OutputParam("out", int)]
    Probe.__call__ = lambda self, components, state: body(components, state)
    return Probe().init_pipeline()(**values)


def write(name, value):
    def body(components, state):
        setattr(state, name, value)

    return body


def test_declared_names_work():
    assert run_block(lambda c, s: write("out", len(s.prompt))(c, s), prompt="four").out == 4


def test_reading_an_undeclared_name_names_the_block():
    with pytest.raises(
        WiringError, match=r"Block 'probe' \(Probe\) reads 'latents', which it does not declare.*declared: out, prompt"
    ):
        run_block(lambda c, s: s.latents, prompt="x")


def test_writing_an_undeclared_name_names_the_block():
    with pytest.raises(
        WiringError, match=r"Block 'probe' \(Probe\) writes 'prompt', which it does not declare.*declared: out"
    ):
        run_block(write("prompt", "y"), prompt="x")


def test_getattr_with_a_default_does_not_hide_the_mistake():
    with pytest.raises(WiringError, match="reads 'latents'"):
        run_block(lambda c, s: getattr(s, "latents", None), prompt="x")


def test_a_declared_output_has_to_be_written():
    with pytest.raises(WiringError, match=r"Block 'probe' \(Probe\) declares the output 'out' but did not write it"):
        run_block(lambda c, s: None, prompt="x")


def test_reading_an_own_output_before_it_is_written():
    with pytest.raises(WiringError, match="reads 'out' before anything has written it"):
        run_block(lambda c, s: s.out, prompt="x")


def test_optional_inputs_read_as_their_default():
    inputs = [InputParam("number", int, default=5), InputParam("nothing", int)]
    assert run_block(lambda c, s: write("out", (s.number, s.nothing))(c, s), inputs=inputs).out == (5, None)


def test_defaults_are_not_shared_between_runs():
    seen = []

    def body(components, state):
        state.numbers.append(1)
        seen.append(list(state.numbers))
        state.out = 0

    class Probe(ModularPipelineBlocks):
        inputs = [InputParam("numbers", list, default=[])]
        outputs = [OutputParam("out", int)]

        def __call__(self, components, state):
            body(components, state)

    pipe = Probe().init_pipeline()
    pipe()
    pipe()
    assert seen == [[1], [1]]


def test_undeclared_components_are_refused():
    class Sneaky(tiny.Encode):
        expected_components = []

    pipe = tiny.pipeline().replace_block("text_encoder", Sneaky)
    pipe.insert_block("uses", tiny.Encode, after="text_encoder")
    with pytest.raises(
        WiringError, match=r"Block 'text_encoder' \(Sneaky\) reads components.text_encoder, .*Declared: none"
    ):
        pipe("x")


def test_components_cannot_be_set_by_a_block():
    def body(components, state):
        components.scratch = 1

    with pytest.raises(WiringError, match="sets components.scratch"):
        run_block(body, prompt="x")


def test_groups_give_every_member():
    class Make(ModularPipelineBlocks):
        inputs = ["prompt"]
        outputs = [
            "prompt_embeds",
            OutputParam("extra", torch.Tensor, kwargs_type="denoiser_input_fields"),
            "negative_prompt_embeds",
        ]

        def __call__(self, components, state):
            state.prompt_embeds, state.extra, state.negative_prompt_embeds = torch.ones(1), torch.zeros(1), None

    class Use(ModularPipelineBlocks):
        inputs = [InputParam(kwargs_type="denoiser_input_fields")]
        outputs = [OutputParam("seen", list)]

        def __call__(self, components, state):
            assert state.extra.item() == 0
            assert state.negative_prompt_embeds is None
            state.seen = sorted(state.denoiser_input_fields)

    from lockstep.blocks import SequentialPipelineBlocks

    assert SequentialPipelineBlocks({"make": Make, "use": Use}).init_pipeline()("x").seen == ["extra", "prompt_embeds"]


def test_pipeline_state_reads_like_an_object():
    state = PipelineState({"a": 1})
    state.set("b", 2, "writer")
    assert (state.a, state.get("b"), state.get("c", 3), "a" in state) == (1, 2, 3, True)
    assert state.writers == {"b": "writer"}
    with pytest.raises(AttributeError, match="there are: a, b"):
        state.c


def test_an_output_that_only_has_a_default_was_not_written():
    class Forgets(tiny.PrepareLatents):
        inputs = [param for param in tiny.PrepareLatents.inputs if param.name != "latents"]

        def __call__(self, components, state):
            pass

    pipe = tiny.pipeline().replace_block("prepare", Forgets)
    with pytest.raises(WiringError, match=r"'prepare' \(Forgets\) declares the output 'latents' but did not write it"):
        pipe("x")

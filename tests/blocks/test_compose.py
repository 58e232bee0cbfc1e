"""Sequences, loops and choices, nested; editing by path; workflows."""

import pytest
import torch

from blocks import tiny
from lockstep.blocks import (
    AutoPipelineBlocks,
    ConditionalPipelineBlocks,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
)
from lockstep.errors import InputError, UnknownNameError, WiringError

LOG = OutputParam("log", list)


class Start(ModularPipelineBlocks):
    """An empty log."""

    outputs = [LOG]

    def __call__(self, components, state):
        state.log = []


def note(text, *arguments):
    """A block that appends `text` and its loop arguments to the log."""
    names = ", ".join(("self", "components", "state", *arguments))
    values = "".join(f"{name}, " for name in arguments)
    space = {}
    exec(f"def call({names}):\n    state.log = state.log + [('{text}', {values})]", space)
    inputs = [InputParam("log", list, required=True, given=False)]
    return type("Note", (ModularPipelineBlocks,), {"inputs": inputs, "outputs": [LOG], "__call__": space["call"]})


def loop(over, blocks):
    return type("Loop", (LoopSequentialPipelineBlocks,), {"loop_over": over})(blocks)


def run(blocks, **values):
    return SequentialPipelineBlocks({"start": Start, **blocks}).init_pipeline()(**values).log


def test_a_loop_over_items_gives_index_and_item():
    assert run({"loop": loop("things", {"n": note("n", "i", "t")})}, things=["x", "y"]) == [
        ("n", 0, "x"),
        ("n", 1, "y"),
    ]


def test_a_count_gives_k_and_i_means_the_same_there():
    assert run({"loop": loop("count", {"n": note("n", "k")})}, count=3) == [("n", 0), ("n", 1), ("n", 2)]
    assert run({"loop": loop(2, {"n": note("n", "i")})}) == [("n", 0), ("n", 1)]
    with pytest.raises(WiringError, match="asks for t .*only count. Ask for k"):
        run({"loop": loop(2, {"n": note("n", "t")})})


def test_a_block_in_a_loop_need_not_ask():
    assert run({"loop": loop(2, {"n": note("n")})}) == [("n",), ("n",)]


def test_loops_inside_loops():
    inner = loop("things", {"n": note("n", "k", "i", "t")})
    outer = loop("count", {"before": note("before", "k"), "inner": inner})
    assert run({"outer": outer}, count=2, things=["x", "y"]) == [
        ("before", 0), ("n", 0, 0, "x"), ("n", 0, 1, "y"), ("before", 1), ("n", 1, 0, "x"), ("n", 1, 1, "y"),
    ]  # fmt: skip


def test_a_loop_may_say_itself_what_it_runs_over():
    class Stages(LoopSequentialPipelineBlocks):
        block_classes = {"n": note("n", "i", "t")}
        loop_inputs = [InputParam("size", int, required=True)]

        def loop_items(self, components, state):
            return [state.size // 2, state.size]

    assert run({"stages": Stages()}, size=64) == [("n", 0, 32), ("n", 1, 64)]
    with pytest.raises(WiringError, match="nothing to loop over"):
        run({"loop": loop(None, {"n": note("n")})})


def test_an_empty_loop_runs_no_block():
    assert run({"loop": loop("things", {"n": note("n", "t")})}, things=[]) == []


def auto(triggers, blocks):
    return type("Auto", (AutoPipelineBlocks,), {"block_trigger_inputs": triggers})(blocks)


def test_auto_blocks_take_the_first_trigger_that_is_given():
    choice = auto(
        ["mask_image", "image", None], {"paint": note("paint"), "picture": note("picture"), "text": note("text")}
    )
    assert run({"choice": choice}) == [("text",)]
    assert run({"choice": choice}, image=torch.ones(1)) == [("picture",)]
    assert run({"choice": choice}, image=torch.ones(1), mask_image=torch.ones(1)) == [("paint",)]


def test_a_choice_keeps_its_triggers_when_a_branch_goes():
    choice = auto(
        ["mask_image", "image", None], {"paint": note("paint"), "picture": note("picture"), "text": note("text")}
    )
    without = choice.removed("paint")
    assert run({"choice": without}, image=torch.ones(1)) == [("picture",)]
    assert run({"choice": without}) == [("text",)]
    assert "if image" in SequentialPipelineBlocks({"choice": without}).draw()
    assert run({"choice": choice.removed("text")}) == []
    assert run({"choice": choice}, image=torch.ones(1), mask_image=torch.ones(1)) == [("paint",)]
    with pytest.raises(WiringError, match="'more' would have none"):
        choice.inserted("more", note("more"))


def test_auto_blocks_without_a_default_are_skipped():
    assert run({"choice": auto(["image"], {"picture": note("picture")})}) == []


def test_auto_blocks_are_checked():
    with pytest.raises(WiringError, match="one trigger .* per block, got 1 for 2"):
        auto(["image"], {"a": note("a"), "b": note("b")})
    with pytest.raises(WiringError, match="2 blocks without a trigger"):
        auto([None, None], {"a": note("a"), "b": note("b")})


def test_a_choice_looks_at_what_blocks_made():
    class Make(ModularPipelineBlocks):
        inputs = [InputParam("size", int, required=True)]
        outputs = [OutputParam("big", bool)]

        def __call__(self, components, state):
            state.big = state.size > 10 or None

    choice = auto(["big", None], {"large": note("large"), "small": note("small")})
    assert run({"make": Make, "choice": choice}, size=20) == [("large",)]
    assert run({"make": Make, "choice": choice}, size=2) == [("small",)]


def test_choices_inside_loops_and_choices_inside_choices():
    inner = auto(["mask_image", None], {"masked": note("masked", "k"), "bare": note("bare", "k")})
    outer = auto(["image", None], {"picture": inner, "text": SequentialPipelineBlocks({"deep": note("text", "k")})})
    tree = {"loop": loop(2, {"outer": outer})}
    assert run(tree) == [("text", 0), ("text", 1)]
    assert run(tree, image=torch.ones(1)) == [("bare", 0), ("bare", 1)]
    assert run(tree, image=torch.ones(1), mask_image=torch.ones(1)) == [("masked", 0), ("masked", 1)]


def test_select_block_is_checked():
    wrong = type("Wrong", (ConditionalPipelineBlocks,), {"select_block": lambda self, **kw: "nowhere"})
    with pytest.raises(UnknownNameError, match="chosen by Wrong.select_block 'nowhere'"):
        run({"choice": wrong({"a": note("a")})})
    with pytest.raises(UnknownNameError, match="default_block_name of D"):
        type("D", (ConditionalPipelineBlocks,), {"default_block_name": "x"})({"a": note("a")})


def test_three_ways_to_write_a_sequence():
    by_lists = type(
        "S", (SequentialPipelineBlocks,), {"block_classes": [Start, note("a")], "block_names": ["start", "a"]}
    )
    by_dict = type("S", (SequentialPipelineBlocks,), {"block_classes": {"start": Start, "a": note("a")}})
    by_hand = SequentialPipelineBlocks.from_blocks_dict({"start": Start(), "a": note("a")}, description="By hand.")
    for tree in (by_lists(), by_dict(), by_hand):
        assert list(tree.sub_blocks) == ["start", "a"]
        assert tree.init_pipeline()().log == [("a",)]
    assert by_hand.description == "By hand."


# ---- editing ----


def test_insert_replace_remove():
    tree = SequentialPipelineBlocks({"start": Start, "loop": loop(2, {"a": note("a"), "b": note("b")})})
    pipe = tree.init_pipeline()
    assert pipe.insert_block("loop.c", note("c"), after="a")().log == [("a",), ("c",), ("b",)] * 2
    assert pipe.insert_block("loop.first", note("first"), before="loop.a")().log[0] == ("first",)
    assert pipe.replace_block("loop.first", note("other"))().log[0] == ("other",)
    assert pipe.remove_block("loop.b").remove_block("loop.c")().log == [("other",), ("a",)] * 2
    assert pipe.insert_block("loop.zero", note("zero"), index=0)().log[0] == ("zero",)
    assert list(tree.sub_blocks["loop"].sub_blocks) == ["a", "b"], (
        "the tree that the pipeline was made from has changed"
    )


def test_edits_are_checked():
    pipe = tiny.pipeline()
    before = pipe.draw()
    with pytest.raises(WiringError, match="needs 'noise_pred'"):
        pipe.remove_block("denoise.predict")
    with pytest.raises(UnknownNameError, match="did you mean 'predict'"):
        pipe.replace_block("denoise.predct", tiny.Predict)
    with pytest.raises(UnknownNameError, match="block 'nowhere'"):
        pipe.insert_block("denoise.x", tiny.Step, after="nowhere")
    with pytest.raises(InputError, match="already"):
        pipe.insert_block("denoise.step", tiny.Step)
    with pytest.raises(InputError, match="one of after=, before= and index="):
        pipe.insert_block("denoise.x", tiny.Step, after="step", index=0)
    with pytest.raises(UnknownNameError, match="block with parts"):
        pipe.insert_block("decode.x", tiny.Step)
    assert pipe.draw() == before


def test_an_inserted_block_changes_inputs_and_results():
    class Brighten(ModularPipelineBlocks):
        inputs = [InputParam("images", torch.Tensor, required=True), InputParam("brightness", float, default=2.0)]
        outputs = [OutputParam("images", torch.Tensor)]

        def __call__(self, components, state):
            state.images = state.images * state.brightness

    plain, pipe = tiny.pipeline(), tiny.pipeline().insert_block("brighten", Brighten, after="decode")
    assert torch.equal(pipe("cat", seed=1, brightness=3.0).images, plain("cat", seed=1).images * 3.0)
    with pytest.raises(UnknownNameError, match="brightness"):
        plain("cat", brightness=3.0)


def test_sub_blocks_insert_in_place():
    tree = SequentialPipelineBlocks({"start": Start, "b": note("b")})
    tree.sub_blocks.insert("a", note("a"), 1)
    assert tree.init_pipeline()().log == [("a",), ("b",)]


# ---- workflows ----


def test_workflows_are_listed_and_pruned():
    blocks = tiny.TinyBlocks()
    assert blocks.available_workflows == ["text2image", "image2image"]
    text = blocks.get_workflow("text2image")
    assert list(text.sub_blocks) == ["text_encoder", "set_timesteps", "prepare", "denoise", "decode"]
    assert "image" not in text.input_names
    assert list(blocks.get_workflow("image2image").sub_blocks["image_encoder"].output_names) == ["image_latents"]
    with pytest.raises(UnknownNameError, match="did you mean 'text2image'"):
        blocks.get_workflow("text2img")


def test_a_workflow_needs_only_its_own_components():
    class ImageEncoder(tiny.EncodeImage):
        expected_components = [tiny.ComponentSpec("image_model", tiny.TinyDecoder)]

        def __call__(self, components, state):
            state.image_latents = components.image_model.encode(state.image)

    pipe = tiny.TinyBlocks().replaced("image_encoder.encode", ImageEncoder).init_pipeline(**tiny.models())
    pipe.set_progress_bar_config(disable=True)
    assert pipe("cat", seed=1).images.shape == (1, 3, 4, 4)
    assert [
        spec.name for spec in pipe.blocks.get_workflow("text2image").expected_components if spec.name == "image_model"
    ] == []
    with pytest.raises(
        InputError, match=r"Block 'image_encoder' \(ImageEncoder\) needs the component 'image_model' \(TinyDecoder\)"
    ):
        pipe("cat", image=torch.ones(1, 3, 4, 4))


def test_insisting_on_a_workflow():
    pipe = tiny.pipeline()
    picture = torch.ones(1, 3, 4, 4)
    assert torch.equal(
        pipe("cat", image=picture, seed=1, workflow="image2image").images, pipe("cat", image=picture, seed=1).images
    )
    with pytest.raises(InputError, match=r"needs 'image' .*not given"):
        pipe("cat", workflow="image2image")
    with pytest.raises(InputError, match="'image' was given, but nothing that runs"):
        pipe("cat", image=picture, workflow="text2image")
    assert pipe("cat", seed=1).manifest["workflow"] == "text2image"
    assert pipe("cat", image=picture, seed=1).manifest["workflow"] == "image2image"

"""A block asks for a role; the family says which component plays it. What is not declared cannot be reached."""

from dataclasses import replace

import pytest
import torch

import lockstep
from blocks import tiny
from lockstep.blocks import (
    ComponentSpec,
    ConfigSpec,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
)
from lockstep.errors import InputError, OutlineError, WiringError

DENOISER = ComponentSpec("denoiser", lockstep.ModelMixin, role=True)
SEEN = OutputParam("seen", list, "What the block saw.")


class Ask(ModularPipelineBlocks):
    """Looks at who plays the denoiser."""

    expected_components = [DENOISER]
    outputs = [SEEN]

    def __call__(self, components, state):
        state.seen = [components.denoiser]


class Family(SequentialPipelineBlocks):
    """A family whose denoiser is called `transformer`."""

    roles = {"denoiser": ComponentSpec("transformer", tiny.TinyDenoiser)}
    block_classes = {"ask": Ask}


def test_a_role_is_played_by_the_component_that_the_family_names():
    model = tiny.TinyDenoiser()
    pipe = Family().init_pipeline(transformer=model)
    assert pipe().seen == [model]
    assert list(pipe.component_names) == ["transformer"]
    assert pipe.schema()["components"] == {"transformer": {"type": "TinyDenoiser", "optional": False}}
    assert "Ask: · -> seen  with transformer" in pipe.draw()
    with pytest.raises(InputError, match="Block 'ask' .* needs the component 'transformer' .TinyDenoiser."):
        Family().init_pipeline()()


def test_the_nearest_word_counts():
    class Second(SequentialPipelineBlocks):
        """The second expert."""

        roles = {"denoiser": ComponentSpec("transformer_2", tiny.TinyDenoiser)}
        block_classes = {"ask": Ask}

    class OwnWord(Ask):
        """Says it itself."""

        roles = {"denoiser": ComponentSpec("transformer_3", tiny.TinyDenoiser)}

    class Both(SequentialPipelineBlocks):
        """Three denoisers."""

        roles = Family.roles
        block_classes = {"first": Ask, "second": Second, "third": OwnWord}

    tree = Both()
    names = [tree.block_at(path).component_names for path in ("first", "second.ask", "third")]
    assert names == [["transformer"], ["transformer_2"], ["transformer_3"]]
    edited = tree.inserted("second.again", Ask, after="ask").replaced("third", Ask)
    assert edited.block_at("second.again").component_names == ["transformer_2"]
    assert edited.block_at("third").component_names == ["transformer"]
    assert Ask().component_names == ["denoiser"]  # the class itself is nobody's


def test_a_role_that_nobody_plays_is_refused_at_assembly():
    with pytest.raises(WiringError, match=r"Block 'ask' \(Ask\) works with a 'denoiser'.*roles = {'denoiser'"):
        SequentialPipelineBlocks({"ask": Ask}).init_pipeline()


def test_a_role_is_not_played_by_just_anything():
    class Wrong(Family):
        """A decoder as the denoiser."""

        roles = {"denoiser": ComponentSpec("scheduler", lockstep.DDIMScheduler)}

    with pytest.raises(WiringError, match="'denoiser' wants ModelMixin, but 'scheduler'.*DDIMScheduler"):
        Wrong().init_pipeline()


def test_parts_of_a_table_are_replaced_or_left_out():
    from lockstep.pipelines.common.workflows import AutoStart

    class Other(ModularPipelineBlocks):
        """Another start."""

    made = AutoStart.with_parts(inpainting=None, image2image=Other)()
    assert list(made.sub_blocks) == ["image2image", "text2image"]
    assert made.branch_triggers == {"image2image": "image", "text2image": None}
    assert isinstance(made.sub_blocks["image2image"], Other)
    assert list(AutoStart().sub_blocks) == ["inpainting", "image2image", "text2image"]
    with pytest.raises(lockstep.errors.UnknownNameError, match="did you mean 'inpainting'"):
        AutoStart.with_parts(inpaintin=None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scheduler", r"components.scheduler,.* Add ComponentSpec\('scheduler', …\) to expected_components\.\n"),
        ("latent_size", r"components.latent_size,.* Add ConfigSpec\('latent_size', …\) to expected_configs\.\n"),
        ("vae_scale_factor", r"Add ComponentSpec\('vae_scale_factor', .*, or ConfigSpec\('vae_scale_factor'"),
        ("name_or_path", "components.name_or_path, which it does not declare"),
        ("components", "components.components, which it does not declare"),
    ],
)
def test_what_a_block_does_not_declare_it_cannot_reach(name, words):
    class Sneaky(ModularPipelineBlocks):
        """Reads what it did not declare."""

        expected_components = [tiny.ENCODER]
        expected_configs = [ConfigSpec("own", default=3)]
        outputs = [SEEN]

        def __call__(self, components, state):
            state.seen = [components.own, components.device, components.dtype, getattr(components, name)]

    pipe = tiny.pipeline().insert_block("sneaky", Sneaky)
    with pytest.raises(WiringError, match=words) as caught:
        pipe("x")
    assert "Block 'sneaky' (Sneaky)" in str(caught.value)
    assert "Declared: own, text_encoder" in str(caught.value)


def test_a_loop_declares_what_it_uses_itself():
    class Peeking(tiny.Denoise):
        """Asks for a component of its blocks."""

        def loop_items(self, components, state):
            return components.scheduler.timesteps

    with pytest.raises(WiringError, match="'denoise' .Peeking. reads components.scheduler"):
        tiny.pipeline().replace_block("denoise", Peeking)("x")

    class Honest(Peeking):
        """Declares it."""

        loop_expected_components = [tiny.SCHEDULER]

    tiny.pipeline().replace_block("denoise", Honest)("x")


class Outlined(ModularPipelineBlocks):
    """Asks the config of the denoiser."""

    expected_components = [replace(DENOISER, outline=True)]
    outputs = [SEEN]

    def __call__(self, components, state):
        state.seen = [components.denoiser.config.width]


class Overreaching(Outlined):
    """Runs what it declared as an outline."""

    def __call__(self, components, state):
        state.seen = [components.denoiser(torch.zeros(1), torch.zeros(1), torch.zeros(1))]


def test_an_outline_tells_its_config_and_refuses_the_rest():
    class Tree(Family):
        """A block that asks for the config alone."""

        block_classes = {"ask": Outlined}

    class Greedy(Family):
        """A block that wants more."""

        block_classes = {"ask": Overreaching}

    model = tiny.TinyDenoiser(width=9)
    assert Tree().init_pipeline(transformer=model)().seen == [9]
    with pytest.raises(OutlineError, match="outline of TinyDenoiser has its config, no"):
        Greedy().init_pipeline(transformer=model)()
    with pytest.raises(InputError, match="needs the component 'transformer'"):
        Tree().init_pipeline()()


def test_the_weights_of_an_outline_are_not_read(folder, tmp_path):
    import shutil

    shutil.copytree(folder, tmp_path / "sd")
    (tmp_path / "sd" / "vae" / "diffusion_pytorch_model.safetensors").unlink()
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    arguments = {"prompt": "a cat", "seed": 1, "num_inference_steps": 2, "output_type": "latent"}
    for size in ({}, {"height": 16, "width": 24}):
        pipe = lockstep.DiffusionPipeline.from_pretrained(tmp_path / "sd", load=False)
        made = pipe(**arguments, **size).images
        assert torch.equal(made, whole(**arguments, **size).images)
        assert pipe.components["vae"] is None
        assert pipe.components["unet"] is not None
    with pytest.raises(lockstep.errors.LoadError):
        pipe("a cat", num_inference_steps=2)


def test_ready_embeddings_load_no_text_encoder(folder):
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    ready = whole("a cat", output=["prompt_embeds", "negative_prompt_embeds"])
    pipe = lockstep.DiffusionPipeline.from_pretrained(folder, load=False)
    pipe(**ready, num_inference_steps=2, output_type="latent")
    assert pipe.components["text_encoder"] is pipe.components["vae"] is None
    pipe("a cat", num_inference_steps=2, output_type="latent")
    assert pipe.components["text_encoder"] is not None

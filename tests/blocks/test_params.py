"""What blocks declare: templates, limits, component specs."""

import numpy as np
import pytest
import torch
from PIL import Image

from blocks import tiny
from lockstep import ClassifierFreeGuidance, DDIMScheduler, FrozenDict
from lockstep.blocks import ComponentSpec, ConfigSpec, InputParam, ModularPipelineBlocks, OutputParam, needs
from lockstep.blocks.vocabulary import VOCABULARY
from lockstep.errors import ConfigError, InputError, LoadError, UnknownNameError


@pytest.mark.parametrize(
    ("name", "good", "required", "default"),
    [
        ("prompt", "a cat", True, None),
        ("negative_prompt", "blurry", False, None),
        ("image", Image.new("RGB", (8, 8)), False, None),
        ("generator", torch.Generator(), False, None),
        ("num_inference_steps", 20, False, 50),
        ("latents", torch.zeros(1), False, None),
    ],
)
def test_input_templates(name, good, required, default):
    param = InputParam.template(name)
    assert (param.name, param.required, param.default) == (name, required, default)
    param.check(good, "block 'x'")
    with pytest.raises(InputError, match=rf"'{name}' \(read by block 'x'\) wants .*, got "):
        param.check(object(), "block 'x'")


@pytest.mark.parametrize(
    "name", ["prompt_embeds", "negative_prompt_embeds", "image_latents", "latents", "videos", "images"]
)
def test_output_templates(name):
    param = OutputParam.template(name)
    assert param.name == name
    assert param.description == VOCABULARY[name].description


def test_template_overrides_and_notes():
    param = InputParam.template("strength", default=0.3, note="for painting")
    assert param.default == 0.3
    assert param.description.endswith("(for painting)")
    assert InputParam.template("strength").default == 0.8


def test_unknown_template_says_which_is_meant():
    with pytest.raises(UnknownNameError, match="did you mean 'latents'"):
        InputParam.template("latnts")


def test_strings_in_declarations_are_templates():
    class Block(ModularPipelineBlocks):
        inputs = ["prompt", InputParam("own", int, default=3)]
        outputs = ["latents"]

    assert [param.name for param in Block().inputs] == ["prompt", "own"]
    assert Block().inputs[0] == InputParam.template("prompt")
    assert Block().outputs == Block().intermediate_outputs == [OutputParam.template("latents")]
    with pytest.raises(UnknownNameError, match="InputParam\\('promt', type"):
        type("Wrong", (ModularPipelineBlocks,), {"inputs": ["promt"]})
    with pytest.raises(ConfigError, match="InputParam or a name"):
        type("Wrong", (ModularPipelineBlocks,), {"inputs": [3]})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("height", 0, "at least 1, got 0"),
        ("strength", 1.5, "at most 1.0, got 1.5"),
        ("strength", float("nan"), "a finite number, got nan"),
        ("num_inference_steps", 0, "at least 1, got 0"),
        ("num_inference_steps", True, "wants int, got bool True"),
        ("control_guidance_start", [0.2, -0.1], "at least 0.0, got -0.1"),
        ("output_type", "jpg", "one of 'pil', 'np', 'pt', 'latent', got str 'jpg'"),
        ("latents", np.zeros((2, 3)), r"wants Tensor, got ndarray of shape \[2, 3\]"),
    ],
)
def test_limits_and_types(name, value, wanted):
    with pytest.raises(InputError, match=wanted):
        InputParam.template(name).check(value, "block")


def test_a_multiple_is_told_with_those_that_are_near():
    with pytest.raises(InputError, match=r"a multiple of 8 \(96 or 104 are near\), got 100"):
        InputParam("side", int, multiple_of=8).check(100, "block")


def test_numpy_numbers_are_numbers():
    InputParam.template("num_inference_steps").check(np.int64(4), "block")
    InputParam.template("strength").check(np.float32(0.5), "block")


def test_a_required_tensor_is_made_by_a_block():
    assert needs("latents")[0].made_by_block
    assert needs("timesteps")[0].made_by_block
    assert not InputParam.template("latents").made_by_block
    assert not needs("prompt")[0].made_by_block
    assert not InputParam.template("latents", required=True, given=True).made_by_block


def test_component_spec_from_config():
    config = FrozenDict({"guidance_scale": 7.5})
    spec = ComponentSpec("guider", ClassifierFreeGuidance, config=config, default_creation_method="from_config")
    assert spec.create().guidance_scale == 7.5
    assert spec.create(guidance_scale=2.0).guidance_scale == 2.0
    with pytest.raises(UnknownNameError, match="did you mean 'from_config'"):
        ComponentSpec("guider", ClassifierFreeGuidance, default_creation_method="from_confg")


def test_component_spec_from_pretrained(tmp_path):
    model = tiny.TinyDecoder(channels=2)
    model.save_pretrained(tmp_path / "vae")
    spec = ComponentSpec("vae", tiny.TinyDecoder)
    with pytest.raises(LoadError, match="names no folder"):
        spec.load()
    loaded = spec.located(str(tmp_path), subfolder="vae").load(dtype=torch.float64)
    assert loaded.config.channels == 2
    assert torch.equal(loaded.out.weight, model.out.weight.double())
    DDIMScheduler(num_train_timesteps=7).save_pretrained(tmp_path / "scheduler")
    scheduler = (
        ComponentSpec("scheduler", DDIMScheduler, subfolder="scheduler")
        .located(str(tmp_path))
        .load(dtype=torch.float64)
    )
    assert scheduler.config.num_train_timesteps == 7


def test_specs_of_two_blocks_merge():
    first = ComponentSpec("guider", ClassifierFreeGuidance, optional=True)
    second = ComponentSpec("guider", description="Mixes.", config={"guidance_scale": 2.0}, stateful=True)
    merged = first.merged(second)
    assert merged.type_hint is ClassifierFreeGuidance
    assert merged.description == "Mixes."
    assert dict(merged.config) == {"guidance_scale": 2.0}
    assert merged.stateful
    assert not merged.optional


def test_config_spec_is_read_through_components():
    class Block(ModularPipelineBlocks):
        expected_configs = [ConfigSpec("factor", default=3)]
        inputs = [InputParam("number", int, required=True)]
        outputs = [OutputParam("product", int)]

        def __call__(self, components, state):
            state.product = state.number * components.factor

    pipe = Block().init_pipeline()
    assert pipe(number=4).product == 12
    pipe.factor = 5
    assert pipe(number=4).product == 20
    assert Block().init_pipeline(factor=7)(number=1).product == 7

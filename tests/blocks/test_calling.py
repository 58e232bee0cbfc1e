"""Everything that can be refused is refused before any model runs."""

import pytest
import torch

from blocks import tiny
from lockstep.errors import InputError, UnknownNameError


@pytest.mark.parametrize(
    ("arguments", "error", "wanted"),
    [
        ({"promt": "x"}, UnknownNameError, "Unknown input of DiffusionPipeline 'promt': did you mean 'prompt'?"),
        ({"prompt": "x", "num_inference_step": 3}, UnknownNameError, "did you mean 'num_inference_steps'?"),
        ({"prompt": "x", "sead": 3}, UnknownNameError, "did you mean 'seed'?"),
        (
            {"prompt": "x", "noise_pred": torch.zeros(1)},
            UnknownNameError,
            r"'noise_pred' is made inside, by 'denoise.predict' \(Predict\)",
        ),
        (
            {"prompt": 3},
            InputError,
            r"'prompt' \(read by block 'text_encoder' \(Encode\)\) wants str or a list of str, got int 3",
        ),
        ({"prompt": ["a", 3]}, InputError, "wants str or a list of str, got list"),
        ({"prompt": "x", "height": 0}, InputError, r"'height' .* at least 1, got 0"),
        ({"prompt": "x", "height": 72}, InputError, "'height' can be 64 at most here, got 72"),
        ({"prompt": "x", "num_inference_steps": 0}, InputError, "at least 1, got 0"),
        ({"prompt": "x", "num_inference_steps": 2.0}, InputError, "wants int, got float 2.0"),
        (
            {"prompt": "x", "strength": 0.5},
            InputError,
            r"'strength' was given, but nothing .* \(prompt\) reads it. .*image_encoder.encode",
        ),
        ({}, InputError, r"Block 'text_encoder' \(Encode\) needs 'prompt' .*which was not given.*Give prompt="),
        ({"prompt": None}, InputError, "needs 'prompt'"),
        ({"prompt": "x", "workflow": "text2img"}, UnknownNameError, "did you mean 'text2image'"),
        ({"prompt": "x", "output": "imges"}, UnknownNameError, "did you mean 'images'"),
    ],
)
def test_refused_before_any_forward(arguments, error, wanted):
    pipe = tiny.pipeline()
    with pytest.raises(error, match=wanted):
        pipe(**arguments)
    with pytest.raises(error, match=wanted):
        pipe.run(**arguments)
    assert tiny.forwards(pipe) == 0


def test_positional_arguments():
    pipe = tiny.pipeline()
    assert torch.equal(pipe("cat", seed=1).images, pipe(prompt="cat", seed=1).images)
    with pytest.raises(InputError, match=r"takes one positional argument \(prompt\), got 2"):
        pipe("cat", "dog")
    with pytest.raises(InputError, match="'prompt' was given twice"):
        pipe("cat", prompt="dog")


def test_none_and_the_default_may_be_given_where_they_are_not_read():
    pipe = tiny.pipeline()
    assert torch.equal(pipe("cat", seed=1, strength=0.8, image=None).images, pipe("cat", seed=1).images)


def test_a_missing_component_is_named_with_its_block():
    pipe = tiny.pipeline(decoder=None)
    with pytest.raises(InputError, match=r"Block 'decode' \(Decode\) needs the component 'decoder' \(TinyDecoder\)"):
        pipe("cat")
    assert tiny.forwards(pipe) == 0
    assert pipe("cat", seed=1, output="latents").shape == (1, 1, 4, 4)


def test_components_are_checked():
    with pytest.raises(InputError, match="'decoder' wants TinyDecoder, got TinyEncoder"):
        tiny.pipeline(decoder=tiny.TinyEncoder())
    with pytest.raises(UnknownNameError, match="did you mean 'decoder'"):
        tiny.pipeline(decodr=None)
    pipe = tiny.pipeline()
    with pytest.raises(InputError, match="'scheduler' wants SchedulerMixin"):
        pipe.scheduler = 3
    with pytest.raises(AttributeError, match="its components: text_encoder"):
        pipe.unet


def test_a_guider_may_be_any_guider():
    from lockstep import AdaptiveProjectedGuidance

    pipe = tiny.pipeline()
    plain = pipe("cat", seed=1).images
    pipe.guider = AdaptiveProjectedGuidance(guidance_scale=3.0)
    assert not torch.equal(pipe("cat", seed=1).images, plain)
    with pytest.raises(InputError, match="'guider' wants ClassifierFreeGuidance, got DDIMScheduler"):
        pipe.guider = tiny.DDIMScheduler()


def test_every_planned_block_looks_at_the_inputs():
    from lockstep.blocks import LATER

    seen = {}

    class Look(tiny.Decode):
        inputs = [*tiny.needs("latents"), "height"]

        def check(self, components, inputs):
            seen.update(latents=inputs.latents, height=inputs.height, decoder=components.decoder)

    pipe = tiny.pipeline().replace_block("decode", Look)
    pipe.run("cat", height=16)
    assert seen["latents"] is LATER
    assert seen["height"] == 16
    assert seen["decoder"] is pipe.decoder

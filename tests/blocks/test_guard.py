"""The first block that makes NaN or Inf is named; a half-precision model gets a second chance."""

import pytest
import torch

from blocks import tiny
from lockstep.blocks import ModularPipelineBlocks, OutputParam
from lockstep.errors import InputError, NonFiniteError


def test_nan_in_a_weight_names_block_and_step():
    pipe = tiny.pipeline()
    with torch.no_grad():
        pipe.denoiser.first.weight[3, 2] = float("nan")
    said = r"Block 'denoise.000.predict' \(Predict\) at step 0 made 'noise_pred' with 16 NaN and 0 Inf among 16 values"
    with pytest.raises(NonFiniteError, match=said):
        pipe("cat", seed=1)
    with pytest.raises(NonFiniteError, match=r"weights: denoiser\.first\.weight hold NaN"):
        pipe("cat", seed=1)


def test_a_later_step_is_named_too():
    class Overflow(tiny.Step):
        def __call__(self, components, state, i, t):
            super().__call__(components, state, i, t)
            if i == 2:
                state.latents = torch.full_like(state.latents, float("inf"))

    pipe = tiny.pipeline().replace_block("denoise.step", Overflow)
    with pytest.raises(
        NonFiniteError, match=r"'denoise.002.step' \(Overflow\) at step 2 made 'latents' with 0 NaN and 16 Inf"
    ):
        pipe("cat", seed=1)
    assert pipe.decoder.calls == 0


def test_tensors_inside_lists_are_seen_and_masks_may_say_otherwise():
    def block(**options):
        def call(self, components, state):
            state.mask_list = [torch.zeros(2), {"deep": torch.tensor([0.0, float("-inf")])}]

        outputs = [OutputParam("mask_list", list, **options)]
        return type("Mask", (ModularPipelineBlocks,), {"outputs": outputs, "__call__": call})().init_pipeline()

    with pytest.raises(NonFiniteError, match="'mask_list' with 0 NaN and 1 Inf"):
        block()()
    assert len(block(may_be_infinite=True)().mask_list) == 2


def test_the_guard_can_be_switched_off():
    pipe = tiny.pipeline()
    with torch.no_grad():
        pipe.decoder.out.bias.fill_(float("nan"))
    pipe.check_finite = False
    assert torch.isnan(pipe("cat", seed=1).images).all()


def overflowing_decoder():
    """Fine in fp32, too large for fp16."""
    decoder = tiny.models()["decoder"]
    with torch.no_grad():
        decoder.out.weight.mul_(3e4)
        decoder.out.bias.fill_(6e4)
    return decoder


def test_a_half_precision_decoder_is_tried_again_in_fp32():
    pipe = tiny.pipeline(decoder=overflowing_decoder().half())
    events = list(pipe.stream("cat", seed=1))
    retry = [event for event in events if event.kind == "retry"]
    assert [event.path for event in retry] == ["decode"]
    wanted = tiny.pipeline(decoder=overflowing_decoder().half().float())("cat", seed=1).images
    assert torch.equal(events[-1].value.images, wanted)
    assert next(pipe.decoder.parameters()).dtype == torch.float16, "the shared model was changed"


def test_in_fp32_there_is_no_second_chance():
    decoder = overflowing_decoder()
    with torch.no_grad():
        decoder.out.bias.fill_(float("inf"))
    pipe = tiny.pipeline(decoder=decoder)
    with pytest.raises(NonFiniteError, match=r"Block 'decode' \(Decode\) made 'images'.*weights: decoder.out.bias"):
        pipe("cat", seed=1)
    assert decoder.calls == 1


def test_nan_in_an_input_is_the_callers():
    pipe = tiny.pipeline()
    with pytest.raises(InputError, match=r"'latents' has NaN in it \(16 of 16"):
        pipe("cat", latents=torch.full((1, 1, 4, 4), float("nan")))
    assert tiny.forwards(pipe) == 0


def test_a_second_try_draws_the_same_noise():
    class Noisy(tiny.Decode):
        inputs = [*tiny.needs("latents"), "generator"]

        def __call__(self, components, state):
            noise = tiny.randn_tensor(state.latents.shape, state.generator)
            state.images = components.decoder.decode(state.latents + noise).float()

    def noisy(decoder):
        return tiny.pipeline(decoder=decoder).replace_block("decode", Noisy)("cat", seed=1).images

    assert torch.equal(noisy(overflowing_decoder().half()), noisy(overflowing_decoder().half().float()))

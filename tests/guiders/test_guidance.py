"""What all guiders have in common: their settings, the state of a step, and whose branch is being predicted."""

import inspect
from types import SimpleNamespace

import diffusers
import pytest
import torch

from helpers import assert_close
from lockstep import guiders
from lockstep.configuration import config_defaults
from lockstep.errors import ConfigError, InputError
from lockstep.models.unets.unet_2d_blocks import Attention

WEAKENING = {
    "AutoGuidance": {"auto_guidance_layers": 0, "dropout": 1.0},
    "PerturbedAttentionGuidance": {"perturbed_guidance_layers": 0},
    "SkipLayerGuidance": {"skip_layer_guidance_layers": 0},
    "SmoothedEnergyGuidance": {"seg_guidance_layers": 0},
}
THREE_BRANCHES = "TextAndImageGuidance"  # no guider of the reference: the pipelines that edit pictures prove it
OTHERS = {*WEAKENING, THREE_BRANCHES, "BaseGuidance"}
TWO_BRANCH = sorted(n for n in guiders.__all__ if n.endswith("Guidance") and n not in OTHERS)
NAMES = [*TWO_BRANCH, *WEAKENING]


def make(name, **values):
    return getattr(guiders, name)(**WEAKENING.get(name, {}), **values)


def test_there_are_the_ten_guiders_of_the_reference():
    assert len(NAMES) == 10


@pytest.mark.parametrize("name", NAMES)
def test_settings_and_defaults_are_those_of_the_reference(name):
    theirs = inspect.signature(getattr(diffusers.guiders, name).__init__).parameters
    wanted = {n: p.default for n, p in theirs.items() if n != "self"}
    got = config_defaults(getattr(guiders, name))
    assert {n: list(v) if isinstance(v, tuple) else v for n, v in got.items()} == {
        n: list(v) if isinstance(v, (list, tuple)) else v for n, v in wanted.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_of_another_type_or_an_unknown_one_is_refused(name):
    with pytest.raises(ConfigError, match=r"'start' wants (a number|float)"):
        make(name, start="early")
    with pytest.raises(ConfigError, match="beginning"):
        make(name, beginning=0.1)


def test_the_scale_alone_can_be_given_without_its_name():
    assert guiders.ClassifierFreeGuidance(3.0).guidance_scale == 3.0
    assert guiders.FrequencyDecoupledGuidance([3.0, 2.0]).guidance_scales == [3.0, 2.0]
    assert guiders.MagnitudeAwareGuidance(3.0).guidance_scale == 3.0
    with pytest.raises(ConfigError, match="positional"):
        guiders.ClassifierFreeGuidance(3.0, 0.5)


def test_two_equal_guiders_are_two_guiders():
    first, second = guiders.ClassifierFreeGuidance(), guiders.ClassifierFreeGuidance()
    assert len({first, second}) == 2
    assert repr(first) == repr(second)
    first.guidance_scale = 3.0
    assert "guidance_scale=7.5" in repr(first)  # what it was made with


@pytest.mark.parametrize("name", NAMES)
def test_only_undisturbed_branches_go_through_the_model_as_one_batch(name):
    guider = make(name)
    guider.set_state(0, 10, None)
    batches = guider.prepare_inputs({"x": (torch.ones(1, 2), torch.zeros(1, 2))})
    sizes = []

    def predict(inputs, repeats):
        sizes.append(repeats)
        return inputs["x"] * 2

    guiders.predict_branches(guider, batches, Stack(), predict)
    assert sizes == ([2] if name in TWO_BRANCH else [1] * len(batches))
    with_prompt, without = batches[:2]
    assert torch.equal(with_prompt.noise_pred, torch.full((1, 2), 2.0))
    assert torch.equal(without.noise_pred, torch.full((1, 2), 0.0 if without.x.sum() == 0 else 2.0))


def test_a_guided_batch_has_the_published_order():
    """Without the prompt first: what reads the batch by its halves (caches, exported models) finds them there."""
    guider, seen = make("ClassifierFreeGuidance"), []
    guider.set_state(0, 10, None)
    batches = guider.prepare_inputs({"x": (torch.ones(1, 2), torch.zeros(1, 2))})
    guiders.predict_branches(guider, batches, Stack(), lambda inputs, repeats: seen.append(inputs["x"]) or inputs["x"])
    assert torch.equal(seen[0], torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


def test_a_model_that_gives_too_few_rows_is_not_taken_for_one_branch():
    guider = make("ClassifierFreeGuidance")
    guider.set_state(0, 10, None)
    batches = guider.prepare_inputs({"x": (torch.ones(1, 2), torch.zeros(1, 2))})
    with pytest.raises(ValueError, match="zip"):
        guiders.predict_branches(guider, batches, Stack(), lambda inputs, repeats: inputs["x"][:1])


def test_nothing_is_rescaled_unless_asked():
    guided, with_prompt = torch.randn(2, 1, 4, 8, 8)
    assert torch.equal(guiders.rescale_noise_cfg(guided, with_prompt), guided)


class Stack(torch.nn.Module):
    """A model whose stack of blocks has one block, of attention."""

    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Attention(8, 2, None, False)])


@pytest.mark.parametrize("name", NAMES)
def test_a_guider_knows_whose_branch_is_being_prepared(name):
    guider, model = make(name), Stack()
    assert guider.get_state()["count_prepared"] == 0
    guider.set_state(3, 10, torch.tensor(700))
    assert guider.num_conditions == len(guider.branches())
    assert not guider.is_conditional
    for count, (branch, _) in enumerate(guider.branches(), start=1):
        guider.prepare_models(model)
        assert guider.is_conditional == (branch != "pred_uncond")
        assert guider.is_unconditional == (branch == "pred_uncond")
        assert guider.get_state() == {
            "step": 3, "num_inference_steps": 10, "timestep": torch.tensor(700), "count_prepared": count,
            "enabled": True, "num_conditions": len(guider.branches()),
        }  # fmt: skip
        guider.cleanup_models(model)
    guider.set_state(4, 10, torch.tensor(600))
    assert guider.get_state()["count_prepared"] == 0


def test_inputs_can_be_named_in_a_block_state():
    guider = guiders.ClassifierFreeGuidance()
    state = SimpleNamespace(
        prompt_embeds=torch.ones(1), negative_prompt_embeds=torch.zeros(1), size=torch.tensor([8.0])
    )
    fields = {"text": ("prompt_embeds", "negative_prompt_embeds"), "size": "size"}
    cond, uncond = guider.prepare_inputs_from_block_state(state, fields)
    assert torch.equal(cond.text, state.prompt_embeds)
    assert torch.equal(uncond.text, state.negative_prompt_embeds)
    assert cond.size is uncond.size is state.size


@pytest.mark.parametrize(("which", "word"), [(0, "with"), (1, "without")])
def test_a_missing_input_is_named_with_its_branch(which, word):
    pair = [torch.ones(1), torch.zeros(1)]
    pair[which] = None
    with pytest.raises(InputError, match=f"'text' for the branch {word} the prompt"):
        guiders.ClassifierFreeGuidance().prepare_inputs({"text": tuple(pair)})


def test_predictions_that_do_not_fit_the_branches_are_refused():
    guider = guiders.ClassifierFreeGuidance()
    batches = guider.prepare_inputs({"x": (torch.ones(1), torch.zeros(1))})
    with pytest.raises(InputError, match="'pred_cond' has none"):
        guider(batches)
    batches[0].noise_pred = torch.ones(1)
    with pytest.raises(InputError, match="'pred_uncond' has none"):
        guider(batches)
    with pytest.raises(InputError, match=r"wants the branches \['pred_cond', 'pred_uncond'\].*got \['pred_cond'\]"):
        guider(batches[:1])


@pytest.mark.parametrize("name", NAMES)
def test_a_guider_can_be_switched_off_and_copied(name):
    guider = make(name, stop=0.5)
    assert guider.needs_unconditional
    guider.set_state(7, 10, None)
    assert guider.needs_unconditional  # some other step does
    assert "pred_uncond" not in dict(guider.branches())
    assert "pred_uncond" in dict(guider.fresh().branches())  # outside of a run every interval counts
    assert guider.fresh().get_state()["step"] is None
    guider.set_state(2, 10, None)
    guider.disable()
    assert guider.branches() == [("pred_cond", 0)]
    guider.enable()
    assert dict(guider.branches())["pred_uncond"] == 1
    assert guider.new(stop=0.1).config == {**guider.config, "stop": 0.1}
    assert not make(name, enabled=False).needs_unconditional


def test_outside_of_its_interval_a_guider_leaves_the_prediction_alone():
    cond, uncond = torch.randn(1, 4, 8, 8), torch.randn(1, 4, 8, 8)
    for name in TWO_BRANCH:
        guider = make(name, start=0.5, **({"zero_init_steps": 0} if "Zero" in name else {}))
        guider.set_state(2, 10, None)
        assert torch.equal(guider.forward(cond, uncond).pred, cond), name


def test_without_rescaling_the_spread_is_not_even_measured():
    flat = torch.ones(1, 4, 8, 8)
    in_bands = guiders.FrequencyDecoupledGuidance(guidance_rescale_space="freq")
    for guider in (guiders.ClassifierFreeGuidance(), guiders.FrequencyDecoupledGuidance(), in_bands):
        assert torch.isfinite(guider.forward(flat, flat / 2).pred).all()


def test_a_copy_and_a_new_run_begin_without_momentum():
    guider = guiders.AdaptiveProjectedGuidance(adaptive_projected_guidance_momentum=-0.5)
    first, second, uncond = torch.randn(3, 1, 4, 8, 8)
    guider.set_state(0, 10, None)
    guider.forward(first[None], uncond[None])
    guider.set_state(1, 10, None)
    copied = guider.fresh()
    with_momentum, without = (g.forward(second[None], uncond[None]).pred for g in (guider, copied))
    assert not torch.equal(with_momentum, without)
    guider.set_state(0, 10, None)
    assert torch.equal(guider.forward(second[None], uncond[None]).pred, without)


@pytest.mark.parametrize(
    ("start", "stop", "acting"), [(0.0, 1.0, range(10)), (0.2, 0.5, range(2, 5)), (0.55, 0.99, range(5, 9))]
)
def test_the_interval_has_its_first_step_and_not_its_last(start, stop, acting):
    guider = guiders.ClassifierFreeGuidance(start=start, stop=stop)
    acts = []
    for step in range(10):
        guider.set_state(step, 10, None)
        acts += [step] if guider.num_conditions == 2 else []
    assert acts == list(acting)


@pytest.mark.parametrize("start", [0.0, 0.2])
def test_a_weakened_branch_begins_one_step_later(start):
    guider = guiders.SkipLayerGuidance(
        skip_layer_guidance_layers=0, skip_layer_guidance_start=start, skip_layer_guidance_stop=0.5
    )
    acts = []
    for step in range(10):
        guider.set_state(step, 10, None)
        acts += [step] if "pred_cond_skip" in dict(guider.branches()) else []
    assert acts == list(range(int(start * 10) + 1, 5))


def test_an_interval_of_no_length_is_allowed_and_its_borders_are_checked():
    assert guiders.ClassifierFreeGuidance(start=0.5, stop=0.5).start == 0.5
    assert guiders.ClassifierFreeGuidance(start=0.99).start == 0.99
    for name, prefix in (
        ("SkipLayerGuidance", "skip_layer_guidance"),
        ("PerturbedAttentionGuidance", "perturbed_guidance"),
        ("SmoothedEnergyGuidance", "seg_guidance"),
    ):
        for values in ({"start": 1.0}, {"start": -0.1}, {"start": 0.5, "stop": 0.2}, {"stop": 1.1}):
            with pytest.raises(ConfigError, match=prefix):
                make(name, **{f"{prefix}_{key}": value for key, value in values.items()})


def test_a_guider_of_ones_own_says_its_settings_and_how_it_combines():
    class Mean(guiders.BaseGuidance):
        """Somewhere between the two."""

        share: float = 0.5

        def forward(self, pred_cond, pred_uncond=None):
            mixed = pred_cond if pred_uncond is None else torch.lerp(pred_uncond, pred_cond, self.share)
            return guiders.GuiderOutput(mixed, pred_cond, pred_uncond)

    guider = Mean(share=0.25, stop=0.5)
    assert guider.config == {"share": 0.25, "start": 0.0, "stop": 0.5, "enabled": True}
    with pytest.raises(ConfigError, match="'share' wants"):
        Mean(share="half")
    for step, wanted in ((0, 1.0), (6, 4.0)):
        guider.set_state(step, 10, None)
        batches = guider.prepare_inputs({"x": (torch.tensor(4.0), torch.tensor(0.0))})
        for batch in batches:
            batch.noise_pred = batch.x
        assert guider(batches).pred == wanted


@pytest.mark.parametrize("scales", [[6.0, 3.0], [8.0, 5.0, 2.0]])
def test_bands_of_a_video_are_those_of_its_frames(scales):
    torch.manual_seed(0)
    video = {name: torch.randn(2, 3, 5, 8, 16) for name in ("pred_cond", "pred_uncond")}
    guider = guiders.FrequencyDecoupledGuidance(scales)
    guider.set_state(2, 10, None)
    whole = guider.forward(**video).pred
    for frame in range(5):
        alone = guider.forward(**{name: value[:, :, frame] for name, value in video.items()}).pred
        assert_close(whole[:, :, frame], alone, 1e-6)


@pytest.mark.parametrize(
    ("scales", "shape", "told"),
    [
        ([6.0, 3.0], (1, 4, 2, 8), "multiples of 2 and at least 3, got (1, 4, 2, 8)"),
        ([6.0, 3.0], (1, 4, 8, 5), "multiples of 2 and at least 3, got (1, 4, 8, 5)"),
        ([8.0, 4.0, 2.0], (1, 4, 8, 4), "multiples of 4 and at least 6, got (1, 4, 8, 4)"),
        ([6.0, 3.0], (4, 8, 8), "multiples of 2"),
        ([6.0, 3.0], (1, 1, 4, 2, 8, 8), "multiples of 2"),
        ([6.0, 3.0], (1, 4, 3, 2, 8), "multiples of 2"),
    ],
)
def test_sizes_that_have_no_bands_are_refused(scales, shape, told):
    guider = guiders.FrequencyDecoupledGuidance(scales)
    guider.set_state(2, 10, None)
    with pytest.raises(InputError) as caught:
        guider.forward(torch.randn(shape), torch.randn(shape))
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("scales", "shape"), [([6.0, 3.0], (1, 4, 4, 4)), ([8.0, 4.0, 2.0], (1, 4, 8, 8)), ([5.0], (1, 1, 1, 1))]
)
def test_the_smallest_sizes_that_have_bands(scales, shape):
    guider = guiders.FrequencyDecoupledGuidance(scales)
    guider.set_state(2, 10, None)
    assert guider.forward(torch.randn(shape), torch.randn(shape)).pred.shape == shape


def test_bands_want_rows_and_columns():
    guider = guiders.FrequencyDecoupledGuidance()
    plain, in_a_line = torch.nn.Identity(), torch.nn.Identity()
    guider.check_model(plain)
    plain.packed_side = 1
    guider.check_model(plain)
    in_a_line.packed_side = 2
    with pytest.raises(InputError, match="Identity are tokens in a line"):
        guider.check_model(in_a_line)

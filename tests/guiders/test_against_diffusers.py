"""Every guider beside its reference: the same branches at each step, the same combined prediction."""

import diffusers
import pytest
import torch

from helpers import assert_close, relative_l2
from lockstep import guiders
from lockstep.errors import InputError
from lockstep.guiders.classifier_free import project

STEPS = 10
TWO_BRANCHES = [
    ("ClassifierFreeGuidance", {}),
    ("ClassifierFreeGuidance", {"guidance_scale": 3.0, "guidance_rescale": 0.7, "start": 0.2, "stop": 0.8}),
    ("ClassifierFreeGuidance", {"guidance_scale": 3.0, "use_original_formulation": True}),
    ("ClassifierFreeGuidance", {"guidance_scale": 3.0, "guidance_rescale": 0.1}),
    ("ClassifierFreeGuidance", {"guidance_scale": 1.0}),
    ("ClassifierFreeGuidance", {"guidance_scale": 0.0, "use_original_formulation": True}),
    ("ClassifierFreeGuidance", {"enabled": False}),
    ("ClassifierFreeZeroStarGuidance", {}),
    ("ClassifierFreeZeroStarGuidance", {"zero_init_steps": 2}),
    (
        "ClassifierFreeZeroStarGuidance",
        {"guidance_scale": 4.0, "zero_init_steps": 0, "guidance_rescale": 0.3, "stop": 0.5},
    ),
    ("TangentialClassifierFreeGuidance", {"guidance_scale": 5.0}),
    ("TangentialClassifierFreeGuidance", {"use_original_formulation": True, "guidance_rescale": 0.5}),
    ("AdaptiveProjectedGuidance", {}),
    ("AdaptiveProjectedGuidance", {"adaptive_projected_guidance_momentum": -0.5, "eta": 0.2}),
    (
        "AdaptiveProjectedGuidance",
        {"adaptive_projected_guidance_rescale": 2.0, "adaptive_projected_guidance_norm_dim": [-1, -2]},
    ),
    ("AdaptiveProjectedGuidance", {"adaptive_projected_guidance_rescale": 0.5, "eta": 0.0}),
    ("AdaptiveProjectedGuidance", {"adaptive_projected_guidance_rescale": 0.0, "use_original_formulation": True}),
    ("MagnitudeAwareGuidance", {}),
    ("MagnitudeAwareGuidance", {"alpha": 0.3, "guidance_scale": 5.0}),
    ("MagnitudeAwareGuidance", {"alpha": 2.0, "use_original_formulation": True, "start": 0.1}),
    ("FrequencyDecoupledGuidance", {}),
    (
        "FrequencyDecoupledGuidance",
        {"guidance_scales": [8.0, 4.0, 2.0], "parallel_weights": [0.5, 1.0, 0.2], "stop": [0.6, 0.6, 0.6]},
    ),
    ("FrequencyDecoupledGuidance", {"guidance_rescale": 0.4, "guidance_rescale_space": "freq"}),
    ("FrequencyDecoupledGuidance", {"guidance_rescale": [0.1, 0.4]}),
    ("FrequencyDecoupledGuidance", {"guidance_rescale": [0.1, 0.4], "guidance_rescale_space": "freq"}),
    ("FrequencyDecoupledGuidance", {"parallel_weights": [1.25, 1.0], "use_original_formulation": True}),
    ("FrequencyDecoupledGuidance", {"guidance_rescale": 0.4, "upcast_to_double": False, "parallel_weights": 0.5}),
]
THREE_BRANCHES = [
    ("SkipLayerGuidance", {"skip_layer_guidance_layers": [0]}, "pred_cond_skip"),
    (
        "SkipLayerGuidance",
        {"skip_layer_guidance_layers": [0], "skip_layer_guidance_stop": 0.5, "stop": 0.9, "guidance_rescale": 0.5},
        "pred_cond_skip",
    ),
    ("SkipLayerGuidance", {"skip_layer_guidance_layers": [0], "skip_layer_guidance_scale": 0.0}, "pred_cond_skip"),
    (
        "PerturbedAttentionGuidance",
        {"perturbed_guidance_layers": [0], "perturbed_guidance_stop": 1.0},
        "pred_cond_skip",
    ),
    ("SmoothedEnergyGuidance", {"seg_guidance_layers": [0], "use_original_formulation": True}, "pred_cond_seg"),
    ("AutoGuidance", {"auto_guidance_layers": [0], "dropout": 1.0}, None),
]


def both(name, config):
    return getattr(guiders, name)(**config), getattr(diffusers.guiders, name)(**config)


def step_both(ours, theirs, step):
    """The branches and the combined prediction of both sides at one step."""
    results = []
    for guider in (ours, theirs):
        torch.manual_seed(100 + step)
        pair = (torch.randn(2, 7, 6), torch.randn(2, 7, 6))
        shape = (2, 32, 8) if "Magnitude" in type(guider).__name__ else (2, 4, 8, 12)  # theirs cannot take four axes
        predictions = {n: torch.randn(shape) for n in ("pred_cond", "pred_uncond", "pred_cond_skip", "pred_cond_seg")}
        guider.set_state(step=step, num_inference_steps=STEPS, timestep=torch.tensor(999 - step))
        batches = guider.prepare_inputs({"encoder_hidden_states": pair, "shared": pair[0]})
        for batch in batches:
            batch.noise_pred = predictions[getattr(batch, guider._identifier_key)]
        results.append((batches, guider(batches)))
    return results


@pytest.mark.parametrize(("name", "config"), TWO_BRANCHES + [(name, config) for name, config, _ in THREE_BRANCHES])
def test_each_step_equals_the_reference(name, config):
    ours, theirs = both(name, config)
    for step in range(STEPS):
        (our_batches, our), (their_batches, their) = step_both(ours, theirs, step)
        key = ours._identifier_key
        assert [getattr(b, key) for b in our_batches] == [getattr(b, key) for b in their_batches], (
            f"branches differ at step {step}"
        )
        for ours_b, theirs_b in zip(our_batches, their_batches, strict=True):
            assert torch.equal(ours_b.encoder_hidden_states, theirs_b.encoder_hidden_states)
        if float(their[0].norm()) == 0:
            assert torch.equal(our.pred, their[0]), f"predictions differ at step {step}"
        else:
            assert_close(our.pred, their[0], 1e-5, f"prediction of step {step}")


def test_a_faint_unconditional_prediction_is_fitted_as_there():
    """Where its square is as small as what keeps the division from zero."""
    ours, theirs = both("ClassifierFreeZeroStarGuidance", {"zero_init_steps": 0})
    cond, uncond = torch.randn(2, 4, 8, 8), 1e-5 * torch.randn(2, 4, 8, 8)
    for guider in (ours, theirs):
        guider.set_state(3, STEPS, None)
    assert_close(ours.forward(cond, uncond).pred, theirs.forward(cond, uncond)[0], 1e-6)


@pytest.mark.parametrize(
    ("name", "config"),
    [("ClassifierFreeGuidance", {"guidance_scale": 4.5, "stop": 0.9}), ("AdaptiveProjectedGuidance", {"eta": 0.3})],
)
def test_configs_travel_both_ways(tmp_path, name, config):
    ours, theirs = both(name, config)
    ours.save_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    assert type(theirs).from_pretrained(str(tmp_path / "ours")).guidance_scale == ours.guidance_scale
    assert type(ours).from_pretrained(tmp_path / "theirs").config == ours.config


@pytest.mark.parametrize("config", [{"start": -0.1}, {"start": 1.0}, {"start": 0.5, "stop": 0.2}, {"stop": 1.5}])
def test_impossible_intervals_are_refused_as_there(config):
    with pytest.raises(ValueError, match="start|stop"):
        diffusers.guiders.ClassifierFreeGuidance(**config)
    with pytest.raises(ValueError, match="start|stop"):
        guiders.ClassifierFreeGuidance(**config)


def test_a_disturbed_branch_without_cfg_has_the_prompt():
    """The reference feeds that branch the inputs without the prompt (and does not disturb it);
    here it is what the paper says."""
    guider = guiders.SkipLayerGuidance(guidance_scale=1.0, skip_layer_guidance_layers=[0], skip_layer_guidance_stop=1.0)
    guider.set_state(5, STEPS, None)
    cond, uncond = torch.ones(1), torch.zeros(1)
    batches = guider.prepare_inputs({"x": (cond, uncond)})
    assert [getattr(b, guider._identifier_key) for b in batches] == ["pred_cond", "pred_cond_skip"]
    assert all(torch.equal(b.x, cond) for b in batches)


def test_bands_can_have_intervals_of_their_own():
    """Fails in the reference when the finest band stops first."""
    guider = guiders.FrequencyDecoupledGuidance(guidance_scales=[8.0, 4.0], stop=[0.4, 1.0])
    torch.manual_seed(0)
    cond, uncond = torch.randn(1, 4, 8, 8), torch.randn(1, 4, 8, 8)
    guider.set_state(6, STEPS, None)
    late = guider.forward(cond, uncond).pred
    coarse_alone = guiders.FrequencyDecoupledGuidance(guidance_scales=[1.0 + 1e-6, 4.0])
    coarse_alone.set_state(6, STEPS, None)
    assert_close(late, coarse_alone.forward(cond, uncond).pred, 1e-4)


def test_a_projection_is_computed_in_double_precision_where_it_is_asked_for():
    onto, across = torch.randn(2, 1, 64, dtype=torch.float64)
    across -= onto * (across @ onto.mT) / (onto @ onto.mT)
    vector = (onto + 1e-5 * across).float()
    exact = vector.double() - onto.float().double() * (vector.double() @ onto.mT) / (onto @ onto.mT)
    errors = [relative_l2(project(vector, onto.float(), [1], upcast)[1], exact) for upcast in (True, False)]
    assert errors[0] < 1e-3 < 1e-2 < errors[1]
    unasked = project(vector, onto.float(), [1])[1]
    assert torch.equal(unasked, project(vector, onto.float(), [1], True)[1])


def test_sides_have_to_be_multiples_of_what_the_bands_need():
    guider = guiders.FrequencyDecoupledGuidance([8.0, 4.0, 2.0])
    cond, uncond = torch.randn(2, 1, 3, 12, 20)
    assert guider.forward(cond, uncond).pred.shape == (1, 3, 12, 20)
    for wrong in ((1, 4, 6, 8), (1, 4, 8, 6), (4, 8, 8)):
        with pytest.raises(InputError, match="3 frequency bands.*multiples of 4"):
            guider.forward(torch.randn(wrong), torch.randn(wrong))


def test_magnitude_aware_guidance_takes_pictures_too():
    torch.manual_seed(0)
    flat, image = guiders.MagnitudeAwareGuidance(), guiders.MagnitudeAwareGuidance()
    cond, uncond = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8)
    wanted = flat.forward(cond.flatten(2), uncond.flatten(2)).pred
    assert_close(image.forward(cond, uncond).pred.flatten(2), wanted, 1e-6)

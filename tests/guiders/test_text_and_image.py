"""Guidance by a text and a picture: the branches that it asks for, and how they are weighed."""

from types import SimpleNamespace

import diffusers
import pytest
import torch

from helpers import assert_close
from lockstep.configuration import config_defaults
from lockstep.errors import InputError
from lockstep.guiders import ClassifierFreeGuidance, TextAndImageGuidance, predict_branches, rescale_noise_cfg

NAMES = ["pred_cond", "pred_image", "pred_uncond"]


def predictions():
    torch.manual_seed(0)
    return {name: torch.randn(2, 4, 6, 8) for name in NAMES}


def test_defaults_are_those_of_the_pipeline_that_it_comes_from():
    defaults = config_defaults(TextAndImageGuidance)
    assert (defaults["guidance_scale"], defaults["image_guidance_scale"]) == (7.5, 1.5)


@pytest.mark.parametrize("scales", [(7.5, 1.5), (7.5, 1.0), (7.5, 0.99), (1.0, 1.5), (1.01, 1.0), (3.0, 4.0)])
def test_it_acts_where_the_reference_does(scales):
    asked = SimpleNamespace(guidance_scale=scales[0], image_guidance_scale=scales[1])
    wanted = diffusers.StableDiffusionInstructPix2PixPipeline.do_classifier_free_guidance.fget(asked)
    guider = TextAndImageGuidance(scales[0], image_guidance_scale=scales[1])
    guider.set_state(2, 10, None)
    assert guider.acts() is wanted
    assert [name for name, _ in guider.branches()] == (NAMES if wanted else NAMES[:1])


@pytest.mark.parametrize(("kind", "needs"), [(TextAndImageGuidance, 3), (ClassifierFreeGuidance, 2)])
def test_it_wants_a_place_for_each_of_its_branches(kind, needs):
    guider = kind()
    guider.set_state(2, 10, None)
    guider.check_places(needs)
    with pytest.raises(InputError, match=f"{kind.__name__} compares runs with and without the picture"):
        guider.check_places(needs - 1)


@pytest.mark.parametrize(("interval", "acting"), [((0.0, 1.0), range(10)), ((0.2, 0.5), range(2, 5))])
def test_it_acts_in_its_interval(interval, acting):
    guider = TextAndImageGuidance(start=interval[0], stop=interval[1])
    seen = []
    for step in range(10):
        guider.set_state(step, 10, None)
        seen += [step] if guider.num_conditions == 3 else []
    assert seen == list(acting)


def test_each_branch_gets_its_own_of_three_values():
    """The prompt goes to the first branch alone, the picture to the first two."""
    guider = TextAndImageGuidance()
    guider.set_state(0, 10, None)
    text, picture = (torch.tensor([[7.0]]), torch.tensor([[0.5]]), torch.tensor([[0.5]])), torch.tensor([[9.0]])
    batches = guider.prepare_inputs({"text": text, "picture": (picture, picture, torch.zeros(1, 1))})
    seen = {getattr(b, guider._identifier_key): (float(b.text), float(b.picture)) for b in batches}
    assert seen == {"pred_cond": (7.0, 9.0), "pred_image": (0.5, 9.0), "pred_uncond": (0.5, 0.0)}


@pytest.mark.parametrize(("text", "picture"), [(7.5, 1.5), (3.0, 1.0), (1.25, 4.0)])
def test_the_mix_is_the_papers_third_equation(text, picture):
    made = predictions()
    both, image, neither = (made[name].double() for name in NAMES)
    wanted = (1 - picture) * neither + (picture - text) * image + text * both
    guider = TextAndImageGuidance(text, image_guidance_scale=picture)
    out = guider.forward(**made)
    assert_close(out.pred, wanted.float(), 1e-6)
    assert out.pred_cond is made["pred_cond"]
    assert out.pred_uncond is made["pred_uncond"]


def test_the_spread_is_brought_back_where_asked():
    made = predictions()
    plain = TextAndImageGuidance().forward(**made).pred
    wanted = rescale_noise_cfg(plain, made["pred_cond"], 0.4)
    assert_close(TextAndImageGuidance(guidance_rescale=0.4).forward(**made).pred, wanted, 1e-6)


@pytest.mark.parametrize("missing", [("pred_image",), ("pred_uncond",), ("pred_image", "pred_uncond")])
def test_without_the_other_branches_the_prediction_stays(missing):
    made = {name: value for name, value in predictions().items() if name not in missing}
    assert TextAndImageGuidance().forward(**made).pred is made["pred_cond"]


def test_three_branches_run_as_one_batch_as_they_do_alone():
    guider = TextAndImageGuidance()
    guider.set_state(0, 10, None)
    data = {"x": tuple(torch.full((1, 2), float(value)) for value in (3, 5, 7))}
    found = {}
    for batched in (True, False):
        batches, sizes = guider.prepare_inputs(data), []

        def predict(inputs, repeats, sizes=sizes):
            sizes.append((repeats, inputs["x"].shape[0]))
            return inputs["x"] * 2

        predict_branches(guider, batches, torch.nn.Identity(), predict, batched=batched)
        assert sizes == ([(3, 3)] if batched else [(1, 1)] * 3)
        found[batched] = [b.noise_pred for b in batches]
    assert [float(value[0, 0]) for value in found[True]] == [6.0, 10.0, 14.0]
    assert all(torch.equal(*pair) for pair in zip(found[True], found[False], strict=True))

"""Flux and SD 3: one ControlNet for several pictures, values that nothing reads are said, wrong ones told early."""

import diffusers
import pytest
import torch

import lockstep
from helpers import relative_l2
from lockstep.errors import InputError
from lockstep.notes import say_once
from pipelines import tiny_flow
from pipelines.test_flow_against_diffusers import arguments_for, compare, picture

pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed.*:FutureWarning")  # theirs uses what it deprecates
SIZE = (16, 16)


def flux(kind="dev", **parts):
    pipe = lockstep.FluxPipeline(**tiny_flow.flux_parts(kind), **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def untouched(pipe):
    """The pipeline, in which no model may run."""
    for name in pipe.model_names:
        getattr(pipe, name).register_forward_pre_hook(lambda *_: pytest.fail("a model ran"))
    return pipe


def heard(caplog, pipe, **arguments):
    say_once.cache_clear()  # another test of this process may have heard it
    caplog.clear()
    made = pipe(**arguments, output_type="latent", seed=1)
    return caplog.text, made.images


@pytest.fixture(scope="module")
def union(tmp_path_factory):
    """A folder of FLUX and one of a ControlNet that knows four kinds of pictures."""
    root = tmp_path_factory.mktemp("union")
    tiny_flow.flux_net(3, num_mode=4).save_pretrained(root / "net")
    return tiny_flow.save_flux(root / "flux"), root / "net"


def with_union(library, union):
    folder, net = union
    held = library.FluxMultiControlNetModel([library.FluxControlNetModel.from_pretrained(net)])
    pipe = library.FluxControlNetPipeline.from_pretrained(folder, controlnet=held)
    pipe.set_progress_bar_config(disable=True)
    return pipe


TWO = {"control_mode": [1, 3], "controlnet_conditioning_scale": [0.5, 0.8]}


@pytest.mark.parametrize("batch", [1, 2])
def test_one_union_steers_by_several_pictures(union, batch):
    arguments = arguments_for(SIZE, batch, **TWO, control_image=[picture(SIZE, 9), picture(SIZE, 8)])
    when = {"control_guidance_start": [0.0, 0.0], "control_guidance_end": [1.0, 0.8]}  # theirs cuts to one without it
    compare(with_union(lockstep, union), with_union(diffusers, union), arguments | when)


def test_every_picture_of_a_union_counts(union):
    pipe = with_union(lockstep, union)
    both = [picture(SIZE, 9), picture(SIZE, 8)]
    given = {**arguments_for(SIZE, 1), "output_type": "latent", "seed": 1}
    first, second = (pipe(**given, **TWO, control_image=pair).images for pair in (both, [both[0], both[0]]))
    assert relative_l2(first, second) > 1e-4
    assert torch.equal(pipe(**given, **TWO, control_image=[[*both]]).images, first)  # one list for each prompt
    with pytest.raises(InputError, match="'control_mode' wants a number for each ControlNet, 2"):
        pipe(**given, control_mode=[1, 2, 3], control_image=both)


def test_a_scale_that_a_model_was_not_taught_is_said(caplog):
    pipe, plain = flux("schnell"), arguments_for(SIZE, 1)
    told, made = heard(caplog, pipe, **plain, guidance_scale=5.0)
    assert "guidance_scale=5.0 does nothing" in told
    for more in ({}, {"guidance_scale": 0.0}):  # what the model's own page says to give
        told, same = heard(caplog, pipe, **plain, **more)
        assert "does nothing" not in told
        assert torch.equal(same, made)
    assert "does nothing" not in heard(caplog, flux("dev"), **plain, guidance_scale=5.0)[0]


def test_a_negative_prompt_that_nothing_reads_is_said(caplog):
    pipe, plain = flux(), arguments_for(SIZE, 1)
    assert "'negative_prompt' does nothing" in heard(caplog, pipe, **plain, negative_prompt="blue")[0]
    assert "does nothing" not in heard(caplog, pipe, **plain, negative_prompt="blue", true_cfg_scale=2.0)[0]
    pipe.guider = lockstep.ClassifierFreeGuidance(guidance_scale=2.0)
    assert "does nothing" not in heard(caplog, pipe, **plain, negative_prompt="blue")[0]


@pytest.mark.parametrize("sigmas", [[], [0.2, 0.5, 1.0], [3.0, 0.5], [0.5, 0.5], [0.5, -0.1]])
def test_sigmas_that_lead_nowhere_are_told_before_a_model_runs(sigmas):
    sd3 = lockstep.StableDiffusion3Pipeline(**tiny_flow.sd3_parts())
    for pipe in (flux(), sd3):
        with pytest.raises(InputError, match="'sigmas'"):
            untouched(pipe)("cat", sigmas=sigmas)


def test_sigmas_that_fall_are_taken():
    pipe = flux()
    given = {**arguments_for(SIZE, 1), "output_type": "latent", "seed": 1}
    assert torch.isfinite(pipe(**given, sigmas=[1.0, 0.6, 0.2]).images).all()
    pipe.scheduler = lockstep.FlowMatchEulerDiscreteScheduler(invert_sigmas=True)
    assert torch.isfinite(pipe(**given, sigmas=[0.2, 0.6, 1.0]).images).all()  # of a model taught the other way round


def test_ready_encodings_are_checked_before_a_model_runs():
    pipe = untouched(flux())
    text, pooled = torch.randn(2, 12, 24), torch.randn(2, 16)
    for given, told in (
        ({"prompt_embeds": text, "pooled_prompt_embeds": pooled[:1]}, "as many rows"),
        ({"prompt_embeds": text[..., :20], "pooled_prompt_embeds": pooled}, "24 channels"),
        ({"prompt_embeds": text, "pooled_prompt_embeds": pooled[:, :8]}, "16 channels"),
        ({"prompt": "cat", "joint_attention_kwargs": {"foo": 1}}, "foo"),
        ({"prompt": "cat", "joint_attention_kwargs": {"scale": 0.5}}, "no effect"),
    ):
        with pytest.raises(InputError, match=told):
            pipe(**given)


def test_guidance_by_bands_is_told_apart_before_a_model_runs():
    pipe = untouched(flux())
    pipe.guider = lockstep.FrequencyDecoupledGuidance()
    with pytest.raises(InputError, match="tokens in a line"):
        pipe("cat")


@pytest.mark.parametrize("auto", ["AutoPipelineForImage2Image", "AutoPipelineForText2Image"])
def test_kontext_is_chosen_as_in_the_reference(auto, tmp_path):
    folder = tiny_flow.save_flux(tmp_path, "kontext")
    chosen = [type(getattr(library, auto).from_pretrained(folder)).__name__ for library in (lockstep, diffusers)]
    assert chosen == ["FluxKontextPipeline"] * 2

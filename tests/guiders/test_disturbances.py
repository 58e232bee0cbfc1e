"""Disturbed layers in a real UNet: equal to the reference's hooks, gone afterwards, and invisible to other threads."""

import math
import threading

import diffusers
import pytest
import torch
from diffusers.hooks.layer_skip import LayerSkipConfig as TheirSkip
from diffusers.hooks.smoothed_energy_guidance_utils import _gaussian_blur_2d

from helpers import assert_close, relative_l2
from lockstep import guiders
from lockstep.attention import dispatch_attention_fn
from lockstep.errors import ConfigError, InputError
from lockstep.guiders import LayerSkipConfig, predict_branches
from lockstep.guiders.disturbances import gaussian_blur, mean_blur
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel

STACK = "mid_block.attentions.0.transformer_blocks"
TINY = {
    "sample_size": 8, "block_out_channels": (16, 32), "layers_per_block": 1, "cross_attention_dim": 12,
    "attention_head_dim": 4, "norm_num_groups": 8,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}  # fmt: skip


@pytest.fixture(scope="module")
def unets(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("unet")
    ours = UNet2DConditionModel(**TINY).eval()
    ours.save_pretrained(folder)
    return ours, diffusers.UNet2DConditionModel.from_pretrained(folder)


def inputs(words=5):
    torch.manual_seed(1)
    return torch.randn(1, 4, 8, 8), torch.randn(1, words, 12), torch.randn(1, words, 12)


def guided(guider, unet, step=5, batched=False, words=5):
    """All branches of one step through a UNet; the combined prediction and each branch's own."""
    latents, cond, uncond = inputs(words)
    guider.set_state(step=step, num_inference_steps=10, timestep=torch.tensor(500))
    batches = guider.prepare_inputs({"encoder_hidden_states": (cond, uncond)})
    with torch.no_grad():
        if isinstance(guider, guiders.BaseGuidance):
            predict_branches(
                guider, batches, unet, lambda one, n: unet(torch.cat([latents] * n), 500, **one)[0], batched=batched
            )
        else:
            for batch in batches:
                guider.prepare_models(unet)
                batch.noise_pred = unet(latents, 500, encoder_hidden_states=batch.encoder_hidden_states)[0]
                guider.cleanup_models(unet)
    return guider(batches)[0], {getattr(b, guider._identifier_key): b.noise_pred for b in batches}


CASES = [
    (
        "PerturbedAttentionGuidance",
        "perturbed_guidance_config",
        {"skip_attention": False, "skip_attention_scores": True, "skip_ff": False},
        {"perturbed_guidance_stop": 1.0},
    ),
    ("SkipLayerGuidance", "skip_layer_config", {}, {"skip_layer_guidance_stop": 1.0}),
    ("SkipLayerGuidance", "skip_layer_config", {"skip_ff": False}, {"skip_layer_guidance_stop": 1.0}),
    ("SkipLayerGuidance", "skip_layer_config", {"skip_attention": False}, {"skip_layer_guidance_stop": 1.0}),
    ("AutoGuidance", "auto_guidance_config", {}, {"dropout": 1.0}),
]


@pytest.mark.parametrize("words", [5, 16])  # 16: as many as the picture has tokens where it is disturbed
@pytest.mark.parametrize(("name", "key", "values", "more"), CASES)
def test_disturbed_predictions_equal_the_reference(unets, name, key, values, more, words):
    ours, theirs = unets
    our_guider = getattr(guiders, name)(**{key: LayerSkipConfig(indices=[0], fqn=STACK, **values)}, **more)
    their_guider = getattr(diffusers.guiders, name)(**{key: TheirSkip(indices=[0], fqn=STACK, **values)}, **more)
    got, branches = guided(our_guider, ours, words=words)
    wanted, their_branches = guided(their_guider, theirs, words=words)
    assert set(branches) == set(their_branches)
    for branch, prediction in branches.items():
        assert_close(prediction, their_branches[branch], 1e-5, branch)
    assert_close(got, wanted, 1e-4)
    disturbed = next(b for b in reversed(branches) if b != "pred_cond")
    assert relative_l2(branches[disturbed], branches["pred_cond"]) > 1e-3
    again, _ = guided(guiders.ClassifierFreeGuidance(), ours)
    untouched, _ = guided(diffusers.guiders.ClassifierFreeGuidance(), theirs)
    assert_close(again, untouched, 1e-5, "the model after the disturbance")


@pytest.mark.parametrize("tokens", [9, 16, 17, 24, 49, 64])
@pytest.mark.parametrize("sigma", [0.15, 0.4, 0.6, 1.0, 2.5, 9999999.0])
def test_blur_equals_the_reference(tokens, sigma):
    torch.manual_seed(0)
    query = torch.randn(2, tokens, 6)
    width = math.ceil(6 * sigma) + 1 - math.ceil(6 * sigma) % 2
    wanted = _gaussian_blur_2d(query.clone(), kernel_size=width, sigma=sigma, sigma_threshold_inf=-1.0)
    assert_close(gaussian_blur(query, sigma), wanted, 1e-6)


def test_an_endless_blur_is_the_mean_as_in_the_paper():
    query = torch.randn(2, 17, 6)
    mean = mean_blur(query)
    assert torch.allclose(mean[:, :16], query[:, :16].mean(1, keepdim=True).expand(2, 16, 6), atol=1e-6)
    assert torch.equal(mean[:, 16], query[:, 16])


@pytest.mark.parametrize(
    ("values", "blur"),
    [
        ({}, mean_blur),
        ({"seg_blur_sigma": 1.0}, lambda query: gaussian_blur(query, 1.0)),
        ({"seg_blur_sigma": 9999.0}, lambda query: gaussian_blur(query, 9999.0)),
        ({"seg_blur_sigma": 2.0, "seg_blur_threshold_inf": 1.5}, mean_blur),
    ],
    ids=["endless", "narrow", "at the threshold", "above a threshold of one's own"],
)
def test_smoothed_energy_guidance_blurs_the_queries_of_self_attention(unets, values, blur):
    ours, theirs = unets
    _, branches = guided(guiders.SmoothedEnergyGuidance(seg_guidance_layers=0, **values), ours)
    latents, cond, _ = inputs()
    attention = theirs.get_submodule(STACK)[0].attn1
    handle = attention.to_q.register_forward_hook(lambda _module, _args, output: blur(output))
    try:
        with torch.no_grad():
            wanted = theirs(latents, 500, encoder_hidden_states=cond)[0]
    finally:
        handle.remove()
    assert_close(branches["pred_cond_seg"], wanted, 1e-5)
    assert relative_l2(branches["pred_cond_seg"], branches["pred_cond"]) > 1e-5


def test_one_batch_and_one_by_one_give_the_same_numbers(unets):
    for guider in (guiders.ClassifierFreeGuidance(), guiders.AdaptiveProjectedGuidance()):
        assert_close(
            guided(guider, unets[0], batched=True)[0], guided(guider.fresh(), unets[0], batched=False)[0], 1e-5
        )


def test_each_branch_names_its_cache_context(unets):
    from lockstep.models.modeling import current_cache_context

    seen = []
    handle = unets[0].register_forward_pre_hook(lambda *_: seen.append(current_cache_context()))
    try:
        guided(guiders.ClassifierFreeGuidance(), unets[0])
    finally:
        handle.remove()
    assert seen == ["pred_cond", "pred_uncond"]
    assert current_cache_context() is None


def test_another_thread_sees_an_undisturbed_model(unets):
    unet = unets[0]
    latents, cond, _ = inputs()
    with torch.no_grad():
        wanted = unet(latents, 500, encoder_hidden_states=cond)[0]
    guider = guiders.PerturbedAttentionGuidance(perturbed_guidance_layers=0, perturbed_guidance_stop=1.0)
    guider.set_state(5, 10, torch.tensor(500))
    for _ in guider.branches():
        guider.prepare_models(unet)
    results = {}

    def run(name):
        with torch.no_grad():
            results[name] = unet(latents, 500, encoder_hidden_states=cond)[0]

    run("here")
    thread = threading.Thread(target=run, args=("elsewhere",))
    thread.start()
    thread.join()
    guider.cleanup_models(unet)
    assert torch.equal(results["elsewhere"], wanted)
    assert not torch.equal(results["here"], wanted)
    run("afterwards")
    assert torch.equal(results["afterwards"], wanted)


def test_a_block_with_several_outputs_loses_the_first_alone():
    class Block(torch.nn.Module):
        def forward(self, hidden_states):
            return hidden_states + 1, "kept", "kept, too"

    model = torch.nn.Module()
    model.blocks = torch.nn.ModuleList([Block()])
    guider = guiders.AutoGuidance(auto_guidance_layers=0, dropout=1.0)
    for _ in guider.branches():
        guider.prepare_models(model)
    assert model.blocks[0](hidden_states=5) == model.blocks[0](5) == (5, "kept", "kept, too")
    guider.cleanup_models(model)
    assert model.blocks[0](5) == (6, "kept", "kept, too")


def test_of_several_outputs_each_loses_its_part_and_none_stays_none():
    class Block(torch.nn.Module):
        def forward(self, hidden_states):
            return None, hidden_states

    model = torch.nn.Module()
    model.blocks = torch.nn.ModuleList([Block()])
    guider = guiders.AutoGuidance(auto_guidance_layers=0, dropout=0.5)
    for _ in guider.branches():
        guider.prepare_models(model)
    nothing, dropped = model.blocks[0](torch.ones(1000))
    guider.cleanup_models(model)
    assert nothing is None
    assert set(dropped.tolist()) == {0.0, 2.0}
    assert 350 < int((dropped == 0).sum()) < 650


def test_an_error_inside_a_disturbed_layer_leaves_no_disturbance_behind(unets):
    unet = unets[0]
    latents, cond, _ = inputs()

    def fail(*_):
        raise RuntimeError("out of memory")

    with torch.no_grad():
        wanted = unet(latents, 500, encoder_hidden_states=cond)[0]
        guider = guiders.PerturbedAttentionGuidance(perturbed_guidance_layers=0, perturbed_guidance_stop=1.0)
        guider.set_state(5, 10, torch.tensor(500))
        for _ in guider.branches():
            guider.prepare_models(unet)
        handle = unet.get_submodule(STACK)[0].attn1.to_out[0].register_forward_pre_hook(fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            unet(latents, 500, encoder_hidden_states=cond)
        handle.remove()
        query, key, value = torch.randn(3, 1, 4, 2, 8)
        assert not torch.equal(dispatch_attention_fn(query, key, value), value)
        guider.cleanup_models(unet)
        assert torch.equal(unet(latents, 500, encoder_hidden_states=cond)[0], wanted)


def test_what_the_model_does_not_have_is_refused(unets):
    for config, word in (
        ({"fqn": "nowhere"}, "nowhere"),
        ({"fqn": STACK, "indices": [1]}, "0 to 0"),
        ({"indices": [-1]}, "0 to 0"),
    ):
        guider = guiders.SkipLayerGuidance(skip_layer_config={"indices": [0], **config}, skip_layer_guidance_stop=1.0)
        with pytest.raises(InputError, match=word):
            guided(guider, unets[0])
    with pytest.raises(ConfigError, match="neither"):
        guiders.SkipLayerGuidance()
    with pytest.raises(ConfigError, match="dropout"):
        guiders.AutoGuidance(auto_guidance_layers=0)
    with pytest.raises(ConfigError, match="LayerSkipConfig"):
        guiders.SkipLayerGuidance(skip_layer_config={"indexes": [0]})


@pytest.mark.parametrize("dropout", [-0.1, 1.1])
def test_a_dropout_is_a_part_of_the_output(dropout):
    with pytest.raises(ConfigError, match="between 0 and 1"):
        LayerSkipConfig(indices=[0], dropout=dropout)
    for fine in (0.0, 0.5, 1.0):
        assert LayerSkipConfig(indices=[0], dropout=fine).dropout == fine


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"skip_attention_scores": True, "skip_attention": False, "dropout": 0.5}, "dropout=1 only"),
        ({"skip_attention_scores": True, "skip_attention": True}, "not both"),
    ],
)
def test_scores_are_skipped_whole_and_alone(values, word):
    with pytest.raises(ConfigError, match=word):
        LayerSkipConfig(indices=[0], **values)


@pytest.mark.parametrize(
    "values", [{"skip_attention_scores": True, "skip_attention": False, "skip_ff": True}, {"skip_ff": False}]
)
def test_perturbed_attention_disturbs_scores_and_nothing_else(values):
    with pytest.raises(ConfigError, match="nothing else"):
        guiders.PerturbedAttentionGuidance(perturbed_guidance_config=LayerSkipConfig(indices=[0], **values))


def test_autoguidance_drops_the_part_it_is_told():
    model = torch.nn.Module()
    model.blocks = torch.nn.ModuleList([torch.nn.Linear(64, 64)])
    guider = guiders.AutoGuidance(auto_guidance_layers=0, dropout=0.3)
    values = torch.randn(4, 64)
    plain = model.blocks[0](values)
    guider.prepare_models(model)  # for the branch with the prompt
    assert torch.equal(model.blocks[0](values), plain)
    guider.cleanup_models(model)
    guider.prepare_models(model)
    torch.manual_seed(7)
    dropped = model.blocks[0](values)
    guider.cleanup_models(model)
    torch.manual_seed(7)
    assert torch.equal(dropped, torch.nn.functional.dropout(plain, p=0.3))
    assert torch.equal(model.blocks[0](values), plain)


class PlainBlock(torch.nn.Module):
    """A block of somebody's own, that calls the attention itself (or none at all)."""

    def __init__(self, attends=True):
        super().__init__()
        self.attends = attends

    def forward(self, x):
        heads = x.unflatten(2, (2, -1))
        return dispatch_attention_fn(heads, heads, heads).flatten(2) if self.attends else x


class PlainStack(torch.nn.Module):
    def __init__(self, attends=True):
        super().__init__()
        self.blocks = torch.nn.ModuleList([PlainBlock(attends)])

    def forward(self, x):
        return self.blocks[0](x)


def weakened(guider, model, x):
    """What the model says in the weakened branch."""
    guider.set_state(step=5, num_inference_steps=10, timestep=torch.tensor(500))
    said = []
    for _ in guider.branches():
        guider.prepare_models(model)
        said.append(model(x))
        guider.cleanup_models(model)
    return said[-1]


def test_attention_that_a_block_calls_itself_is_perturbed():
    x, model = torch.randn(1, 6, 8), PlainStack()
    guider = guiders.PerturbedAttentionGuidance(perturbed_guidance_layers=[0], perturbed_guidance_stop=1.0)
    guider.check_model(model)
    assert torch.equal(weakened(guider, model, x), x)
    assert not torch.equal(model(x), x)


def test_a_block_in_which_a_guider_could_change_nothing_is_refused():
    guider = guiders.PerturbedAttentionGuidance(perturbed_guidance_layers=[0], perturbed_guidance_stop=1.0)
    with pytest.raises(InputError, match="PlainBlock has no call of dispatch_attention_fn"):
        weakened(guider, PlainStack(attends=False), torch.randn(1, 6, 8))
    with pytest.raises(InputError, match="PlainBlock has no attention module with a projection 'to_q'"):
        guiders.SmoothedEnergyGuidance(seg_guidance_layers=[0]).check_model(PlainStack())

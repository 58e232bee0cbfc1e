"""ControlNetModel: the tests of every model, beside diffusers', and what it refuses."""

import pytest
import torch
from diffusers import ControlNetModel as Reference
from diffusers import UNet2DConditionModel as ReferenceUNet

from helpers import assert_close, relative_l2, slow
from lockstep.errors import ConfigError, InputError, UnsupportedError
from lockstep.models.controlnets.controlnet import ControlNetModel
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from models.testing import (
    AttentionTesterMixin,
    BaseModelTesterConfig,
    LoraTesterMixin,
    MemoryTesterMixin,
    ModelTesterMixin,
    TorchCompileTesterMixin,
    TrainingTesterMixin,
)

TINY = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
    "conditioning_embedding_out_channels": (4, 8, 8, 12),
}
XL = {
    **TINY,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 68,
    "use_linear_projection": True,
    "transformer_layers_per_block": (1, 2),
    "attention_head_dim": (2, 4),
}
UNET = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
}


def tiny_inputs():
    generator = torch.Generator().manual_seed(1)
    return {
        "sample": torch.randn(2, 4, 8, 8, generator=generator),
        "timestep": torch.tensor([981, 13]),
        "encoder_hidden_states": torch.randn(2, 5, 24, generator=generator),
        "controlnet_cond": torch.rand(2, 3, 64, 64, generator=generator),
    }


class ControlNetConfig(BaseModelTesterConfig):
    model_class = ControlNetModel
    reference_class = Reference

    def init_dict(self):
        return TINY

    def inputs(self):
        return tiny_inputs()

    def output(self, model, **inputs):
        """All residuals as one vector."""
        down, middle = model(**inputs, return_dict=False)
        return torch.cat([residual.flatten() for residual in (*down, middle)])


class TestControlNet(
    ControlNetConfig,
    ModelTesterMixin,
    MemoryTesterMixin,
    AttentionTesterMixin,
    LoraTesterMixin,
    TrainingTesterMixin,
):
    def test_return_dict_and_tuple_agree(self):
        model = self.model()
        with torch.no_grad():
            output, (down, middle) = model(**self.inputs()), model(**self.inputs(), return_dict=False)
        assert torch.equal(output.mid_block_res_sample, middle)
        assert len(down) == 4
        for one, other in zip(output.down_block_res_samples, down, strict=True):
            assert torch.equal(one, other)


@slow
class TestCompiled(ControlNetConfig, TorchCompileTesterMixin):
    pass


CONFIGS = {
    "plain": TINY,
    "reversed colours": {**TINY, "controlnet_conditioning_channel_order": "bgr"},
    "pooled": {**TINY, "global_pool_conditions": True},
    "XL": XL,
    "middle without text": {**TINY, "mid_block_type": "UNetMidBlock2D"},
    "class": {**TINY, "num_class_embeds": 4},
    "one more channel": {**TINY, "conditioning_channels": 4, "in_channels": 9},
}


def pair(config):
    ours = ControlNetModel(**config).eval()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            start = 1.0 if name.endswith("weight") and parameter.ndim == 1 else 0.0
            parameter.copy_(start + torch.randn_like(parameter) / max(parameter[0].numel(), 4) ** 0.5)
    theirs = Reference(**config).eval()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("options", [{}, {"conditioning_scale": 0.4}, {"guess_mode": True, "conditioning_scale": 1.5}])
def test_every_residual_is_the_references(name, options):
    config = CONFIGS[name]
    ours, theirs = pair(config)
    given = {**tiny_inputs(), **options}
    if "addition_embed_type" in config:
        sizes = torch.tensor([[64.0, 64, 0, 0, 64, 64]]).expand(2, -1)
        given["added_cond_kwargs"] = {"text_embeds": torch.randn(2, 20), "time_ids": sizes}
    if "num_class_embeds" in config:
        given["class_labels"] = torch.tensor([0, 3])
    if "in_channels" in config:
        given |= {"sample": torch.randn(2, 9, 8, 8), "controlnet_cond": torch.randn(2, 4, 64, 64)}
    with torch.no_grad():
        got, wanted = ours(**given), theirs(**given)
    assert_close(got.mid_block_res_sample, wanted.mid_block_res_sample, 1e-5, "middle")
    assert len(got.down_block_res_samples) == len(wanted.down_block_res_samples) == 4
    for index, (one, other) in enumerate(zip(got.down_block_res_samples, wanted.down_block_res_samples, strict=True)):
        assert_close(one, other, 1e-5, f"residual {index}")


def test_names_and_shapes_of_the_published_size():
    with torch.device("meta"):
        ours, theirs = ControlNetModel(cross_attention_dim=768), Reference(cross_attention_dim=768)
    got, wanted = ({n: tuple(t.shape) for n, t in model.state_dict().items()} for model in (ours, theirs))
    assert got == wanted
    assert len(got) == 340


def test_from_unet_copies_the_way_down_and_starts_at_zero():
    unet = UNet2DConditionModel(**UNET).eval()
    controlnet = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(4, 8, 8, 12)).eval()
    reference_unet = ReferenceUNet(**UNET)
    reference_unet.load_state_dict(unet.state_dict())
    reference = Reference.from_unet(reference_unet, conditioning_embedding_out_channels=(4, 8, 8, 12))
    theirs = reference.state_dict()
    copied = [name for name in unet.state_dict() if name in controlnet.state_dict()]
    assert len(copied) > 50
    for name in copied:
        assert torch.equal(controlnet.state_dict()[name], unet.state_dict()[name])
        assert torch.equal(controlnet.state_dict()[name], theirs[name])
    assert set(theirs) == set(controlnet.state_dict())
    given = tiny_inputs()
    picture = given.pop("controlnet_cond")
    with torch.no_grad():
        steering = controlnet(**given, controlnet_cond=picture)
        free = unet(**given).sample
        steered = unet(
            **given,
            down_block_additional_residuals=steering.down_block_res_samples,
            mid_block_additional_residual=steering.mid_block_res_sample,
        ).sample
    assert torch.equal(free, steered)


def test_a_trained_controlnet_steers_the_unet_as_the_reference_does():
    unet = UNet2DConditionModel(**UNET).eval()
    reference_unet = ReferenceUNet(**UNET).eval()
    reference_unet.load_state_dict(unet.state_dict())
    ours, theirs = pair(TINY)
    given = tiny_inputs()
    picture = given.pop("controlnet_cond")
    results = []
    with torch.no_grad():
        for control, model in ((ours, unet), (theirs, reference_unet)):
            down, middle = control(**given, controlnet_cond=picture, return_dict=False)
            steer = {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}
            results.append(model(**given, **steer).sample)
        assert_close(*results)
        assert relative_l2(results[0], unet(**given).sample) > 1e-2


def test_what_cannot_be_copied_from_a_unet_is_refused():
    with pytest.raises(UnsupportedError, match="time_cond_proj_dim"):
        ControlNetModel.from_unet(UNet2DConditionModel(**UNET, time_cond_proj_dim=8))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"controlnet_conditioning_channel_order": "rbg"}, "'rgb' or 'bgr'"),
        ({"encoder_hid_dim": 8}, "encoder_hid_dim"),
        ({"mid_block_type": None}, "mid_block_type"),
        ({"conditioning_embedding_out_channels": ()}, "at least one width"),
        ({"norm_num_groups": 5}, "norm_num_groups 5"),
    ],
)
def test_configs_that_cannot_work_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        ControlNetModel(**{**TINY, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"controlnet_cond": torch.rand(2, 3, 64, 32)}, r"\(2, 3, 64, 64\).*got \(2, 3, 64, 32\)"),
        ({"controlnet_cond": torch.rand(1, 3, 64, 64)}, "repeat it"),
        ({"controlnet_cond": torch.rand(2, 3, 64, 64).half()}, "controlnet_cond is torch.float16"),
        ({"controlnet_cond": None}, "controlnet_cond has to be a tensor, got NoneType"),
        ({"encoder_hidden_states": torch.randn(2, 5, 32)}, "32 wide, these weights want 24"),
        ({"sample": torch.randn(2, 9, 8, 8)}, "take 4 channels"),
        ({"timestep_cond": torch.randn(2, 4)}, "no timestep_cond"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        ControlNetModel(**TINY)(**{**tiny_inputs(), **changes})

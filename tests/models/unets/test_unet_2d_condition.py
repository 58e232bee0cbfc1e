"""UNet2DConditionModel: the tests of every model, and what it refuses."""

import json
from pathlib import Path

import pytest
import torch
from diffusers import UNet2DConditionModel as Reference

from helpers import assert_close, slow
from lockstep.attention import attention_backend, attention_replaced_by
from lockstep.errors import ConfigError, InputError, UnknownNameError
from lockstep.models.unets.unet_2d_condition import UNet2DConditionModel
from models.testing import (
    AttentionTesterMixin,
    BaseModelTesterConfig,
    Everything,
    ModelTesterMixin,
    TorchCompileTesterMixin,
    TrainingTesterMixin,
)

PUBLISHED = Path(__file__).parents[2] / "fixtures" / "unet_configs"
TINY = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 2,
    "norm_num_groups": 8,
}


class UNetConfig(BaseModelTesterConfig):
    model_class = UNet2DConditionModel
    reference_class = Reference

    def init_dict(self):
        return TINY

    def inputs(self):
        generator = torch.Generator().manual_seed(1)
        return {
            "sample": torch.randn(2, 4, 8, 8, generator=generator),
            "timestep": torch.tensor([981, 13]),
            "encoder_hidden_states": torch.randn(2, 5, 24, generator=generator),
        }


class TestUNet2DCondition(UNetConfig, Everything):
    def test_context_manager_reaches_the_model(self):
        model = self.model()
        with torch.no_grad():
            wanted = model(**self.inputs()).sample
            with attention_backend("native_math"):
                assert_close(model(**self.inputs()).sample, wanted)

    @slow
    def test_compiled_model_takes_another_size_and_batch(self):
        torch.compiler.reset()
        model = self.model()
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        with torch.no_grad():
            for batch, size in ((2, 8), (3, 12)):
                given = {
                    "sample": torch.randn(batch, 4, size, size),
                    "timestep": torch.tensor(7),
                    "encoder_hidden_states": torch.randn(batch, 5, 24),
                }
                assert_close(compiled(**given).sample, model(**given).sample)


class XLConfig(UNetConfig):
    def init_dict(self):
        return {
            **TINY,
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 68,
            "use_linear_projection": True,
            "transformer_layers_per_block": (1, 2),
        }

    def inputs(self):
        sizes = torch.tensor([[64.0, 64, 0, 0, 64, 64]]).expand(2, -1)
        added = {"text_embeds": torch.linspace(-1, 1, 40).view(2, 20), "time_ids": sizes}
        return {**super().inputs(), "added_cond_kwargs": added}


class TextConfig(UNetConfig):
    def init_dict(self):
        return {**TINY, "addition_embed_type": "text", "addition_embed_type_num_heads": 4}

    def gradient_is_zero(self, name):
        return name == "add_embedding.pool.k_proj.bias"  # it shifts all scores alike, which a softmax does not see


class TestUNet2DConditionXL(XLConfig, ModelTesterMixin, AttentionTesterMixin, TrainingTesterMixin):
    pass


class TestUNet2DConditionText(TextConfig, ModelTesterMixin, TrainingTesterMixin):
    pass


@slow
class TestCompiledXL(XLConfig, TorchCompileTesterMixin):
    pass


@slow
class TestCompiledText(TextConfig, TorchCompileTesterMixin):
    pass


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"block_out_channels": (12, 32)}, "12 is no multiple of norm_num_groups 8"),
        ({"attention_head_dim": 3}, "divided into 3 heads"),
        ({"attention_head_dim": (2, 2, 2)}, "attention_head_dim has 3 values for 2 blocks"),
        ({"block_out_channels": (16, 32, 32)}, "block_out_channels has 3 values and down_block_types 2"),
        ({"up_block_types": ("UpBlock2D",)}, "up_block_types has 1 values"),
        ({"layers_per_block": (1, 1, 1)}, "layers_per_block has 3 values"),
        ({"layers_per_block": 0}, "has to be at least 1"),
        ({"cross_attention_dim": (24, 32)}, "differs between blocks"),
        ({"down_block_types": ("SimpleCrossAttnDownBlock2D",) * 2}, "SimpleCrossAttnDownBlock2D"),
        ({"up_block_types": ("AttnUpBlock2D",) * 2}, "AttnUpBlock2D"),
        ({"mid_block_type": "UNetMidBlock2DSimpleCrossAttn"}, "UNetMidBlock2DSimpleCrossAttn"),
        ({"time_embedding_type": "learned"}, "time_embedding_type has to be 'positional'"),
        ({"dual_cross_attention": True}, "dual_cross_attention"),
        ({"attention_type": "gated"}, "attention_type"),
        ({"cross_attention_norm": "layer_norm"}, "cross_attention_norm"),
        ({"mid_block_only_cross_attention": True}, "mid_block_only_cross_attention"),
        ({"resnet_skip_time_act": True}, "resnet_skip_time_act"),
        ({"resnet_out_scale_factor": 2.0}, "resnet_out_scale_factor"),
        ({"resnet_time_scale_shift": "spatial"}, "'default' or 'scale_shift'"),
        ({"encoder_hid_dim_type": "image_proj", "encoder_hid_dim": 8}, "encoder_hid_dim_type"),
        ({"encoder_hid_dim_type": "text_proj"}, "encoder_hid_dim has to be given"),
        ({"addition_embed_type": "image"}, "addition_embed_type"),
        ({"addition_embed_type": "text_time"}, "needs addition_time_embed_dim"),
        ({"addition_embed_type": "text", "addition_embed_type_num_heads": 7}, "addition_embed_type_num_heads 7"),
        ({"class_embed_type": "learned"}, "class_embed_type"),
        ({"class_embed_type": "projection"}, "projection_class_embeddings_input_dim"),
        ({"norm_num_groups": None}, "norm_num_groups"),
        ({"act_fn": "sine"}, "got 'sine'"),
        ({"transformer_layers_per_block": ((1,), (1,))}, "need reverse_transformer_layers_per_block"),
        (
            {
                "layers_per_block": 2,
                "transformer_layers_per_block": ((1,), 1),
                "reverse_transformer_layers_per_block": (1, 1),
            },
            "block of 2 resnets",
        ),
        ({"reverse_transformer_layers_per_block": (1,)}, "1 values for 2 up blocks"),
        ({"in_channels": "four"}, "in_channels"),
        ({"in_channels": 0}, "'in_channels' has to be at least 1, got 0"),
        ({"block_out_channels": (16, -32)}, r"'block_out_channels' has to be at least 1, got \(16, -32\)"),
        ({"transformer_layers_per_block": -1}, "'transformer_layers_per_block' has to be at least 0, got -1"),
        ({"dropout": 1.5}, "dropout has to be from 0 to 1, got 1.5"),
        ({"norm_eps": -1.0}, "norm_eps has to be from 0 to 1, got -1.0"),
        ({"norm_eps": float("nan")}, "'norm_eps' wants float, got float nan"),
        ({"down_block_types": (), "up_block_types": (), "block_out_channels": ()}, "empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_configs_that_cannot_work_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        UNet2DConditionModel(**{**TINY, **changes})


def test_heads_have_two_published_names():
    by_old_name = UNet2DConditionModel(**{**TINY, "attention_head_dim": (2, 4)})
    by_new_name = UNet2DConditionModel(**{**TINY, "attention_head_dim": 8, "num_attention_heads": (2, 4)})
    heads = [[m.heads for m in model.modules() if hasattr(m, "heads")] for model in (by_old_name, by_new_name)]
    assert heads[0] == heads[1]
    assert set(heads[0]) == {4}  # level 1 alone has attention here; the middle is of that level


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.stem)
def test_wrong_text_width_says_which_width_the_weights_want(path):
    config = json.loads(path.read_text())
    with torch.device("meta"):
        model = UNet2DConditionModel.from_config(config)
        sample, text = torch.zeros(1, config["in_channels"], 8, 8), torch.zeros(1, 77, 999)
    with pytest.raises(InputError, match=f"999 wide, these weights want {config['cross_attention_dim']}"):
        model(sample, 1, text)


def refused(config, words, error=InputError, **changes):
    """The model refuses these inputs before it computes anything."""
    model = UNet2DConditionModel(**{**TINY, **config})
    given = {
        "sample": torch.randn(2, 4, 8, 8),
        "timestep": 1,
        "encoder_hidden_states": torch.randn(2, 5, 24),
        **changes,
    }

    def computed(module, args):
        raise AssertionError(f"{type(module).__name__} ran before the inputs were checked")

    for module in model.modules():
        if module is not model:
            module.register_forward_pre_hook(computed)
    with pytest.raises(error, match=words):
        model(**given)


TEXT_TIME = {
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 68,
}


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (r"\(batch, 4, height, width\), got \(2, 9, 8, 8\)", {"sample": torch.randn(2, 9, 8, 8)}),
        ("height, width", {"sample": torch.randn(4, 8, 8)}),
        ("sample is torch.float64", {"sample": torch.randn(2, 4, 8, 8, dtype=torch.float64)}),
        ("sample has to be a tensor, got ndarray", {"sample": torch.randn(2, 4, 8, 8).numpy()}),
        ("sample is torch.int64", {"sample": torch.ones(2, 4, 8, 8, dtype=torch.int64)}),
        ("3 values for 2 samples", {"timestep": torch.tensor([1, 2, 3])}),
        ("a number or a tensor, got NoneType", {"timestep": None}),
        ("encoder_hidden_states has to be a tensor, got list", {"encoder_hidden_states": [[[0.0]]]}),
        ("encoder_hidden_states is torch.float16", {"encoder_hidden_states": torch.randn(2, 5, 24).half()}),
        ("encoder_hidden_states is on meta", {"encoder_hidden_states": torch.zeros(2, 5, 24, device="meta")}),
        ("encoder_hidden_states is missing", {"encoder_hidden_states": None}),
        (r"\(2, tokens, 24\), got \(1, 5, 24\)", {"encoder_hidden_states": torch.randn(1, 5, 24)}),
        ("23 wide, these weights want 24", {"encoder_hidden_states": torch.randn(2, 5, 23)}),
        (r"\(2, 5\), got \(2, 4\)", {"encoder_attention_mask": torch.ones(2, 4)}),
        (r"they have \[16\] tokens", {"attention_mask": torch.ones(2, 64)}),
        ("take no class_labels", {"class_labels": torch.tensor([1, 2])}),
        ("take no timestep_cond", {"timestep_cond": torch.randn(2, 4)}),
        ("set_adapters", {"cross_attention_kwargs": {"scale": 0.5}}),
        ("3 tensors, this UNet has 4 skips", {"down_block_additional_residuals": (torch.zeros(1),) * 3}),
        (
            r"tensor 1 has to be \(batch, 16, 8, 8\), got \(2, 16, 4, 4\)",
            {"down_block_additional_residuals": (torch.zeros(2, 16, 8, 8),) + (torch.zeros(2, 16, 4, 4),) * 3},
        ),
        (r"\(batch, 32, 4, 4\), got \(2, 16, 4, 4\)", {"mid_block_additional_residual": torch.zeros(2, 16, 4, 4)}),
        (
            r"tensor 0 has to be \(batch, 16, 4, 4\)",
            {"down_intrablock_additional_residuals": (torch.zeros(2, 16, 8, 8),) * 2},
        ),
        ("1 tensors, this UNet takes one per down block", {"down_intrablock_additional_residuals": (torch.zeros(1),)}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_inputs_that_do_not_fit_are_refused_before_compute(words, changes):
    refused({}, words, **changes)


def test_conditions_that_are_missing_or_unknown_are_refused_before_compute():
    added = {"text_embeds": torch.randn(2, 20), "time_ids": torch.randn(2, 6)}
    refused(TEXT_TIME, "'text_embeds'. is missing")
    refused(TEXT_TIME, "'time_ids'. is missing", added_cond_kwargs={"text_embeds": added["text_embeds"]})
    refused(TEXT_TIME, r"\(2, width\)", added_cond_kwargs={**added, "time_ids": torch.randn(6)})
    refused(TEXT_TIME, "text_embeds that are 20 wide", added_cond_kwargs={**added, "text_embeds": torch.randn(2, 21)})
    refused(TEXT_TIME, "image_embeds", UnknownNameError, added_cond_kwargs={**added, "image_embeds": torch.randn(2, 1)})
    refused({}, "text_embeds", UnknownNameError, added_cond_kwargs=added)
    refused({"downsample_padding": 0}, "1×8 latents are too small", sample=torch.randn(2, 4, 1, 8))
    refused({}, "gligen", UnknownNameError, cross_attention_kwargs={"gligen": {}})
    refused({"num_class_embeds": 3}, "class_labels is missing")
    refused({"class_embed_type": "identity"}, r"\(2, 64\), got \(2,\)", class_labels=torch.tensor([1, 2]))
    refused({"time_cond_proj_dim": 8}, "8 wide, got 4", timestep_cond=torch.randn(2, 4))


def test_processor_arguments_arrive():
    model = UNet2DConditionModel(**TINY).eval()
    seen = []

    class Strong(type(next(iter(model.attn_processors.values())))):
        def __call__(self, attn, hidden_states, strength=1.0, **kwargs):
            seen.append(strength)
            return strength * super().__call__(attn, hidden_states, **kwargs)

    model.set_attn_processor(Strong())
    given = {"sample": torch.randn(1, 4, 8, 8), "timestep": 1, "encoder_hidden_states": torch.randn(1, 5, 24)}
    with torch.no_grad():
        weak = model(**given).sample
        strong = model(**given, cross_attention_kwargs={"strength": 3.0}).sample
    assert set(seen) == {1.0, 3.0}
    assert not torch.allclose(weak, strong)


@pytest.mark.parametrize("upcast", [True, False])
def test_upcast_attention_is_computed_in_fp32(upcast):
    model = UNet2DConditionModel(**{**TINY, "upcast_attention": upcast}).eval().to(torch.bfloat16)
    sample, text = torch.randn(1, 4, 8, 8).bfloat16(), torch.randn(1, 5, 24).bfloat16()
    seen = set()
    with torch.no_grad(), attention_replaced_by(lambda call: seen.add(call.query.dtype)):
        output = model(sample, 1, text).sample
    assert seen == {torch.float32 if upcast else torch.bfloat16}
    assert output.dtype == torch.bfloat16

"""Qwen3 as a text encoder beside transformers' with the same weights: every layer, gradients, files, errors."""

import json

import pytest
import torch
import transformers
from safetensors.torch import save_file

from helpers import assert_close, relative_l2
from lockstep import Qwen3Model
from lockstep.errors import ConfigError, InputError
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)

IDS = torch.tensor([[5, 17, 60, 41, 1, 0, 0, 0], [8, 33, 2, 11, 90, 7, 64, 1]])
TINY = {
    "vocab_size": 99, "hidden_size": 20, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "rope_theta": 1_000_000.0,
}  # fmt: skip
PUBLISHED = {  # of the text encoder of Z-Image
    "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rope_theta": 1_000_000.0,
    "max_position_embeddings": 40960, "tie_word_embeddings": True,
}  # fmt: skip


class Qwen3Config(BaseModelTesterConfig):
    model_class = Qwen3Model
    reference_class = transformers.Qwen3Model
    lora_targets = ("q_proj", "v_proj")

    def init_dict(self):
        return TINY

    def inputs(self):
        return {"input_ids": IDS, "attention_mask": (IDS != 0).long()}

    def output(self, model, **inputs):
        """The state before the last layer, which pipelines read, beside the last one; padding counts for nothing."""
        found = model(**inputs, output_hidden_states=True)
        states = found[1] if isinstance(found, tuple) else found.hidden_states
        return torch.cat([states[-2], states[-1]], dim=-1)[inputs["attention_mask"].bool()]


class TestQwen3Model(Qwen3Config, Everything):
    pass


def reference(model):
    """Theirs with the same weights."""
    theirs = transformers.Qwen3Model(transformers.Qwen3Config(**TINY | model.given)).eval()
    theirs.load_state_dict(model.state_dict())
    return theirs


def tiny(**changes):
    class Config(Qwen3Config):
        def init_dict(self):
            return {**TINY, **changes}

    model = Config().model()
    model.given = changes
    return model


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_key_value_heads": 4}, {"attention_bias": True, "rms_norm_eps": 1e-3}, {"rope_theta": 10_000.0}],
)
def test_every_layer(changes):
    ours = tiny(**changes)
    theirs = reference(ours)
    for given in ({"input_ids": IDS}, {"input_ids": IDS, "attention_mask": (IDS != 0).long()}):
        counted = given.get("attention_mask", torch.ones_like(IDS)).bool()
        with torch.no_grad():
            got, wanted = (side(**given, output_hidden_states=True) for side in (ours, theirs))
        assert len(got.hidden_states) == len(wanted.hidden_states) == 4
        for index, (one, other) in enumerate(zip(got.hidden_states, wanted.hidden_states, strict=True)):
            assert_close(one[counted], other[counted], 1e-5, f"state {index}")
        assert_close(got.last_hidden_state[counted], wanted.last_hidden_state[counted], 1e-5)


def test_padding_does_not_reach_the_text():
    model = tiny()
    with torch.no_grad():
        alone = model(IDS[:1, :5]).last_hidden_state
        padded = model(IDS[:1], attention_mask=(IDS[:1] != 0).long()).last_hidden_state[:, :5]
    assert_close(padded, alone, 1e-6)


def test_names_and_shapes_of_the_published_config():
    ours = Qwen3Model.on_meta(PUBLISHED)
    with torch.device("meta"):
        theirs = transformers.Qwen3Model(transformers.Qwen3Config(**PUBLISHED))
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    assert (ours.num_parameters(), len(shapes[0])) == (4_022_468_096, 398)


def test_files_of_the_whole_model_serve_too(tmp_path):
    """As the published folder has it: a causal model's names, and a config of transformers 4."""
    ours = tiny()
    tensors = {f"model.{name}": tensor for name, tensor in ours.state_dict().items()}
    save_file({**tensors, "lm_head.weight": torch.zeros(99, 20)}, tmp_path / "model.safetensors")
    said = {
        **TINY,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "rope_scaling": None,
        "use_cache": True,
    }
    (tmp_path / "config.json").write_text(json.dumps(said))
    loaded = Qwen3Model.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(IDS)[0], ours(IDS)[0])


def test_configs_of_newer_files(tmp_path):
    """transformers 5 says the base of the rotations among others."""
    theirs = reference(tiny())
    theirs.save_pretrained(tmp_path)
    assert "rope_parameters" in json.loads((tmp_path / "config.json").read_text())
    loaded = Qwen3Model.from_pretrained(tmp_path)
    assert loaded.config.rope_theta == TINY["rope_theta"]
    loaded.save_pretrained(tmp_path / "again")
    again = transformers.Qwen3Model.from_pretrained(tmp_path / "again")
    assert again.config.rope_parameters["rope_theta"] == TINY["rope_theta"]
    with torch.no_grad():
        assert_close(loaded(IDS)[0], again(IDS)[0], 1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_far_from_fp32_as_theirs(dtype):
    ours = tiny()
    theirs = reference(ours)
    with torch.no_grad():
        exact = ours(IDS)[0]
        got, wanted = ours.to(dtype)(IDS)[0], theirs.to(dtype)(IDS)[0]
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 3}, ["num_key_value_heads", "3"]),
        ({"head_dim": 7}, ["head_dim", "7"]),
        ({"use_sliding_window": True}, ["use_sliding_window"]),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6}}, ["yarn"]),
        ({"hidden_act": "mish"}, ["hidden_act", "mish"]),
    ],
)
def test_bad_configs(changes, words):
    with pytest.raises(ConfigError) as caught:
        Qwen3Model(**{**TINY, **changes})
    assert all(word in str(caught.value) for word in words)


def test_bad_tokens():
    with pytest.raises(InputError, match="at most 4"):
        Qwen3Model(**TINY, max_position_embeddings=4)(IDS)
    with pytest.raises(InputError, match="got id 99"):
        Qwen3Model(**TINY)(torch.tensor([[99]]))

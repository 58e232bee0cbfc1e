"""CLIP's text transformer on its own: the tests that every model passes, and errors before compute."""

import subprocess
import sys

import pytest
import torch
import transformers

from helpers import assert_close
from lockstep.errors import ConfigError, InputError, WeightsError
from lockstep.models.text_encoders.clip import CLIPTextModel, CLIPTextModelWithProjection
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)

IDS = torch.tensor([[97, 5, 17, 60, 41, 98, 98, 98], [97, 8, 33, 2, 11, 90, 7, 98]])
PADDED = torch.tensor([[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])


class ClipConfig(BaseModelTesterConfig):
    model_class = CLIPTextModel
    reference_class = transformers.CLIPTextModel
    lora_targets = ("q_proj", "v_proj")

    def init_dict(self):
        return {
            "vocab_size": 99,
            "hidden_size": 32,
            "intermediate_size": 48,
            "projection_dim": 24,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 10,
            "bos_token_id": 97,
            "eos_token_id": 98,
        }

    def inputs(self):
        return {"input_ids": IDS, "attention_mask": PADDED}


class ClipTests(Everything):
    def test_gradients_against_reference(self, tmp_path):
        """As for every model, but for the keys' biases: all keys shifted alike change no softmax,
        so theirs is noise."""
        model = self.model()
        reference = self.reference(tmp_path, model)
        for side in (model, reference):
            output = self.output(side, **self.inputs())
            (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
        theirs = {self.model_class.renamed(name): p.grad for name, p in reference.named_parameters()}
        largest = max(float(grad.norm()) for grad in theirs.values() if grad is not None)
        for name, parameter in model.named_parameters():
            if name.endswith("k_proj.bias"):
                assert parameter.grad.norm() < 1e-5 * largest, name
            else:
                assert_close(parameter.grad, theirs[name], 1e-4, f"gradient of {name}")


class TestCLIPTextModel(ClipConfig, ClipTests):
    pass


class TestCLIPTextModelWithProjection(ClipConfig, ClipTests):
    model_class = CLIPTextModelWithProjection
    reference_class = transformers.CLIPTextModelWithProjection


def tiny(**changes):
    return CLIPTextModel.from_config({**ClipConfig().init_dict(), **changes}).eval()


def test_a_token_sees_only_what_is_before_it():
    model, ids = tiny(), IDS.clone()
    ids[:, 5:] = 3
    with torch.no_grad():
        one, other = model(IDS).last_hidden_state, model(ids).last_hidden_state
    assert torch.equal(one[:, :5], other[:, :5])
    assert not torch.allclose(one[:, 5:], other[:, 5:])


def test_padding_of_ones_is_no_padding():
    model = tiny()
    with torch.no_grad():
        assert_close(model(IDS, attention_mask=torch.ones_like(IDS))[0], model(IDS)[0], 1e-6)


def test_penultimate_layer_is_the_model_without_its_last_layer():
    model = tiny()
    shorter = tiny(num_hidden_layers=2)
    shorter.load_state_dict({n: t for n, t in model.state_dict().items() if ".layers.2." not in n})
    with torch.no_grad():
        penultimate = model(IDS, output_hidden_states=True).hidden_states[-2]
        assert torch.equal(penultimate, shorter(IDS, output_hidden_states=True).hidden_states[-1])
        assert torch.equal(model.text_model.final_layer_norm(penultimate), shorter(IDS).last_hidden_state)


def test_int32_ids_and_other_lengths():
    model = tiny()
    with torch.no_grad():
        assert torch.equal(model(IDS.int())[0], model(IDS)[0])
        assert model(IDS[:, :1])[0].shape == (2, 1, 32)


def test_attention_dropout_acts_in_training_only():
    model = tiny(attention_dropout=0.5)
    with torch.no_grad():
        assert torch.equal(model(IDS)[0], model(IDS)[0])
        model.train()
        assert not torch.equal(model(IDS)[0], model(IDS)[0])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([[97, 99]]), ["99 tokens", "ids 0 to 98", "got id 99"]),
        (torch.tensor([[97, -1]]), ["99 tokens", "got id -1"]),
        (torch.zeros(1, 11, dtype=torch.long), ["at most 10 tokens", "got 11", "truncation=True"]),
        (torch.zeros(5, dtype=torch.long), ["(batch, tokens)", "(5,)"]),
        (torch.zeros(1, 0, dtype=torch.long), ["(batch, tokens)", "(1, 0)"]),
        (torch.zeros(1, 5), ["int64", "float32"]),
        ([[97, 5]], ["tensor", "list"]),
    ],
)
def test_bad_tokens(ids, words):
    with pytest.raises(InputError) as caught:
        tiny()(ids)
    assert all(word in str(caught.value) for word in ["CLIPTextModel", *words])


def test_bad_mask():
    with pytest.raises(InputError, match=r"\(2, 8\), got \(2, 7\)"):
        tiny()(IDS, attention_mask=torch.ones(2, 7))
    with pytest.raises(InputError, match=r"\(2, 8\), got list"):
        tiny()(IDS, attention_mask=[[1]])


def test_positions_that_the_table_does_not_have():
    with pytest.raises(InputError, match="position_ids from 0 to 9, .* got 8 to 15"):
        tiny()(IDS, position_ids=torch.arange(8, 16)[None])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_attention_heads": 5}, ["hidden_size", "num_attention_heads", "32", "5"]),
        ({"num_attention_heads": 0}, ["num_attention_heads", "at least 1"]),
        ({"max_position_embeddings": 0}, ["max_position_embeddings", "at least 1"]),
        ({"hidden_act": "mish"}, ["hidden_act", "mish", "quick_gelu"]),
        ({"hidden_size": "32"}, ["hidden_size", "int", "str"]),
        ({"eos_token_id": None}, ["eos_token_id"]),
    ],
)
def test_bad_configs(changes, words):
    with pytest.raises(ConfigError) as caught:
        tiny(**changes)
    assert all(word in str(caught.value) for word in words)


def test_weights_of_another_width_are_named(tmp_path):
    tiny().save_pretrained(tmp_path)
    with pytest.raises(WeightsError, match="position_embedding"):
        CLIPTextModel.from_pretrained(tmp_path, max_position_embeddings=77)


def test_published_sizes():
    """Counts of the published encoders: SD 1.5 (ViT-L/14), SD 2.x (ViT-H/14), SDXL's second (ViT-bigG/14)."""
    with torch.device("meta"):
        large = CLIPTextModel(hidden_size=768, intermediate_size=3072, num_attention_heads=12, num_hidden_layers=12)
        huge = CLIPTextModel(hidden_size=1024, intermediate_size=4096, num_attention_heads=16, num_hidden_layers=23)
        big = CLIPTextModelWithProjection(
            hidden_size=1280, intermediate_size=5120, num_attention_heads=20, num_hidden_layers=32, projection_dim=1280
        )
    assert (large.num_parameters(), len(large.state_dict())) == (123_060_480, 196)
    assert (huge.num_parameters(), len(huge.state_dict())) == (340_387_840, 372)
    assert (big.num_parameters(), len(big.state_dict())) == (694_659_840, 517)


def test_starts_as_the_reference_does():
    """Freshly made models have the reference's spread of values in every tensor."""
    config = {**ClipConfig().init_dict(), "hidden_size": 64, "intermediate_size": 256, "initializer_factor": 0.5}
    ours = CLIPTextModelWithProjection(**config)
    theirs = transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(**config))
    for name, tensor in theirs.state_dict().items():
        got = ours.state_dict()[name]
        assert float(got.mean()) == pytest.approx(float(tensor.mean()), abs=0.03), name
        assert float(got.std()) == pytest.approx(float(tensor.std()), rel=0.2), name


def test_building_on_meta_imports_nothing():
    """Some of torch's random functions import 800 modules when the tensor is on meta."""
    code = (
        "import sys, torch; from lockstep.models.text_encoders.clip import CLIPTextModelWithProjection as C;"
        "from lockstep.models.text_encoders.t5 import UMT5EncoderModel as T; before = set(sys.modules);"
        "meta = torch.device('meta'); meta.__enter__(); C(); T(); print(len(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20

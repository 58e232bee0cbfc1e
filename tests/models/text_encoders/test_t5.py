"""T5's and UMT5's encoders on their own: the tests that every model passes, and errors before compute."""

import pytest
import torch
import transformers

from lockstep.errors import ConfigError, InputError
from lockstep.models.text_encoders.t5 import T5EncoderModel, UMT5EncoderModel
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)

IDS = torch.tensor([[5, 17, 60, 41, 1, 0, 0, 0], [8, 33, 2, 11, 90, 7, 64, 1]])


class T5Config(BaseModelTesterConfig):
    model_class = T5EncoderModel
    reference_class = transformers.T5EncoderModel
    lora_targets = ("q", "v")

    def init_dict(self):
        return {
            "vocab_size": 99,
            "d_model": 32,
            "d_kv": 12,
            "d_ff": 48,
            "num_layers": 3,
            "num_heads": 4,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 20,
            "feed_forward_proj": "gated-gelu",
            "dropout_rate": 0.0,
        }

    def inputs(self):
        return {"input_ids": IDS, "attention_mask": (IDS != 0).long()}


class TestT5EncoderModel(T5Config, Everything):
    pass


class TestUMT5EncoderModel(T5Config, Everything):
    model_class = UMT5EncoderModel
    reference_class = transformers.UMT5EncoderModel


def tiny(cls=T5EncoderModel, **changes):
    return cls.from_config({**T5Config().init_dict(), **changes}).eval()


def test_padding_does_not_reach_the_text():
    model, longer = tiny(), torch.cat([IDS[:1], torch.full((1, 4), 7)], dim=1)
    mask = torch.zeros_like(longer)
    mask[:, :5] = 1
    with torch.no_grad():
        alone = model(IDS[:1, :5]).last_hidden_state
        padded = model(longer, attention_mask=mask).last_hidden_state[:, :5]
    torch.testing.assert_close(padded, alone, rtol=1e-5, atol=1e-5)


def test_only_umt5_has_a_bias_in_every_layer():
    def layers(model):
        return [name for name in model.state_dict() if "relative_attention_bias" in name]

    assert layers(tiny()) == ["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    assert len(layers(tiny(UMT5EncoderModel))) == 3


def test_dropout_acts_in_training_only():
    model = tiny(dropout_rate=0.5)
    with torch.no_grad():
        assert torch.equal(model(IDS)[0], model(IDS)[0])
        model.train()
        assert not torch.equal(model(IDS)[0], model(IDS)[0])


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([[3, 99]]), ["99 tokens", "got id 99"]),
        (torch.tensor([[-7, 3]]), ["99 tokens", "got id -7"]),
        (torch.zeros(5, dtype=torch.long), ["(batch, tokens)", "(5,)"]),
        ("text", ["tensor", "str", "Tokenize"]),
    ],
)
def test_bad_tokens(ids, words):
    with pytest.raises(InputError) as caught:
        tiny()(ids)
    assert all(word in str(caught.value) for word in ["T5EncoderModel", *words])


def test_bad_mask():
    with pytest.raises(InputError, match=r"\(2, 8\), got \(2, 7\)"):
        tiny()(IDS, attention_mask=torch.ones(2, 7))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_heads": 0}, ["num_heads", "at least 1"]),
        ({"relative_attention_num_buckets": 2}, ["relative_attention_num_buckets", "2"]),
        ({"relative_attention_max_distance": 2}, ["relative_attention_max_distance", "2"]),
        ({"feed_forward_proj": "doubled-gelu"}, ["feed_forward_proj", "doubled-gelu"]),
        ({"feed_forward_proj": "gated-mish"}, ["feed_forward_proj", "mish"]),
        ({"d_model": 32.5}, ["d_model", "int"]),
    ],
)
def test_bad_configs(changes, words):
    with pytest.raises(ConfigError) as caught:
        tiny(**changes)
    assert all(word in str(caught.value) for word in words)


def test_published_sizes():
    """Counts of the published encoders: T5 1.1 XXL (SD 3, FLUX) and UMT5 XXL (Wan)."""
    with torch.device("meta"):
        xxl = T5EncoderModel(
            d_model=4096, d_ff=10240, num_layers=24, num_heads=64, vocab_size=32128, feed_forward_proj="gated-gelu"
        )
        umt5 = UMT5EncoderModel(d_model=4096, d_ff=10240, num_layers=24, num_heads=64, vocab_size=256384)
    assert (xxl.num_parameters(), len(xxl.state_dict())) == (4_762_310_656, 219)
    assert (umt5.num_parameters(), len(umt5.state_dict())) == (5_680_910_336, 242)


@pytest.mark.parametrize("feed_forward_proj", ["relu", "gated-gelu"])
def test_starts_as_the_reference_does(feed_forward_proj):
    """Freshly made models have the reference's spread of values in every tensor."""
    config = {**T5Config().init_dict(), "d_model": 64, "d_ff": 256, "feed_forward_proj": feed_forward_proj}
    config |= {"initializer_factor": 0.5, "relative_attention_num_buckets": 64, "relative_attention_max_distance": 128}
    ours = T5EncoderModel(**config)
    theirs = transformers.T5EncoderModel(transformers.T5Config(**config))
    for name, tensor in theirs.state_dict().items():
        got = ours.state_dict()[T5EncoderModel.renamed(name)]
        assert float(got.mean()) == pytest.approx(float(tensor.mean()), abs=0.06), name
        assert float(got.std()) == pytest.approx(float(tensor.std()), rel=0.2), name

"""T5's and UMT5's encoders beside transformers' ones: same names, same files, same numbers at every layer."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers import relative_l2
from lockstep.models.text_encoders.t5 import T5EncoderModel, UMT5EncoderModel, position_buckets

TINY = {
    "vocab_size": 99,
    "d_model": 32,
    "d_kv": 12,  # heads * d_kv is not d_model, as in several published sizes
    "d_ff": 37,
    "num_layers": 3,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "feed_forward_proj": "gated-gelu",
}
# What published configs say beside the architecture, from several versions of transformers.
NOISE = {
    "architectures": ["T5EncoderModel"],
    "model_type": "t5",
    "decoder_start_token_id": 0,
    "num_decoder_layers": 3,
    "output_past": True,
    "is_encoder_decoder": True,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.3",
    "use_cache": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "classifier_dropout": 0.0,
}
CLASSES = {
    T5EncoderModel: (transformers.T5EncoderModel, transformers.T5Config),
    UMT5EncoderModel: (transformers.UMT5EncoderModel, transformers.UMT5Config),
}


def pair(cls, **changes):
    """The two models with the same random weights, norms included."""
    config = {**TINY, **changes}
    torch.manual_seed(0)
    ours = cls.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in ours.named_parameters():
            parameter.normal_(0, 1 if "bias" in name or "norm" in name else 0.2)
    reference, reference_config = CLASSES[cls]
    theirs = reference(reference_config(**config)).eval()
    tensors = dict(ours.state_dict())
    theirs.load_state_dict({**tensors, "encoder.embed_tokens.weight": tensors["shared.weight"]})
    return ours, theirs


def tokens(rows=3, length=50):
    return torch.randint(0, 99, (rows, length), generator=torch.Generator().manual_seed(1))


def padding(rows=3, length=50):
    return (torch.arange(length) < torch.tensor([[length], [length - 9], [3]])[:rows]).long()


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("feed_forward_proj", ["gated-gelu", "relu", "gelu_new", "gated-silu"])
@pytest.mark.parametrize("masked", [False, True])
def test_every_layer(cls, feed_forward_proj, masked):
    ours, theirs = pair(cls, feed_forward_proj=feed_forward_proj)
    inputs = {"input_ids": tokens(), "attention_mask": padding() if masked else None}
    with torch.no_grad():
        got, want = ours(**inputs, output_hidden_states=True), theirs(**inputs, output_hidden_states=True)
    assert len(got.hidden_states) == len(want.hidden_states) == 4
    for index, (a, b) in enumerate(zip(got.hidden_states, want.hidden_states, strict=True)):
        assert relative_l2(a, b) <= 1e-5, f"hidden state {index}"
    assert relative_l2(got.last_hidden_state, want.last_hidden_state) <= 1e-5
    assert torch.equal(got.hidden_states[-1], got.last_hidden_state)


@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (64, 1000)])
def test_position_buckets(buckets, distance):
    distances = torch.arange(-2000, 2001)[None]
    reference = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket
    assert torch.equal(
        position_buckets(distances, buckets, distance),
        reference(distances, bidirectional=True, num_buckets=buckets, max_distance=distance),
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_gradients(cls):
    ours, theirs = pair(cls)
    for model in (ours, theirs):
        last = model(tokens(), attention_mask=padding()).last_hidden_state
        (last * torch.linspace(-1, 1, last.numel()).view_as(last)).sum().backward()
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    named = dict(ours.named_parameters())
    assert len(named) == 3 * 9 + 2 + (3 if cls is UMT5EncoderModel else 1)
    for name, parameter in named.items():
        assert relative_l2(parameter.grad, expected[name]) <= 1e-5, name


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_what_the_reference_keeps(cls, dtype, tmp_path):
    """`wo` stays fp32 in fp16 (and only there), so the states between the layers do too."""
    ours, _ = pair(cls)
    ours.save_pretrained(tmp_path)
    ours = cls.from_pretrained(tmp_path, dtype=dtype)
    theirs = CLASSES[cls][0].from_pretrained(tmp_path, dtype=dtype).eval()
    theirs_dtypes = {name: value.dtype for name, value in theirs.state_dict().items()}
    assert {name: value.dtype for name, value in ours.state_dict().items()} == {
        name: theirs_dtypes[name] for name in ours.state_dict()
    }
    with torch.no_grad():
        got = ours(tokens(), attention_mask=padding(), output_hidden_states=True)
        want = theirs(tokens(), attention_mask=padding(), output_hidden_states=True)
    unit = torch.finfo(dtype).eps
    for index, (a, b) in enumerate(zip(got.hidden_states, want.hidden_states, strict=True)):
        assert a.dtype == b.dtype, f"hidden state {index}"
        assert relative_l2(a, b) <= unit, f"hidden state {index}"


def test_fp16_overflow_is_clamped():
    ours, theirs = pair(T5EncoderModel)
    with torch.no_grad():
        for model in (ours, theirs):
            model.encoder.block[0].layer[0].SelfAttention.o.weight.mul_(1e5)
            model.half()
        attention = ours.encoder.block[0].layer[0]
        bias = attention.SelfAttention.position_bias(50, None)
        assert torch.isinf(attention(ours.shared(tokens()), bias)).any()
        got, want = ours(tokens(), output_hidden_states=True), theirs(tokens(), output_hidden_states=True)
    for index, (a, b) in enumerate(zip(got.hidden_states, want.hidden_states, strict=True)):
        assert torch.isfinite(a).all(), f"hidden state {index}"
        assert relative_l2(a, b) <= 1e-3, f"hidden state {index}"


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("feed_forward_proj", ["gated-gelu", "relu"])
def test_what_we_save_transformers_loads(cls, feed_forward_proj, tmp_path):
    ours, _ = pair(cls, feed_forward_proj=feed_forward_proj)
    ours.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == [cls.__name__]
    assert written["model_type"] == {T5EncoderModel: "t5", UMT5EncoderModel: "umt5"}[cls]
    theirs, report = CLASSES[cls][0].from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        assert relative_l2(ours(tokens())[0], theirs.eval()(tokens())[0]) <= 1e-5


@pytest.mark.parametrize("cls", CLASSES)
def test_what_transformers_saves_we_load(cls, tmp_path):
    ours, theirs = pair(cls)
    theirs.save_pretrained(tmp_path)
    loaded = cls.from_pretrained(tmp_path).state_dict()
    assert set(loaded) == set(load_file(tmp_path / "model.safetensors")) == set(ours.state_dict())
    assert all(torch.equal(loaded[name], value) for name, value in ours.state_dict().items())


def test_files_of_other_versions_load(tmp_path):
    """The token vectors under either name or both, a whole model's decoder, and a config full of noise."""
    ours, _ = pair(T5EncoderModel)
    tensors = {name: value.clone() for name, value in ours.state_dict().items()}
    vectors = tensors.pop("shared.weight")
    decoder = {"decoder.final_layer_norm.weight": torch.ones(32), "lm_head.weight": torch.ones(99, 32)}
    variants = {
        "shared": {"shared.weight": vectors},
        "encoder": {"encoder.embed_tokens.weight": vectors},
        "both": {"encoder.embed_tokens.weight": torch.zeros(99, 32), "shared.weight": vectors, **decoder},
    }
    for variant, extra in variants.items():
        folder = tmp_path / variant
        folder.mkdir()
        save_file({**tensors, **extra}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({**TINY, **NOISE}))
        loaded = T5EncoderModel.from_pretrained(folder)
        assert all(torch.equal(loaded.state_dict()[name], value) for name, value in ours.state_dict().items()), variant
        assert loaded.config.output_past is True


def test_feed_forward_in_two_values():
    """Some published configs have `dense_act_fn` and `is_gated_act` but no `feed_forward_proj`."""
    config = {**TINY, "dense_act_fn": "gelu_pytorch_tanh", "is_gated_act": True}
    del config["feed_forward_proj"]
    model = T5EncoderModel.from_config(config)
    assert hasattr(model.encoder.block[0].layer[1].DenseReluDense, "wi_1")
    theirs = transformers.T5EncoderModel(transformers.T5Config(**config))
    theirs.load_state_dict(
        {**model.state_dict(), "encoder.embed_tokens.weight": model.state_dict()["shared.weight"]}, strict=True
    )
    written = json.loads(model.config_to_json())
    assert transformers.T5Config(**written).dense_act_fn == "gelu_pytorch_tanh"
    with torch.no_grad():
        assert relative_l2(model.eval()(tokens())[0], theirs.eval()(tokens())[0]) <= 1e-5

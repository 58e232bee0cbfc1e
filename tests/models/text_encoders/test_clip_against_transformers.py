"""CLIP's text transformer beside transformers' one: same names, same files, same numbers at every layer."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from helpers import relative_l2
from lockstep.models.text_encoders.clip import CLIPTextModel, CLIPTextModelWithProjection

TINY = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 37,
    "projection_dim": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 16,
    "bos_token_id": 97,
    "eos_token_id": 98,
}
# What published configs say beside the architecture, from several versions of transformers.
NOISE = {
    "_name_or_path": "openai/clip-vit-large-patch14",
    "architectures": ["CLIPTextModel"],
    "dropout": 0.0,
    "model_type": "clip_text_model",
    "torch_dtype": "float16",
    "transformers_version": "4.22.0.dev0",
    "return_dict": True,
    "use_bfloat16": False,
    "chunk_size_feed_forward": 0,
    "id2label": {"0": "LABEL_0"},
}
CLASSES = {
    CLIPTextModel: transformers.CLIPTextModel,
    CLIPTextModelWithProjection: transformers.CLIPTextModelWithProjection,
}


def pair(cls=CLIPTextModel, **changes):
    """The two models with the same random weights, biases and norms included."""
    config = {**TINY, **changes}
    torch.manual_seed(0)
    ours = cls.from_config(config).eval()
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(0, 0.2)
    theirs = CLASSES[cls](transformers.CLIPTextConfig(**config)).eval()
    names = theirs.state_dict().keys()
    prefix = "" if any(name.startswith("text_model.") for name in names) else "text_model."
    theirs.load_state_dict({name.removeprefix(prefix): value for name, value in ours.state_dict().items()})
    return ours, theirs


def tokens(rows=3, length=11, end=98):
    ids = torch.randint(0, 97, (rows, length), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = 97
    for row in range(rows):
        ids[row, length - 1 - 2 * row :] = end
    return ids


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("hidden_act", ["quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh"])
@pytest.mark.parametrize("eos_token_id", [2, 98])
@pytest.mark.parametrize("masked", [False, True])
def test_every_layer(cls, hidden_act, eos_token_id, masked):
    ours, theirs = pair(cls, hidden_act=hidden_act, eos_token_id=eos_token_id)
    ids = tokens()
    mask = (torch.arange(11) < torch.tensor([[11], [9], [7]])).long() if masked else None
    with torch.no_grad():
        got = ours(ids, attention_mask=mask, output_hidden_states=True)
        want = theirs(ids, attention_mask=mask, output_hidden_states=True)
    assert got.keys() == list(want.keys())
    assert len(got.hidden_states) == len(want.hidden_states) == 4
    for index, (a, b) in enumerate(zip(got.hidden_states, want.hidden_states, strict=True)):
        assert relative_l2(a, b) <= 1e-5, f"hidden state {index}"
    for key in set(got.keys()) - {"hidden_states"}:
        assert relative_l2(got[key], want[key]) <= 1e-5, key


def test_pooling_differs_where_the_end_is_not_the_highest_id():
    """The old rule takes the highest id, the new one the first end token: with other ids they choose differently."""
    ids = torch.tensor([[97, 5, 60, 7, 60, 60]])
    for eos_token_id, position in ((2, 0), (60, 2)):
        ours, theirs = pair(eos_token_id=eos_token_id)
        with torch.no_grad():
            got, want = ours(ids), theirs(ids)
        assert torch.equal(got.pooler_output, got.last_hidden_state[:, position])
        assert relative_l2(got.pooler_output, want.pooler_output) <= 1e-5


def test_position_ids():
    ours, theirs = pair()
    ids, positions = tokens(), torch.arange(11).flip(0)[None]
    with torch.no_grad():
        assert relative_l2(ours(ids, position_ids=positions)[0], theirs(ids, position_ids=positions)[0]) <= 1e-5
        assert relative_l2(ours(ids)[0], theirs(ids, position_ids=positions)[0]) > 1e-2


@pytest.mark.parametrize("cls", CLASSES)
def test_gradients(cls):
    ours, theirs = pair(cls)
    ids = tokens()
    got, want = ours(ids, output_hidden_states=True), theirs(ids, output_hidden_states=True)
    for output in (got, want):
        weights = torch.linspace(-1, 1, output[0].numel()).view_as(output[0])
        ((output[0] * weights).sum() + output.hidden_states[-2].square().sum()).backward()
    theirs_by_name = {name.removeprefix("text_model."): p.grad for name, p in theirs.named_parameters()}
    compared = 0
    for name, parameter in ours.named_parameters():
        expected = theirs_by_name[name.removeprefix("text_model.")]
        if parameter.grad is None or expected is None:
            assert parameter.grad is expected, name
            continue
        # the gradient of k_proj.bias is zero but for rounding: softmax does not see a shift of all keys
        if not name.endswith("k_proj.bias"):
            assert relative_l2(parameter.grad, expected) <= 1e-5, name
        compared += 1
    assert compared >= 3 * 16


@pytest.mark.parametrize("cls", CLASSES)
def test_what_we_save_transformers_loads(cls, tmp_path):
    ours, _ = pair(cls)
    ours.save_pretrained(tmp_path)
    assert all(
        name.startswith(("text_model.", "text_projection.")) for name in load_file(tmp_path / "model.safetensors")
    )
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["architectures"] == [cls.__name__]
    assert written["model_type"] == "clip_text_model"
    theirs, report = CLASSES[cls].from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ids = tokens()
    with torch.no_grad():
        assert relative_l2(ours(ids)[0], theirs.eval()(ids)[0]) <= 1e-5


@pytest.mark.parametrize("cls", CLASSES)
def test_what_transformers_saves_we_load(cls, tmp_path):
    ours, theirs = pair(cls)
    theirs.save_pretrained(tmp_path)
    loaded = cls.from_pretrained(tmp_path)
    assert {name: value.shape for name, value in loaded.state_dict().items()} == {
        name: value.shape for name, value in ours.state_dict().items()
    }
    assert all(torch.equal(a, b) for a, b in zip(loaded.state_dict().values(), ours.state_dict().values(), strict=True))


def test_files_of_other_versions_load(tmp_path):
    """Names without the prefix (transformers 5), the position buffer (before 4.31), and a config full of noise."""
    ours, _ = pair()
    tensors = {name.removeprefix("text_model."): value.clone() for name, value in ours.state_dict().items()}
    for folder, prefix in ((tmp_path / "new", ""), (tmp_path / "old", "text_model.")):
        folder.mkdir()
        extra = {"embeddings.position_ids": torch.arange(16)[None]}
        save_file({prefix + name: value for name, value in {**tensors, **extra}.items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({**TINY, **NOISE}))
        loaded = CLIPTextModel.from_pretrained(folder)
        assert all(torch.equal(loaded.state_dict()[name], value) for name, value in ours.state_dict().items())
        assert loaded.config.chunk_size_feed_forward == 0
        assert "dropout" in loaded.unknown_config_keys


def test_saved_dtype_is_the_one_of_the_weights(tmp_path):
    """A stale dtype in the config would make transformers cast the weights on load."""
    model = CLIPTextModel.from_config({**TINY, **NOISE})
    model.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["dtype"] == "float32"
    assert "torch_dtype" not in written
    assert transformers.CLIPTextModel.from_pretrained(tmp_path).dtype == torch.float32

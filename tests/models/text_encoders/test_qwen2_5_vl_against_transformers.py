"""Qwen2.5-VL as an encoder beside transformers' with the same weights: layers, pictures, gradients, files, errors."""

import json

import pytest
import torch
import transformers
from safetensors.torch import save_file

from helpers import assert_close, relative_l2
from lockstep import Qwen2_5_VLForConditionalGeneration
from lockstep.errors import ConfigError, InputError
from models.testing import BaseModelTesterConfig, Everything

MARK = 90
VISION = {
    "depth": 3, "hidden_size": 16, "intermediate_size": 20, "num_heads": 2, "patch_size": 4, "window_size": 16,
    "out_hidden_size": 16, "fullatt_block_indexes": [1], "model_type": "qwen2_5_vl",
}  # fmt: skip
TINY = {
    "vocab_size": 99, "hidden_size": 16, "intermediate_size": 28, "num_hidden_layers": 3, "num_attention_heads": 2,
    "num_key_value_heads": 1, "rope_theta": 10_000.0, "rms_norm_eps": 1e-6, "image_token_id": MARK,
    "vision_config": VISION,
    "rope_scaling": {"mrope_section": [1, 1, 2], "rope_type": "default", "type": "default"},
}  # fmt: skip
PUBLISHED = {  # of the text encoder of Qwen-Image; the rest of its values are the defaults
    "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
    "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 128000, "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0, "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default"},
    "vision_config": {"hidden_size": 1280, "depth": 32, "in_chans": 3, "window_size": 112, "model_type": "qwen2_5_vl"},
}  # fmt: skip
IDS = torch.tensor([[5, 17, 60, 41, 1, 0, 0, 0], [8, 33, 2, 11, 89, 7, 64, 1]])
GRIDS = torch.tensor([[1, 6, 4], [1, 2, 10], [2, 4, 4]])  # in patches: 6, 5 and 8 tokens
ROWS = [  # two pictures in a text, and one in another, which is padded
    [3, *[MARK] * 6, 7, 8, *[MARK] * 5, 9, 1],
    [4, 5, *[MARK] * 8, 6, 0, 0, 0, 0, 0],
]


def with_pictures():
    ids = torch.tensor(ROWS)
    patches = torch.randn(int(GRIDS.prod(1).sum()), 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(1))
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "pixel_values": patches, "image_grid_thw": GRIDS}


def for_theirs(given):
    """Since transformers 5 it is told which tokens are a picture's; untold, it counts them as words."""
    return {**given, "mm_token_type_ids": (given["input_ids"] == MARK).int()}


class Qwen2_5_VLConfig(BaseModelTesterConfig):
    model_class = Qwen2_5_VLForConditionalGeneration
    reference_class = transformers.Qwen2_5_VLForConditionalGeneration
    lora_targets = ("q_proj", "v_proj")

    def init_dict(self):
        return TINY

    def inputs(self):
        return {"input_ids": IDS, "attention_mask": (IDS != 0).long()}

    def reference(self, folder, model):
        return reference(model)

    def to_ours(self, tensors):
        return {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"}

    def output(self, model, **inputs):
        """The states before and after the last layer; padding counts for nothing."""
        found = model(**inputs, output_hidden_states=True)
        states = found[1] if isinstance(found, tuple) else found.hidden_states
        return torch.cat([states[-2], states[-1]], dim=-1)[inputs["attention_mask"].bool()]

    def may_lack_gradient(self, name):
        return "visual" in name  # no picture is given

    def gradient_is_zero(self, name):
        return "visual" in name


class TestQwen2_5_VL(Qwen2_5_VLConfig, Everything):
    pass


def reference(model, **changes):
    """Theirs with the same weights, and a head of zeros."""
    theirs = transformers.Qwen2_5_VLForConditionalGeneration(transformers.Qwen2_5_VLConfig(**{**TINY, **changes}))
    head = {"lm_head.weight": torch.zeros(99, 16)}
    theirs.load_state_dict({**model.state_dict(), **head})
    return theirs.eval()


@pytest.fixture(scope="module")
def pair():
    ours = Qwen2_5_VLConfig().model()
    return ours, reference(ours)


def compared(pair, given):
    counted = given.get("attention_mask", torch.ones_like(given["input_ids"])).bool()
    with torch.no_grad():
        got, wanted = (
            side(**what, output_hidden_states=True) for side, what in zip(pair, (given, for_theirs(given)), strict=True)
        )
    assert len(got.hidden_states) == len(wanted.hidden_states) == 4
    for index, (one, other) in enumerate(zip(got.hidden_states, wanted.hidden_states, strict=True)):
        assert_close(one[counted], other[counted], 1e-5, f"state {index}")
    assert torch.equal(got.last_hidden_state, got.hidden_states[-1])


def test_every_layer(pair):
    compared(pair, {"input_ids": IDS})
    compared(pair, {"input_ids": IDS, "attention_mask": (IDS != 0).long()})


def test_every_layer_with_pictures(pair):
    compared(pair, with_pictures())
    one = {name: value for name, value in with_pictures().items() if name != "attention_mask"}
    patches = int(GRIDS[:2].prod(1).sum())
    first = {"input_ids": one["input_ids"][:1], "pixel_values": one["pixel_values"][:patches]}
    compared(pair, {**first, "image_grid_thw": GRIDS[:2]})


@pytest.mark.parametrize("grids", [[[1, 4, 4]], [[1, 2, 2]], [[1, 14, 6], [3, 2, 8]], [[2, 12, 12]]])
def test_the_vision_tower(pair, grids):
    """Windows of two tokens a side: whole ones, those at the edge, frames, several pictures; and every block."""
    grids = torch.tensor(grids)
    patches = torch.randn(int(grids.prod(1).sum()), 3 * 2 * 4 * 4, generator=torch.Generator().manual_seed(2))
    towers, seen = [side.model.visual for side in pair], ([], [])
    handles = [
        block.register_forward_hook(lambda m, a, out, kept=kept: kept.append(out))
        for tower, kept in zip(towers, seen, strict=True)
        for block in tower.blocks
    ]
    got = towers[0](patches.requires_grad_(), [tuple(grid) for grid in grids.tolist()])
    wanted = towers[1](patches, grid_thw=grids).pooler_output
    for handle in handles:
        handle.remove()
    for index, (one, other) in enumerate(zip(*seen, strict=True)):
        assert_close(one, other, 1e-5, f"block {index}")
    assert_close(got, wanted, 1e-5)
    slopes = [torch.autograd.grad((out * torch.linspace(-1, 1, 16)).sum(), patches)[0] for out in (got, wanted)]
    assert_close(slopes[0], slopes[1], 1e-5, "gradient of the patches")


def test_gradients_with_pictures(pair):
    given = with_pictures()
    counted = given["attention_mask"].bool()
    for side, what in zip(pair, (given, for_theirs(given)), strict=True):
        side.zero_grad()
        state = side(**what, output_hidden_states=True).hidden_states[-1]
        (state[counted] * torch.linspace(-1, 1, 16)).sum().backward()
    others = dict(pair[1].named_parameters())
    for name, parameter in pair[0].named_parameters():
        if float(others[name].grad.norm()) > 1e-4:
            assert_close(parameter.grad, others[name].grad, 1e-5, name)


def test_padding_does_not_reach_the_text(pair):
    ours, given = pair[0], with_pictures()
    alone = {"input_ids": given["input_ids"][1:, :11], "image_grid_thw": GRIDS[2:]}
    alone["pixel_values"] = given["pixel_values"][-int(GRIDS[2].prod()) :]
    with torch.no_grad():
        assert_close(ours(**alone)[0], ours(**given)[0][1:, :11], 1e-5)


def test_names_and_shapes_of_the_published_config():
    ours = Qwen2_5_VLForConditionalGeneration.on_meta(PUBLISHED)
    with torch.device("meta"):
        theirs = transformers.Qwen2_5_VLForConditionalGeneration(transformers.Qwen2_5_VLConfig(**PUBLISHED))
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    head = shapes[1].pop("lm_head.weight")
    assert shapes[0] == shapes[1]
    assert ours.num_parameters() + head[0] * head[1] == theirs.num_parameters()


def test_files_with_the_older_names(tmp_path, pair):
    """As the published folder has it: names and a config of transformers 4."""
    older = {
        name.removeprefix("model.") if ".visual." in name else name.replace("language_model.", ""): tensor
        for name, tensor in pair[0].state_dict().items()
    }
    assert {name.split(".")[0] for name in older} == {"visual", "model"}
    save_file({**older, "lm_head.weight": torch.zeros(99, 16)}, tmp_path / "model.safetensors")
    said = {**TINY, "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl"}
    (tmp_path / "config.json").write_text(json.dumps(said))
    loaded = Qwen2_5_VLForConditionalGeneration.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(**with_pictures())[0], pair[0](**with_pictures())[0])


def test_files_of_newer_versions(tmp_path, pair):
    """transformers 5 keeps what belongs to the language model by itself; ours it reads as well."""
    pair[1].save_pretrained(tmp_path)
    assert "text_config" in json.loads((tmp_path / "config.json").read_text())
    loaded = Qwen2_5_VLForConditionalGeneration.from_pretrained(tmp_path)
    assert loaded.config.rope_theta == TINY["rope_theta"]
    loaded.save_pretrained(tmp_path / "again")
    again = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(tmp_path / "again").eval()
    compared((loaded, again), with_pictures())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_far_from_fp32_as_theirs(dtype):
    ours = Qwen2_5_VLConfig().model()
    theirs, given = reference(ours), with_pictures()
    counted = given["attention_mask"].bool()

    def state(side, what):
        return side(**what, output_hidden_states=True).hidden_states[-1][counted]

    with torch.no_grad():
        exact = state(ours, given)
        got, wanted = state(ours.to(dtype), given), state(theirs.to(dtype), for_theirs(given))
    assert relative_l2(got, exact) <= 1.2 * relative_l2(wanted, exact)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_key_value_heads": 3}, ["num_key_value_heads", "3"]),
        ({"num_attention_heads": 3}, ["num_attention_heads", "3"]),
        ({"use_sliding_window": True}, ["use_sliding_window"]),
        ({"rope_scaling": {"mrope_section": [1, 1], "type": "default"}}, ["mrope_section", "4"]),
        ({"rope_scaling": {"type": "yarn"}}, ["yarn"]),
        ({"vision_config": {**VISION, "out_hidden_size": 8}}, ["out_hidden_size", "16"]),
        ({"vision_config": {**VISION, "window_size": 4}}, ["window_size"]),
        ({"vision_config": {**VISION, "num_heads": 3}}, ["num_heads", "3"]),
    ],
)
def test_bad_configs(changes, words):
    with pytest.raises(ConfigError) as caught:
        Qwen2_5_VLForConditionalGeneration(**{**TINY, **changes})
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"image_grid_thw": None}, "together"),
        ({"image_grid_thw": GRIDS[:2]}, "pixel_values of"),
        ({"pixel_values": torch.zeros(3, 96)}, "pixel_values of"),
        ({"image_grid_thw": torch.tensor([[1, 76, 1]])}, "multiples of 2"),
        ({"image_grid_thw": torch.tensor([[1, 4, 10], [1, 2, 2], [2, 4, 4]])}, "10 tokens.*6"),
        ({"input_ids": torch.full((2, 16), 99)}, "got id 99"),
    ],
)
def test_bad_inputs(pair, changes, word):
    with pytest.raises(InputError, match=word):
        pair[0](**{**with_pictures(), **changes})

"""T2I-Adapters, IP-Adapters in the UNet and FreeU beside diffusers, on the same weights."""

import copy

import diffusers
import pytest
import torch

import lockstep
from helpers import assert_close, relative_l2
from lockstep.errors import ConfigError, InputError, UnknownNameError, UnsupportedError, WeightsError
from lockstep.loaders.ip_adapter import adapter_in_memory
from pipelines import tiny, tiny_adapters

ADAPTERS = {
    "full_adapter": {"channels": (16, 32, 32), "num_res_blocks": 2, "downscale_factor": 4},
    "full_adapter_xl": {"channels": (8, 16, 24, 24), "num_res_blocks": 1, "downscale_factor": 4, "in_channels": 1},
    "light_adapter": {"channels": (16, 32), "num_res_blocks": 3, "downscale_factor": 2},
}
FREEU = {"s1": 0.9, "s2": 0.2, "b1": 1.5, "b2": 1.6}
DEEP = {
    "block_out_channels": (16, 32, 32), "attention_head_dim": 4, "layers_per_block": 2,
    "down_block_types": ("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
}  # fmt: skip


def both_unets(xl=False, **more):
    ours = tiny.unet(xl=xl, **more)
    theirs = diffusers.UNet2DConditionModel.from_config(dict(ours.config))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs.eval()


def inputs_of(unet, batch=2, size=(8, 8)):
    generator = torch.Generator().manual_seed(1)

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    config = unet.config
    given = {
        "sample": random(batch, 4, *size),
        "timestep": torch.tensor([501, 20][:batch]),
        "encoder_hidden_states": random(batch, 7, config["cross_attention_dim"]),
    }
    if config["addition_embed_type"] == "text_time":
        given["added_cond_kwargs"] = {"text_embeds": random(batch, 16), "time_ids": torch.full((batch, 6), 16.0)}
    return given


def predict(unet, **given):
    with torch.no_grad():
        return unet(**given, return_dict=False)[0]


# ---- FreeU ----


@pytest.mark.parametrize("size", [(8, 8), (6, 10)])
@pytest.mark.parametrize("settings", [{}, {"xl": True}, DEEP], ids=["sd", "xl", "deep"])
def test_freeu(settings, size):
    ours, theirs = both_unets(**settings)
    given = inputs_of(ours, size=size)
    plain = predict(ours, **given)
    for unet in (ours, theirs):
        unet.enable_freeu(**FREEU)
    wanted = predict(theirs, **given)
    assert_close(predict(ours, **given), wanted)
    assert relative_l2(plain, wanted) > 1e-3
    assert all(getattr(block, name) == value for block in ours.up_blocks for name, value in FREEU.items())
    ours.enable_freeu(**{**FREEU, "b1": 1.1})
    theirs.enable_freeu(**{**FREEU, "b1": 1.1})
    assert_close(predict(ours, **given), predict(theirs, **given), what="after other values")
    kept = copy.deepcopy(ours)
    ours.disable_freeu()
    assert ours.freeu is None
    assert all(getattr(block, name) is None for block in ours.up_blocks for name in FREEU)
    assert torch.equal(predict(ours, **given), plain)
    assert_close(predict(kept, **given), predict(theirs, **given), what="a copy")
    kept.disable_freeu()
    assert torch.equal(predict(kept, **given), plain)


def test_freeu_in_half_precision_filters_in_fp32():
    ours, theirs = both_unets()
    given = inputs_of(ours)
    given = {name: value.bfloat16() if value.is_floating_point() else value for name, value in given.items()}
    for unet in (ours, theirs):
        unet.to(torch.bfloat16).enable_freeu(**FREEU)
    assert_close(predict(ours, **given).float(), predict(theirs, **given).float(), 2e-2)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "0.9", None, True])
def test_freeu_refuses_what_is_no_number(wrong):
    unet = tiny.unet()
    with pytest.raises(InputError, match="s2 as a finite number"):
        unet.enable_freeu(**{**FREEU, "s2": wrong})
    assert unet.freeu is None


def test_freeu_refuses_blocks_that_it_does_not_act_on():
    unet = tiny.unet(**tiny.K_UNET)
    with pytest.raises(UnsupportedError, match="KUpBlock2D"):
        unet.enable_freeu(**FREEU)


# ---- T2I-Adapters ----


def their_adapter(ours):
    theirs = diffusers.T2IAdapter(**{name: ours.config[name] for name in (*ADAPTERS["full_adapter"], "in_channels")},
                                  adapter_type=ours.config["adapter_type"])  # fmt: skip
    theirs.load_state_dict(ours.state_dict())
    return theirs.eval()


@pytest.mark.parametrize("kind", ADAPTERS)
def test_t2i_adapter(kind):
    ours = tiny.randomize(lockstep.T2IAdapter(**ADAPTERS[kind], adapter_type=kind), 5)
    theirs = their_adapter(ours)
    channels = ours.config["in_channels"]
    picture = torch.rand(2, channels, 24, 40, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        got, wanted = ours(picture), theirs(picture)
    assert len(got) == len(wanted)
    for level, (one, other) in enumerate(zip(got, wanted, strict=True)):
        assert_close(one, other, what=f"feature map {level}")
    assert [tuple(one.shape[1:]) for one in got] == ours.feature_shapes(24, 40)
    assert ours.total_downscale_factor == theirs.total_downscale_factor
    assert ours.downscale_factor == theirs.downscale_factor


def test_several_t2i_adapters_and_their_folders(tmp_path):
    parts = [tiny_adapters.t2i_adapter(seed=seed) for seed in (1, 2)]
    ours, theirs = lockstep.MultiAdapter(parts), diffusers.MultiAdapter([their_adapter(part) for part in parts])
    pictures = [torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed in (3, 4)]
    for weights in (None, [0.3, 1.2]):
        with torch.no_grad():
            for got, wanted in zip(ours(pictures, weights), theirs(pictures, weights), strict=True):
                assert_close(got, wanted)
    ours.save_pretrained(tmp_path / "adapter")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "adapter_1"]
    again = lockstep.MultiAdapter.from_pretrained(tmp_path)
    elsewhere = diffusers.MultiAdapter.from_pretrained(str(tmp_path / "adapter"))
    with torch.no_grad():
        for got, wanted, third in zip(again(pictures), ours(pictures), elsewhere(pictures), strict=True):
            assert torch.equal(got, wanted)
            assert_close(third, wanted)


def test_t2i_adapters_refuse():
    with pytest.raises(ConfigError, match="adapter_type"):
        lockstep.T2IAdapter(adapter_type="heavy_adapter")
    adapter = tiny_adapters.t2i_adapter()
    with pytest.raises(InputError, match=r"\(batch, 3, height, width\)"):
        adapter(torch.zeros(1, 1, 16, 16))
    with pytest.raises(InputError, match="multiples of 4"):
        adapter(torch.zeros(1, 3, 18, 16))
    with pytest.raises(InputError, match="T2IAdapter"):
        lockstep.MultiAdapter([tiny.unet()])
    with pytest.raises(InputError, match="shrink a picture alike"):
        lockstep.MultiAdapter([adapter, tiny.randomize(lockstep.T2IAdapter(channels=(16, 32), downscale_factor=8), 1)])
    with pytest.raises(InputError, match="each of 2 adapters"):
        lockstep.MultiAdapter([adapter, adapter])([torch.zeros(1, 3, 16, 16)], [1.0, 1.0])


# ---- IP-Adapters ----


def encodings(kinds, pictures=1, batch=2):
    generator = torch.Generator().manual_seed(6)
    shapes = {"plain": (24,), "full": (17, 32), "plus": (17, 32)}
    return [torch.randn(batch, pictures, *shapes[kind], generator=generator) for kind in kinds]


def with_adapters(ours, theirs, kinds):
    sections = [tiny_adapters.ip_adapter(theirs, kind, seed=40 + k) for k, kind in enumerate(kinds)]
    theirs._load_ip_adapter_weights(copy.deepcopy(sections))
    ours.set_ip_adapters([adapter_in_memory(one) for one in sections])


def told(unet, given, images, **more):
    """The arguments of a prediction with pictures."""
    added = {**(given.get("added_cond_kwargs") or {}), "image_embeds": images}
    return {**given, "added_cond_kwargs": added, **more}


def set_their_scale(unet, scale):
    class Pipe(diffusers.loaders.IPAdapterMixin):
        pass

    pipe = Pipe()
    pipe.unet = unet
    pipe.set_ip_adapter_scale(scale)


@pytest.mark.parametrize("kinds", [("plain",), ("full",), ("plus",), ("plain", "plus")], ids="+".join)
@pytest.mark.parametrize("settings", [{}, {"xl": True}, DEEP], ids=["sd", "xl", "deep"])
def test_ip_adapters(settings, kinds):
    ours, theirs = both_unets(**settings)
    given = inputs_of(ours)
    plain = predict(ours, **given)
    names = set(ours.state_dict())
    with_adapters(ours, theirs, kinds)
    images = encodings(kinds, pictures=2)
    wanted = predict(theirs, **told(theirs, given, images))
    assert_close(predict(ours, **told(ours, given, images)), wanted)
    assert relative_l2(plain, wanted) > 1e-3
    assert set(ours.state_dict()) == set(theirs.state_dict())
    ours.unset_ip_adapters()
    assert torch.equal(predict(ours, **given), plain)
    assert set(ours.state_dict()) == names


SCALES = [
    0.4,
    0.0,
    {"up": {"block_1": [0.0, 1.0, 0.5]}},
    {"down": {"block_1": [0.3]}, "mid": 0.7, "up": 0.2},
    {"down": 1, "mid": [0.4]},
]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_scales_by_block(scale):
    ours, theirs = both_unets(**DEEP)
    with_adapters(ours, theirs, ["plain", "plus"])
    given, images = inputs_of(ours), encodings(["plain", "plus"])
    before = predict(ours, **told(ours, given, images))
    ours.set_ip_adapter_scale([scale, 0.6])
    set_their_scale(theirs, [scale, 0.6])
    got, wanted = (predict(unet, **told(unet, given, images)) for unet in (ours, theirs))
    assert_close(got, wanted)
    assert relative_l2(before, wanted) > 1e-4
    ours.set_ip_adapter_scale(scale)  # one for both
    set_their_scale(theirs, [scale, scale])
    assert_close(predict(ours, **told(ours, given, images)), predict(theirs, **told(theirs, given, images)))


def masks_of(pictures, size=(64, 64)):
    rows = torch.linspace(0, 1, size[0])[None, :, None].expand(pictures, *size)
    return torch.stack([(rows[k] > (k + 1) / (pictures + 1)).float() for k in range(pictures)])[None]


@pytest.mark.parametrize("scale", [0.8, [[0.2, 0.9], 0.5]], ids=str)
@pytest.mark.parametrize("size", [(8, 8), (8, 12)])
def test_masks(size, scale):
    ours, theirs = both_unets(**DEEP)
    kinds = ["plain", "plus"]
    with_adapters(ours, theirs, kinds)
    given, images = inputs_of(ours, size=size), encodings(kinds, pictures=2)
    plain = predict(ours, **told(ours, given, images))
    masks = [masks_of(2, (size[0] * 8, size[1] * 8)), None if isinstance(scale, list) else masks_of(2, size)]
    ours.set_ip_adapter_scale(scale)
    set_their_scale(theirs, scale if isinstance(scale, list) else [scale] * 2)
    more = {"cross_attention_kwargs": {"ip_adapter_masks": masks}}
    wanted = predict(theirs, **told(theirs, given, images, **more))
    assert_close(predict(ours, **told(ours, given, images, **more)), wanted)
    assert relative_l2(plain, wanted) > 1e-4


def test_what_ip_adapters_refuse():
    ours, theirs = both_unets()
    given, images = inputs_of(ours), encodings(["plain"], pictures=2)
    with pytest.raises(UnknownNameError, match="image_embeds"):
        predict(ours, **told(ours, given, images))
    with pytest.raises(InputError, match="load_ip_adapter"):
        ours.set_ip_adapter_scale(0.5)
    with_adapters(ours, theirs, ["plain"])
    with pytest.raises(InputError, match="was given no picture"):
        predict(ours, **given)
    with pytest.raises(InputError, match="as many tensors, got 2"):
        predict(ours, **told(ours, given, images * 2))
    with pytest.raises(InputError, match=r"\(2, pictures, 24\).*image encoder"):
        predict(ours, **told(ours, given, encodings(["plus"])))
    with pytest.raises(InputError, match=r"\(2, pictures, 24\)"):
        predict(ours, **told(ours, given, encodings(["plain"], batch=1)))

    def masked(*masks):
        return predict(ours, **told(ours, given, images, cross_attention_kwargs={"ip_adapter_masks": list(masks)}))

    with pytest.raises(InputError, match="a mask for each of 1 IP-Adapters, got 2"):
        masked(masks_of(2), masks_of(2))
    with pytest.raises(InputError, match=r"\(1, 2, height, width\).*got \(1, 1, 64, 64\)"):
        masked(masks_of(1))
    with pytest.raises(InputError, match="proportions"):
        masked(masks_of(2, (64, 32)))
    for wrong in (float("nan"), "strong", None, [0.5, 0.5], {"up": {"block_0": [0.1, 0.2, 0.3]}}, {"mid": [1.0, 2.0]}):
        with pytest.raises(InputError):
            ours.set_ip_adapter_scale(wrong)
    with pytest.raises(UnknownNameError, match="'upp'"):
        ours.set_ip_adapter_scale({"upp": 1.0})
    with pytest.raises(UnknownNameError, match="block_7"):
        ours.set_ip_adapter_scale({"up": {"block_7": 1.0}})
    ours.set_ip_adapter_scale([[0.5, 0.5]])
    with pytest.raises(InputError, match="acts only with masks"):
        predict(ours, **told(ours, given, images))


def test_an_adapter_of_another_family_changes_nothing():
    ours, theirs = both_unets()
    given = inputs_of(ours)
    plain = predict(ours, **given)
    for other in (tiny.unet(xl=True), tiny.unet(**DEEP)):
        reference = diffusers.UNet2DConditionModel.from_config(dict(other.config))
        with pytest.raises(WeightsError, match="another family"):
            ours.set_ip_adapters([adapter_in_memory(tiny_adapters.ip_adapter(reference))])
    assert torch.equal(predict(ours, **given), plain)
    with pytest.raises(UnsupportedError, match="only_cross_attention"):
        tiny.unet(only_cross_attention=True).set_ip_adapters([adapter_in_memory(tiny_adapters.ip_adapter(theirs))])


def test_a_saved_unet_has_no_adapter_in_it(tmp_path):
    ours, theirs = both_unets()
    given = inputs_of(ours)
    plain = predict(ours, **given)
    with_adapters(ours, theirs, ["plus"])
    ours.save_pretrained(tmp_path)
    assert torch.equal(predict(lockstep.UNet2DConditionModel.from_pretrained(tmp_path), **given), plain)


def test_a_processor_of_ones_own_comes_back_after_unloading():
    class Louder:
        def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None):
            query, key, value = attn.project(hidden_states, encoder_hidden_states)
            return attn.to_out[0](2 * query + key.mean() + value.mean())

    ours, theirs = both_unets()
    ours.set_attn_processor(Louder())
    given = inputs_of(ours)
    plain = predict(ours, **given)
    with_adapters(ours, theirs, ["plain"])
    ours.unset_ip_adapters()
    assert torch.equal(predict(ours, **given), plain)

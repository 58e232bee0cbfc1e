"""LoRAs of a pipeline: strengths by block and by call against the reference, swapping, saving, lists."""

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

import lockstep
from helpers import relative_l2
from lockstep.errors import InputError, NonFiniteError, UnknownNameError

RANK = 3
ENDS = ("to_q", "to_v", "to_out.0", "conv1", "conv", "proj_in", "q_proj", "out_proj")
PARTS = [
    {"unet": {"down": 0.3, "mid": 0.0, "up": {"block_0": 0.5, "block_1": 1.2}}},
    {"unet": {"down": {"block_1": [0.7]}, "up": {"block_0": [0.1, 0.9]}}, "text_encoder": 0.2},
    {"text_encoder": 0.0},
]


def tensors_for(pipe, seed=0, rank=RANK, ends=ENDS, components=("unet", "text_encoder")):
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for component in components:
        for name, layer in getattr(pipe, component).named_modules():
            if isinstance(layer, (torch.nn.Linear, torch.nn.Conv2d)) and name.endswith(ends):
                out, *rest = layer.weight.shape
                thin = (out, rank, *[1] * (len(rest) - 1))
                tensors[f"{component}.{name}.lora_A.weight"] = torch.randn(rank, *rest, generator=draw) * 0.2
                tensors[f"{component}.{name}.lora_B.weight"] = torch.randn(thin, generator=draw) * 0.2
    return tensors


@pytest.fixture
def pipe(folder):
    pipe = lockstep.StableDiffusionPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture
def reference(folder):
    pipe = diffusers.StableDiffusionPipeline.from_pretrained(folder, dtype=torch.float32, safety_checker=None)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def run(pipe, **more):
    given = {"num_inference_steps": 2, "output_type": "latent", "height": 16, "width": 16, **more}
    return pipe("a red cat", generator=torch.Generator().manual_seed(0), **given).images


@pytest.fixture
def files(pipe, tmp_path):
    attention = ("to_q", "to_v", "to_out.0", "proj_in", "q_proj", "out_proj")  # the reference weights no block without
    for seed in (0, 1):
        save_file(tensors_for(pipe, seed, ends=attention), tmp_path / f"{seed}.safetensors")
    return tmp_path


def load(pipe, files, *names):
    for name in names:
        pipe.load_lora_weights(str(files), weight_name=f"{name}.safetensors", adapter_name=f"style{name}")


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")  # the reference's second adapter
@pytest.mark.parametrize("parts", PARTS)
def test_strengths_by_block_against_the_reference(pipe, reference, files, parts):
    for one in (pipe, reference):
        load(one, files, 0, 1)
        one.set_adapters(["style0", "style1"], [dict(parts), 0.4])
    assert relative_l2(run(pipe), run(reference)) < 1e-5
    pipe.set_adapters(["style0", "style1"], [1.0, 0.4])
    assert relative_l2(run(pipe), run(reference)) > 1e-4


def test_layers_beside_the_attentions_have_the_strength_of_their_number(pipe):
    pipe.load_lora_weights(tensors_for(pipe, components=("unet",)), "style")
    originals = lockstep.StableDiffusionPipeline.from_pretrained(pipe.name_or_path).unet.state_dict()
    pipe.set_adapters("style", {"unet": {"up": {"block_0": [0.0, 1.0]}}})
    now = pipe.unet.state_dict()
    assert torch.equal(now["up_blocks.0.resnets.0.conv1.weight"], originals["up_blocks.0.resnets.0.conv1.weight"])
    changed = [name for name in now if not torch.equal(now[name], originals[name])]
    assert "up_blocks.0.resnets.1.conv1.weight" in changed
    assert "up_blocks.1.resnets.0.conv1.weight" in changed


@pytest.mark.parametrize("scale", [0.0, 0.35])
def test_a_scale_of_the_call_against_the_reference(pipe, reference, files, scale):
    for one in (pipe, reference):
        load(one, files, 0)
    full = run(pipe)
    scaled = run(pipe, cross_attention_kwargs={"scale": scale})
    assert relative_l2(scaled, run(reference, cross_attention_kwargs={"scale": scale})) < 1e-5
    assert torch.equal(run(pipe), full)  # the next call has none of it
    words = pipe.encode_prompt("a red cat", "cpu", 1, True, lora_scale=scale)[0]
    assert relative_l2(words, reference.encode_prompt("a red cat", "cpu", 1, True, lora_scale=scale)[0]) < 1e-5
    pipe.unload_lora_weights()
    with pytest.raises(InputError, match="scale"):
        run(pipe, cross_attention_kwargs={"scale": scale})


def test_runs_that_want_different_scales_do_not_mix(pipe, files):
    load(pipe, files, 0)
    under_way = pipe.stream("a cat", num_inference_steps=2, output_type="latent", height=16, width=16, seed=0)
    next(under_way)
    with pytest.raises(InputError, match="under way"):
        run(pipe, cross_attention_kwargs={"scale": 0.5})
    for change in (
        lambda: pipe.set_adapters("style0", 0.1), pipe.disable_lora, pipe.fuse_lora, pipe.unload_lora_weights
    ):  # fmt: skip
        with pytest.raises(InputError, match="under way"):
            change()
    list(under_way)
    run(pipe, cross_attention_kwargs={"scale": 0.5})


def test_lists_and_switches(pipe, files):
    plain = run(pipe)
    load(pipe, files, 0, 1)
    assert pipe.get_list_adapters() == {"unet": ["style0", "style1"], "text_encoder": ["style0", "style1"]}
    pipe.set_adapters("style1", 0.5)
    one = run(pipe)
    assert pipe.get_active_adapters() == ["style1"]
    pipe.disable_lora()
    assert torch.equal(run(pipe), plain)
    assert pipe.get_active_adapters() == []
    pipe.enable_lora()
    assert torch.equal(run(pipe), one)
    pipe.delete_adapters("style0")
    assert torch.equal(run(pipe), one)
    assert pipe.get_list_adapters() == {"unet": ["style1"], "text_encoder": ["style1"]}
    for wrong, error in (
        (lambda: pipe.set_adapters(["style1"], [1.0, 2.0]), InputError),
        (lambda: pipe.set_adapters("style1", {"unt": 1.0}), UnknownNameError),
        (lambda: pipe.set_adapters("style1", {"unet": {"down": "much"}}), InputError),
        (lambda: pipe.fuse_lora(adapter_names=["style2"]), UnknownNameError),
        (lambda: load(pipe, files, 1), InputError),
    ):
        with pytest.raises(error):
            wrong()


def test_fusing_what_overflows_is_refused_where_asked(pipe):
    huge = {name: tensor * 1e25 for name, tensor in tensors_for(pipe, ends=("to_q",)).items()}
    pipe.load_lora_weights(huge, "huge")
    with pytest.raises(NonFiniteError, match="nothing was fused"):
        pipe.fuse_lora(safe_fusing=True)
    assert pipe.fused_loras == set()


def test_a_swap_of_any_rank_compiles_nothing_anew(pipe):
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    pipe.load_lora_weights(tensors_for(pipe, 0), "style")
    pipe.unet = torch.compile(pipe.unet, backend=counter)
    first = run(pipe)
    compiled, places = counter.frame_count, {name: id(p) for name, p in pipe.unet._orig_mod.named_parameters()}
    assert compiled
    pipe.load_lora_weights(tensors_for(_plain(pipe), 1, rank=5), "style", hotswap=True)
    second = run(pipe)
    assert relative_l2(second, first) > 1e-3
    pipe.set_adapters("style", 0.2)
    run(pipe)
    assert counter.frame_count == compiled
    assert {name: id(p) for name, p in pipe.unet._orig_mod.named_parameters()} == places
    torch._dynamo.reset()
    fresh = lockstep.StableDiffusionPipeline.from_pretrained(pipe.name_or_path)
    fresh.set_progress_bar_config(disable=True)
    fresh.load_lora_weights(tensors_for(fresh, 1, rank=5), "style")
    assert relative_l2(second, run(fresh)) < 1e-6
    with pytest.raises(UnknownNameError, match="style2"):
        fresh.load_lora_weights(tensors_for(fresh, 1), "style2", hotswap=True)


def _plain(pipe):
    """The pipeline's models without the compiler's wrapper, by name."""
    from types import SimpleNamespace

    return SimpleNamespace(unet=pipe.unet._orig_mod, text_encoder=pipe.text_encoder)


def test_a_loaded_lora_is_written_as_the_field_writes_it(pipe, reference, tmp_path):
    tensors = tensors_for(pipe)
    flat = {}
    for name, tensor in tensors.items():
        component, _, rest = name.partition(".")
        layer, _, part = rest.removesuffix(".weight").rpartition(".")
        base = f"{'lora_unet_' if component == 'unet' else 'lora_te_'}{layer.replace('.', '_')}"
        flat |= {
            f"{base}.lora_{'down' if part == 'lora_A' else 'up'}.weight": tensor,
            f"{base}.alpha": torch.tensor(1.5),
        }
    pipe.load_lora_weights(flat, "style")
    ours = run(pipe)
    pipe.save_lora_adapter(tmp_path / "written")
    written = load_file(tmp_path / "written" / "pytorch_lora_weights.safetensors")
    assert set(written) == set(tensors)
    reference.load_lora_weights(str(tmp_path / "written"))
    assert relative_l2(ours, run(reference)) < 1e-5
    pipe.unet.save_lora_adapter(tmp_path / "unet", "style")
    alone = load_file(tmp_path / "unet" / "pytorch_lora_weights.safetensors")
    assert set(alone) == {name.removeprefix("unet.") for name in tensors if name.startswith("unet.")}
    layers = {name.removeprefix("unet."): tensor for name, tensor in written.items() if name.startswith("unet.")}
    settings = {"lora_alpha": RANK, "r": RANK}
    type(pipe).save_lora_weights(tmp_path / "own", unet_lora_layers=layers, unet_lora_adapter_metadata=settings)
    pipe.unload_lora_weights()
    assert pipe.load_lora_weights(tmp_path / "own").applied == len(layers)
    for wrong, error in (
        (lambda: type(pipe).save_lora_weights(tmp_path, unet_layers=layers), UnknownNameError),
        (lambda: type(pipe).save_lora_weights(tmp_path), InputError),
        (lambda: pipe.save_lora_adapter(tmp_path, "style"), UnknownNameError),
    ):
        with pytest.raises(error):
            wrong()


def test_relatives_are_written_by_their_own_names_and_read_back(pipe, tmp_path):
    layer = "lora_unet_mid_block_attentions_0_transformer_blocks_0_attn1_to_q"
    draw = torch.Generator().manual_seed(0)
    tensors = {f"{layer}.hada_w{k}_{p}": torch.randn((32, 2) if p == "a" else (2, 32), generator=draw)
               for k in (1, 2) for p in "ab"} | {f"{layer}.alpha": torch.tensor(1.0)}  # fmt: skip
    pipe.load_lora_weights(tensors, "style")
    weight = pipe.unet.mid_block.attentions[0].transformer_blocks[0].attn1.to_q.weight.clone()
    pipe.save_lora_adapter(tmp_path)
    pipe.unload_lora_weights()
    pipe.load_lora_weights(tmp_path)
    assert torch.equal(pipe.unet.mid_block.attentions[0].transformer_blocks[0].attn1.to_q.weight, weight)


def test_pipelines_that_share_models_share_their_loras(pipe, files):
    load(pipe, files, 0)
    other = lockstep.StableDiffusionImg2ImgPipeline.from_pipe(pipe)
    assert other.get_active_adapters() == ["style0"]

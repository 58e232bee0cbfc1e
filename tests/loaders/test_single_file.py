"""Single files: what a folder holds comes out of one file, in the pipeline, model by model, and in diffusers."""

import json

import diffusers
import pytest
import torch
from safetensors.torch import load_file, save_file

import lockstep
from helpers import assert_close
from loaders import checkpoints as files
from lockstep.errors import (
    ConfigError,
    FileFormatError,
    InputError,
    LoadError,
    LockstepError,
    NotFoundError,
    UnknownNameError,
    WeightsError,
    WriteError,
)
from lockstep.files import read_safetensors_header
from lockstep.loaders.convert import convert
from pipelines import tiny

KINDS = ("sd1", "sd2", "xl", "refiner")
CLASSES = {
    "unet": "UNet2DConditionModel",
    "vae": "AutoencoderKL",
    "text_encoder": "CLIPTextModel",
    "text_encoder_2": "CLIPTextModelWithProjection",
}


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    """(kind, folder, single file in the original layout)."""
    root = tmp_path_factory.mktemp(request.param)
    folder = tiny.save_folder(root / "folder", request.param)
    convert(folder, root / "model.safetensors")
    return request.param, folder, root / "model.safetensors"


def weights(folder):
    return {path.relative_to(folder).as_posix(): load_file(path) for path in sorted(folder.rglob("*.safetensors"))}


def same_weights(one, other):
    one, other = weights(one), weights(other)
    assert set(one) == set(other)
    for name, tensors in one.items():
        assert set(tensors) == set(other[name])
        for key, tensor in tensors.items():
            assert tensor.dtype == other[name][key].dtype
            assert torch.equal(tensor, other[name][key]), f"{name}: {key}"


def test_the_original_layout_has_its_names(pair):
    kind, _, file = pair
    names = set(read_safetensors_header(file)[0])
    assert {"model.diffusion_model.input_blocks.0.0.weight", "first_stage_model.decoder.mid.attn_1.q.weight"} <= names
    text = {
        "sd1": "cond_stage_model.transformer.text_model.embeddings.token_embedding.weight",
        "sd2": "cond_stage_model.model.transformer.resblocks.0.attn.in_proj_weight",
        "xl": "conditioner.embedders.1.model.text_projection",
        "refiner": "conditioner.embedders.0.model.text_projection",
    }[kind]
    assert text in names


def test_there_and_back_bit_for_bit(pair, tmp_path):
    _, folder, file = pair
    convert(file, tmp_path / "again")
    same_weights(folder, tmp_path / "again")
    for path in sorted(folder.rglob("*.json")):
        name = path.relative_to(folder)
        assert (tmp_path / "again" / name).read_text() == path.read_text(), name


def test_the_pipeline_is_the_same(pair):
    kind, folder, file = pair
    images = {"image": torch.zeros(1, 3, 32, 32), "strength": 0.9} if kind == "refiner" else {"height": 32, "width": 32}
    call = {"prompt": "a photo of the red cat", "num_inference_steps": 3, "output_type": "latent", "seed": 3, **images}
    whole = lockstep.DiffusionPipeline.from_pretrained(folder)
    wanted = whole(**call).images
    pipe = lockstep.DiffusionPipeline.from_single_file(file)
    assert type(pipe) is type(whole)
    assert torch.equal(pipe(**call).images, wanted)
    lazy = lockstep.DiffusionPipeline.from_pretrained(str(file), load=False)
    assert torch.equal(lazy(**call).images, wanted)
    assert pipe.scheduler.config.prediction_type == ("v_prediction" if kind == "sd2" else "epsilon")


def test_the_task_chooses_the_class(pair):
    kind, _, file = pair
    pipe = lockstep.AutoPipelineForImage2Image.from_single_file(file, load=False)
    assert type(pipe).__name__ == f"StableDiffusion{'XL' if kind in ('xl', 'refiner') else ''}Img2ImgPipeline"


def test_models_alone(pair):
    _, folder, file = pair
    for name, kind in CLASSES.items():
        if not (folder / name).is_dir():
            continue
        model = getattr(lockstep, kind).from_single_file(file, dtype="bfloat16")
        wanted = getattr(lockstep, kind).from_pretrained(folder, subfolder=name, dtype="bfloat16").state_dict()
        assert set(model.state_dict()) == set(wanted)
        assert all(torch.equal(tensor, wanted[key]) for key, tensor in model.state_dict().items())
        assert model.loaded_from == file


def test_a_folder_of_configs_in_place_of_the_header(pair, tmp_path):
    _, folder, file = pair
    save_file(load_file(file), tmp_path / "bare.safetensors")
    pipe = lockstep.DiffusionPipeline.from_single_file(tmp_path / "bare.safetensors", config=folder)
    wanted = lockstep.UNet2DConditionModel.from_pretrained(folder, subfolder="unet").state_dict()
    assert all(torch.equal(tensor, wanted[key]) for key, tensor in pipe.unet.state_dict().items())
    assert len(pipe.tokenizer or pipe.tokenizer_2) == len(tiny.tokenizer())


@pytest.mark.parametrize("kind", ["sd1", "sd2", "xl"])
def test_diffusers_loads_it_and_makes_the_same_latents(kind, tmp_path):
    folder = tiny.save_folder(tmp_path / "folder", kind)
    if kind == "xl":  # the reference tells the two text encoders by their width
        wide = {
            "hidden_size": 24,
            "intermediate_size": 32,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "projection_dim": 24,
        }
        known = {
            key: value for key, value in tiny.text_encoder(len(tiny.tokenizer())).config.items() if key not in wide
        }
        second = lockstep.CLIPTextModelWithProjection(**{**known, **wide, "hidden_act": "gelu"})
        tiny.randomize(second, 4).save_pretrained(folder / "text_encoder_2")
        unet = tiny.unet(xl=True, cross_attention_dim=40, projection_class_embeddings_input_dim=6 * 8 + 24)
        unet.save_pretrained(folder / "unet")
    convert(folder, tmp_path / "model.safetensors")
    name = "StableDiffusionXLPipeline" if kind == "xl" else "StableDiffusionPipeline"
    theirs = getattr(diffusers, name).from_single_file(
        str(tmp_path / "model.safetensors"), config=str(folder), local_files_only=True
    )
    theirs.set_progress_bar_config(disable=True)
    ours = lockstep.DiffusionPipeline.from_single_file(tmp_path / "model.safetensors")
    latents = torch.randn(1, 4, 16, 16)
    call = {
        "prompt": "a photo of the red cat",
        "num_inference_steps": 3,
        "output_type": "latent",
        "height": 32,
        "width": 32,
    }
    wanted = theirs(**call, latents=latents.clone()).images
    assert_close(ours(**call, latents=latents.clone()).images, wanted)


def test_half_precision_and_casts_that_lose_are_refused(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "half.safetensors", dtype=torch.float16)
    assert {info.dtype for info in read_safetensors_header(tmp_path / "half.safetensors")[0].values()} == {"F16"}
    kept = lockstep.UNet2DConditionModel.from_single_file(tmp_path / "half.safetensors", dtype="keep")
    full = lockstep.UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    assert all(torch.equal(t, full.state_dict()[n].half()) for n, t in kept.state_dict().items())
    model = lockstep.UNet2DConditionModel.from_pretrained(folder, subfolder="unet")
    with torch.no_grad():
        model.conv_in.weight[0, 0, 0, 0] = 1e6
    model.save_pretrained(folder / "unet")
    with pytest.raises(WeightsError, match="1 values that torch.float16 cannot hold.*bfloat16"):
        convert(folder, tmp_path / "lost.safetensors", dtype=torch.float16)
    assert not list(tmp_path.glob("*lost*"))


def test_shards_and_other_folders(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "sharded", max_shard_size="100KB")
    assert len(list((tmp_path / "sharded" / "unet").glob("*-of-*.safetensors"))) > 1
    convert(tmp_path / "sharded", tmp_path / "model.safetensors")
    convert(tmp_path / "model.safetensors", tmp_path / "again")
    same_weights(folder, tmp_path / "again")
    pipe = lockstep.DiffusionPipeline.from_pretrained(tmp_path / "sharded")
    assert pipe.unet.num_parameters() > 0


def test_one_model_alone(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    for name in ("unet", "vae", "text_encoder"):
        convert(folder / name, tmp_path / f"{name}.safetensors")
        convert(tmp_path / f"{name}.safetensors", tmp_path / name)
        same_weights(folder / name, tmp_path / name)
        assert json.loads((tmp_path / name / "config.json").read_text()) == json.loads(
            (folder / name / "config.json").read_text()
        )
        kind = getattr(lockstep, CLASSES[name])
        assert kind.from_single_file(tmp_path / f"{name}.safetensors").num_parameters() > 0
        assert kind.from_pretrained(tmp_path / f"{name}.safetensors").num_parameters() > 0


def test_controlnet(tmp_path):
    config = {
        "block_out_channels": (16, 32),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "norm_num_groups": 8,
        "cross_attention_dim": 768,
        "layers_per_block": 1,
        "conditioning_embedding_out_channels": (8, 16),
    }
    model = tiny.randomize(lockstep.ControlNetModel(**config), 3)
    model.save_pretrained(tmp_path / "net")
    convert(tmp_path / "net", tmp_path / "net.safetensors")
    save_file(load_file(tmp_path / "net.safetensors"), tmp_path / "bare.safetensors")
    for file in ("net.safetensors", "bare.safetensors"):
        loaded = lockstep.ControlNetModel.from_single_file(tmp_path / file, norm_num_groups=8)
        assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_tiny_autoencoders_in_all_their_forms(tmp_path):
    model = tiny.randomize(
        lockstep.AutoencoderTiny(encoder_block_out_channels=(8,) * 4, decoder_block_out_channels=(8,) * 4), 5
    )
    model.save_pretrained(tmp_path / "folder")
    published = load_file(tmp_path / "folder" / "diffusion_pytorch_model.safetensors")
    halves = {"encoder": {}, "decoder": {}}
    for name, tensor in published.items():
        part, _, index, rest = name.split(".", 3)
        halves[part][f"{int(index) + (part == 'decoder')}.{rest}"] = tensor
    save_file(published, tmp_path / "published.safetensors")
    save_file(
        {f"taesd_{p}.{n}": t for p, half in halves.items() for n, t in half.items()}, tmp_path / "comfy.safetensors"
    )
    for part, half in halves.items():
        save_file(half, tmp_path / f"tae_{part}.safetensors")
    for name in ("published", "comfy", "tae_encoder", "tae_decoder"):
        loaded = lockstep.AutoencoderTiny.from_single_file(tmp_path / f"{name}.safetensors")
        assert all(torch.equal(tensor, loaded.state_dict()[key]) for key, tensor in published.items()), name
    (tmp_path / "tae_encoder.safetensors").unlink()
    with pytest.raises(NotFoundError, match="half of a TAESD: it has no encoder"):
        lockstep.AutoencoderTiny.from_single_file(tmp_path / "tae_decoder.safetensors")


def test_configs_of_full_size_files_are_the_published_ones(tmp_path):
    """No weights: configs from headers alone."""
    from lockstep.loaders.single_file import SingleFile

    file = SingleFile(files.write_sparse(tmp_path / "sd1.safetensors", files.full_shapes("sd1")))
    unet = lockstep.UNet2DConditionModel.on_meta(file.config("unet"))
    assert len(unet.state_dict()) == 686
    assert (unet.config.attention_head_dim, unet.config.sample_size) == (8, 64)
    assert file.config("vae")["scaling_factor"] == 0.18215
    assert file.config("text_encoder")["num_attention_heads"] == 12
    assert file.index()["_class_name"] == "StableDiffusionPipeline"
    xl = SingleFile(files.write_sparse(tmp_path / "xl.safetensors", files.full_shapes("sdxl")))
    assert xl.config("unet")["attention_head_dim"] == (5, 10, 20)
    assert len(lockstep.UNet2DConditionModel.on_meta(xl.config("unet")).state_dict()) == 1680
    assert (xl.config("vae")["scaling_factor"], xl.config("text_encoder_2")["num_attention_heads"]) == (0.13025, 20)
    assert len(xl.stored("text_encoder_2", lockstep.CLIPTextModelWithProjection, xl.config("text_encoder_2"))) == 517
    refiner = SingleFile(files.write_sparse(tmp_path / "r.safetensors", files.full_shapes("refiner")))
    assert refiner.index()["_class_name"] == "StableDiffusionXLImg2ImgPipeline"
    two = SingleFile(
        files.write_sparse(tmp_path / "sd2.safetensors", files.full_shapes("sd2")), prediction_type="v_prediction"
    )
    assert two.config("unet")["upcast_attention"] is True
    assert two.config("text_encoder")["num_hidden_layers"] == 23
    assert len(two.stored("text_encoder", lockstep.CLIPTextModel, two.config("text_encoder"))) == 23 * 16 + 4
    assert two.scheduler_config()["prediction_type"] == "v_prediction"


def test_the_published_vocabulary_comes_with_the_package(tmp_path):
    from lockstep.loaders.single_file import SingleFile

    xl = SingleFile(files.write_sparse(tmp_path / "xl.safetensors", files.full_shapes("sdxl")))
    first, second = xl.tokenizer("tokenizer"), xl.tokenizer("tokenizer_2")
    assert (len(first), first.pad_token, second.pad_token) == (49408, "<|endoftext|>", "!")
    assert first("a photo of a cat").input_ids == [49406, 320, 1125, 539, 320, 2368, 49407]
    assert second("a cat", padding="max_length").input_ids[:6] == [49406, 320, 2368, 49407, 0, 0]


# ---- refusals ----


def test_what_does_not_belong_together_is_said(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    other = tiny.save_folder(tmp_path / "other", in_channels=9)
    convert(folder, tmp_path / "model.safetensors")
    with pytest.raises(LoadError, match="StableDiffusionPipeline loads, not StableDiffusionXLPipeline"):
        lockstep.StableDiffusionXLPipeline.from_single_file(tmp_path / "model.safetensors")
    with pytest.raises(WeightsError, match="in_channels: the shapes say 4, the config says 9"):
        lockstep.DiffusionPipeline.from_single_file(tmp_path / "model.safetensors", config=other)
    with pytest.raises(InputError, match="wants a checkpoint file"):
        lockstep.DiffusionPipeline.from_single_file(folder)
    with pytest.raises(InputError, match="belong to single files"):
        lockstep.DiffusionPipeline.from_pretrained(folder, family="sd1")
    with pytest.raises(NotFoundError, match="has no ControlNet. It holds: UNet in the original layout"):
        lockstep.ControlNetModel.from_single_file(tmp_path / "model.safetensors")
    with pytest.raises(NotFoundError, match="no checkpoint file"):
        lockstep.DiffusionPipeline.from_single_file(tmp_path / "nowhere.safetensors")
    with pytest.raises(InputError, match="variant='fp16' names files of a folder"):
        lockstep.DiffusionPipeline.from_single_file(tmp_path / "model.safetensors", variant="fp16")
    with pytest.raises(InputError, match="there already"):
        convert(folder, tmp_path / "model.safetensors")


def test_a_file_with_parts_of_a_model_missing(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    whole = load_file(tmp_path / "model.safetensors")
    metadata = read_safetensors_header(tmp_path / "model.safetensors")[1]
    no_vae = {name: tensor for name, tensor in whole.items() if not name.startswith("first_stage_model.")}
    save_file(no_vae, tmp_path / "no_vae.safetensors", metadata)
    with pytest.raises(LoadError, match="needs the component 'vae'.*vae="):
        lockstep.DiffusionPipeline.from_single_file(tmp_path / "no_vae.safetensors")
    vae = lockstep.AutoencoderKL.from_pretrained(folder, subfolder="vae")
    assert lockstep.DiffusionPipeline.from_single_file(tmp_path / "no_vae.safetensors", vae=vae).vae is vae
    name = "model.diffusion_model.output_blocks.1.0.in_layers.2.weight"
    save_file({key: tensor for key, tensor in whole.items() if key != name}, tmp_path / "hole.safetensors", metadata)
    with pytest.raises(WeightsError, match=r"hole.safetensors, unet: .*up_blocks.0.resnets.1.conv1.weight"):
        lockstep.UNet2DConditionModel.from_single_file(tmp_path / "hole.safetensors")
    save_file({**whole, "model.diffusion_model.strange.weight": torch.ones(2)}, tmp_path / "more.safetensors", metadata)
    with pytest.raises(WeightsError, match="leaves 1 tensors that it has no row for: 'strange.weight'"):
        lockstep.UNet2DConditionModel.from_single_file(tmp_path / "more.safetensors")


def test_a_vocabulary_that_is_not_clips_is_asked_for(tmp_path):
    from lockstep.loaders.single_file import SingleFile

    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    save_file(load_file(tmp_path / "model.safetensors"), tmp_path / "bare.safetensors")
    with pytest.raises(FileFormatError, match="CLIP's vocabulary has 49408. Give the tokenizer"):
        SingleFile(tmp_path / "bare.safetensors").tokenizer("tokenizer")


def test_pipelines_that_are_not_here_yet_are_named(tmp_path):
    path = files.write_sparse(tmp_path / "p2p.safetensors", files.full_shapes("sd1", in_channels=8))
    found = lockstep.DiffusionPipeline.from_single_file(path, load=False)
    assert type(found).__name__ == "StableDiffusionInstructPix2PixPipeline"
    with pytest.raises(FileFormatError, match="prediction_type='epsilon' or 'v_prediction'"):
        lockstep.DiffusionPipeline.from_single_file(
            files.write_sparse(tmp_path / "sd2.safetensors", files.full_shapes("sd2", in_channels=9))
        )
    with pytest.raises(FileFormatError, match="scaling_factor=0.3611"):
        lockstep.AutoencoderKL.from_single_file(
            files.write_sparse(
                tmp_path / "ae.safetensors",
                files.vae_shapes("", latent_channels=16, use_quant_conv=False, use_post_quant_conv=False),
            )
        )


# ---- folders and files that are not whole ----


def with_safety_checker(folder):
    """The folder with a component that the original layout has no place for, as the published SD 1.5 has it."""
    (folder / "safety_checker").mkdir()
    (folder / "safety_checker" / "config.json").write_text('{"architectures": ["StableDiffusionSafetyChecker"]}')
    save_file({"concept_embeds": torch.randn(3, 4)}, folder / "safety_checker" / "model.safetensors")
    index = json.loads((folder / "model_index.json").read_text())
    index["safety_checker"] = ["stable_diffusion", "StableDiffusionSafetyChecker"]
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def test_what_the_original_layout_has_no_place_for_is_left_out_and_said(tmp_path):
    folder = with_safety_checker(tiny.save_folder(tmp_path / "folder"))
    job = convert(folder, tmp_path / "model.safetensors")
    assert job.notes == [
        "left out: safety_checker (StableDiffusionSafetyChecker), which the original layout has no place for"
    ]
    convert(tmp_path / "model.safetensors", tmp_path / "again")
    assert json.loads((tmp_path / "again" / "model_index.json").read_text())["safety_checker"] == [None, None]
    assert lockstep.DiffusionPipeline.from_pretrained(tmp_path / "again").unet is not None
    job = convert(folder, tmp_path / "half", dtype=torch.float16)
    assert job.notes == ["copied as it is: safety_checker, whose class is not known here"]
    name = "safety_checker/model.safetensors"
    assert (tmp_path / "half" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("shard", ["../../other/unet.safetensors", "gone.safetensors", "index"])
@pytest.mark.parametrize("target", ["out", "out.safetensors"])
def test_a_folder_whose_index_leads_nowhere_is_refused(tmp_path, shard, target):
    folder = tiny.save_folder(tmp_path / "folder")
    name = "diffusion_pytorch_model.safetensors"
    (folder / "unet" / name).unlink()
    index = folder / "unet" / f"{name}.index.json"
    index.write_text(json.dumps({"weight_map": {"conv_in.weight": index.name if shard == "index" else shard}}))
    with pytest.raises(LockstepError, match="unet"):
        convert(folder, tmp_path / target)
    assert not (tmp_path / target).exists()


def test_half_a_file_is_told_as_such(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    whole = load_file(tmp_path / "model.safetensors")
    save_file({n: t for n, t in whole.items() if ".output_blocks." not in n}, tmp_path / "half.safetensors")
    with pytest.raises(WeightsError, match=r"half a file: its UNet .* has no output_blocks.0"):
        convert(tmp_path / "half.safetensors", tmp_path / "out", family="sd1")
    save_file(whole, tmp_path / "bare.safetensors")
    with pytest.raises(ConfigError, match=r"bare.safetensors, .*config=…"):
        convert(tmp_path / "bare.safetensors", tmp_path / "out", family="sd1")
    convert(tiny.save_folder(tmp_path / "xl", "xl"), tmp_path / "xl.safetensors")
    stray = {f"cond_stage_model.model.{n}": t for n, t in stray_text().items()}
    save_file({**load_file(tmp_path / "xl.safetensors"), **stray}, tmp_path / "mixed.safetensors")
    with pytest.raises(FileFormatError, match="parts that together are no family.*UNet.*text encoder.*family=…"):
        convert(tmp_path / "mixed.safetensors", tmp_path / "out")


def stray_text():
    return {
        "transformer.resblocks.0.attn.in_proj_weight": torch.ones(48, 16),
        "token_embedding.weight": torch.ones(50, 16),
        "positional_embedding": torch.ones(77, 16),
        "ln_final.weight": torch.ones(16),
        "transformer.resblocks.0.mlp.c_fc.weight": torch.ones(64, 16),
    }


def test_targets_and_options_that_mean_nothing_are_refused(tmp_path):
    folder = tiny.save_folder(tmp_path / "folder")
    with pytest.raises(InputError, match="nor into itself"):
        convert(folder, folder / "inside")
    with pytest.raises(InputError, match="has no shards"):
        convert(folder, tmp_path / "one.safetensors", max_shard_size="1GB")
    with pytest.raises(InputError, match="got torch.float64"):
        convert(folder, tmp_path / "one.safetensors", dtype=torch.float64)
    with pytest.raises(UnknownNameError, match="sd1"):
        convert(folder / "unet" / "diffusion_pytorch_model.safetensors", tmp_path / "out", family="foo")
    for target in ("/proc/x.safetensors", "/proc/folder"):
        with pytest.raises(WriteError, match="cannot be written"):
            convert(folder, target)


def test_damaged_tensors_and_strangers(tmp_path, caplog):
    folder = tiny.save_folder(tmp_path / "folder")
    convert(folder, tmp_path / "model.safetensors")
    whole, metadata = (
        load_file(tmp_path / "model.safetensors"),
        read_safetensors_header(tmp_path / "model.safetensors")[1],
    )
    name = "model.diffusion_model.middle_block.1.proj_in.weight"
    save_file({**whole, name: whole[name][:-1].clone()}, tmp_path / "rows.safetensors", metadata)
    with pytest.raises(WeightsError, match=r"rows.safetensors, unet: .*mid_block.attentions.0.proj_in.weight.*wanted"):
        convert(tmp_path / "rows.safetensors", tmp_path / "out")
    save_file({**whole, name: whole[name].to(torch.int8)}, tmp_path / "int.safetensors", metadata)
    for load in (
        lambda: convert(tmp_path / "int.safetensors", tmp_path / "out"),
        lambda: lockstep.UNet2DConditionModel.from_single_file(tmp_path / "int.safetensors"),
    ):
        with pytest.raises(
            WeightsError, match=r"Quantised without a scale \(1 are I8\): 'mid_block.attentions.0.proj_in"
        ):
            load()
    assert not (tmp_path / "out").exists()
    strange = {"whatever.surprise.weight": torch.ones(2), "model_ema.decay": torch.ones(())}
    save_file({**whole, **strange}, tmp_path / "more.safetensors", metadata)
    notes = convert(tmp_path / "more.safetensors", tmp_path / "out").notes
    assert "left out: 1 tensors, unknown, such as 'whatever'" in notes
    assert "left out: 1 tensors, EMA copies (the plain weights are used)" in notes
    assert "more.safetensors: 1 tensors belong to no part of it and are not used" in caplog.text
    same_weights(folder, tmp_path / "out")

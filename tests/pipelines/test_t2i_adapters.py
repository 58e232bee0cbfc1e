"""T2I-Adapters and FreeU in whole runs beside diffusers, in files and manifests, and what is refused before."""

import json

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import lockstep
from helpers import assert_close
from lockstep.cli.replay import Places, run_again
from lockstep.errors import FileFormatError, InputError, LoadError, ReplayError, UnsupportedError
from lockstep.loaders.checkpoint import open_header
from lockstep.loaders.detect import detect
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.adapters.t2i_adapter_map import t2i_adapter_rows
from lockstep.models.weights import in_memory
from pipelines import tiny, tiny_adapters
from pipelines.test_against_diffusers import arguments_for, picture
from pipelines.test_published import control_net, t2i_adapter

FREEU = {"s1": 0.9, "s2": 0.2, "b1": 1.5, "b2": 1.6}
NAMES = {"sd1": "StableDiffusionAdapterPipeline", "xl": "StableDiffusionXLAdapterPipeline"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("t2i")
    return {kind: tiny.save_folder(root / kind, kind) for kind in NAMES}


def adapters(library, seeds=(50,)):
    found = [t2i_adapter(library, seed) for seed in seeds]
    several = found if library is lockstep else diffusers.MultiAdapter(found).eval() if len(found) > 1 else None
    return found[0] if len(found) == 1 else several


def loaded(library, folders, kind, class_name=None, **parts):
    pipe = getattr(library, class_name or NAMES[kind]).from_pretrained(folders[kind], **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def latents_of(pipe, **arguments):
    return pipe(**arguments, generator=torch.Generator().manual_seed(7), output_type="latent").images


def given_for(kind, guidance=6.0, batch=1):
    return arguments_for(kind, "text2image", batch, guidance)


@pytest.mark.parametrize("guidance", [1.0, 6.0])
@pytest.mark.parametrize("kind", NAMES)
def test_against_diffusers(folders, kind, guidance):
    """After each number of steps, as the reference's old callback cannot be given to ours."""
    pipes = [loaded(library, folders, kind, adapter=adapters(library)) for library in (lockstep, diffusers)]
    given = {**given_for(kind, guidance), "image": picture(4)}
    record = []
    pipes[1](**given, generator=torch.Generator().manual_seed(7), output_type="latent",
             callback=lambda step, t, latents: record.append(latents.clone()))  # fmt: skip
    steps = []
    pipes[0](**given, generator=torch.Generator().manual_seed(7), output_type="latent",
             callback_on_step_end=lambda pipe, i, t, values: steps.append(values["latents"].clone()))  # fmt: skip
    assert len(steps) == len(record) == 4
    for index, (got, wanted) in enumerate(zip(steps, record, strict=True)):
        assert_close(got, wanted, what=f"latents after step {index}")
    weak = [latents_of(pipe, **given, adapter_conditioning_scale=0.3) for pipe in pipes]
    assert_close(*weak)
    assert not torch.allclose(weak[0], steps[-1], atol=1e-3)
    sized = {**given, "image": picture(4).resize((17, 25))}
    del sized["height"], sized["width"]
    assert_close(*(latents_of(pipe, **sized) for pipe in pipes), what="the picture decides on the size")


@pytest.mark.parametrize("factor", [0.0, 0.5, 0.8])
def test_the_part_of_the_steps_in_which_it_acts(folders, factor):
    pipes = [loaded(library, folders, "xl", adapter=adapters(library)) for library in (lockstep, diffusers)]
    given = {**given_for("xl"), "image": picture(4), "adapter_conditioning_factor": factor}
    assert_close(*(latents_of(pipe, **given) for pipe in pipes))


@pytest.mark.parametrize("kind", NAMES)
def test_several_adapters(folders, kind):
    pipes = [loaded(library, folders, kind, adapter=adapters(library, (1, 2))) for library in (lockstep, diffusers)]
    given = {**given_for(kind), "image": [picture(4), picture(5)], "adapter_conditioning_scale": [0.4, 1.3]}
    assert_close(*(latents_of(pipe, **given) for pipe in pipes))
    one_for_all = {**given, "adapter_conditioning_scale": 0.5}
    assert_close(
        latents_of(pipes[0], **one_for_all), latents_of(pipes[1], **given | {"adapter_conditioning_scale": [0.5, 0.5]})
    )


@pytest.mark.parametrize("adapter_type", ["full_adapter", "light_adapter"])
def test_original_adapters_in_a_unet_with_attention_everywhere(folders, adapter_type):
    unet = tiny_adapters.attentive_unet(adapter_type)
    their_unet = diffusers.UNet2DConditionModel.from_config(dict(unet.config))
    their_unet.load_state_dict(unet.state_dict())
    mine = tiny_adapters.t2i_adapter(adapter_type)
    theirs = diffusers.T2IAdapter.from_config(dict(mine.config))
    theirs.load_state_dict(mine.state_dict())
    pipes = [
        loaded(lockstep, folders, "sd1", unet=unet, adapter=mine),
        loaded(diffusers, folders, "sd1", unet=their_unet.eval(), adapter=theirs.eval()),
    ]
    assert_close(*(latents_of(pipe, **given_for("sd1"), image=picture(4)) for pipe in pipes))


def test_several_pictures_of_one_prompt_and_several_prompts(folders):
    pipes = [loaded(library, folders, "sd1", adapter=adapters(library)) for library in (lockstep, diffusers)]
    given = {**given_for("sd1"), "image": picture(4), "num_images_per_prompt": 2}
    assert_close(*(latents_of(pipe, **given) for pipe in pipes))
    given = {**given_for("sd1", batch=3), "image": [picture(k) for k in range(3)]}
    assert_close(*(latents_of(pipe, **given) for pipe in pipes))


def test_beside_a_controlnet_and_from_a_picture(folders):
    """What the reference has no name for: the whole class takes any of them together."""
    pipe = loaded(lockstep, folders, "sd1", "StableDiffusionPipeline", adapter=adapters(lockstep),
                  controlnet=control_net("sd1", lockstep))  # fmt: skip
    given = {"prompt": "a cat", "seed": 1, "num_inference_steps": 4, "output_type": "pt"}
    made = [
        pipe(**given, image=picture(), **more).images
        for more in (
            {},
            {"adapter_image": picture(4)},
            {"control_image": picture(5)},
            {"adapter_image": picture(4), "control_image": picture(5)},
        )
    ]
    for k, one in enumerate(made):
        assert all(not torch.equal(one, other) for other in made[:k])
    assert pipe.available_workflows.count("adapter_image2image") == 1


def test_folders_name_it_and_other_libraries_read_them(folders, tmp_path):
    pipe = loaded(lockstep, folders, "sd1", adapter=adapters(lockstep, (1, 2)))
    pipe.save_pretrained(tmp_path)
    index = json.loads((tmp_path / "model_index.json").read_text())
    assert (index["_class_name"], index["adapter"]) == (NAMES["sd1"], ["diffusers", "MultiAdapter"])
    assert (tmp_path / "adapter_1").is_dir()
    given = {**given_for("sd1"), "image": [picture(4), picture(5)], "adapter_conditioning_scale": [0.4, 1.3]}
    wanted = latents_of(pipe, **given)
    again = lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    assert type(again).__name__ == NAMES["sd1"]
    assert torch.equal(latents_of(again, **given), wanted)


# ---- single files ----


def original(adapter):
    """The tensors of a full or light adapter under TencentARC's names, written out by hand."""
    count, light = adapter.config["num_res_blocks"], adapter.config["adapter_type"] == "light_adapter"
    made = {}
    for name, tensor in adapter.state_dict().items():
        parts = name.split(".")[1:]
        if parts[0] == "body" and light:
            parts = ["body" if part == "resnets" else part for part in parts]
        elif parts[0] == "body":
            level, resnet = int(parts[1]), int(parts[3]) if parts[2] == "resnets" else 0
            parts = ["body", str(level * count + resnet), *parts[4 if parts[2] == "resnets" else 2 :]]
        made[".".join(parts)] = tensor
    return made


SINGLE = {
    "full_adapter": {"channels": (16, 32, 32, 32), "num_res_blocks": 2, "downscale_factor": 8},
    "full_adapter_xl": {"channels": (16, 32, 48, 48), "num_res_blocks": 2, "downscale_factor": 16},
    "light_adapter": {"channels": (16, 32, 32), "num_res_blocks": 4, "downscale_factor": 8},
    "grey": {"channels": (16, 32), "num_res_blocks": 3, "downscale_factor": 8, "in_channels": 1},
}


@pytest.mark.parametrize("layout", ["original", "published", "pickle"])
@pytest.mark.parametrize("kind", SINGLE)
def test_single_files(kind, layout, tmp_path):
    config = {**SINGLE[kind], "adapter_type": kind if "_" in kind else "full_adapter"}
    adapter = tiny.randomize(lockstep.T2IAdapter(**config), 3)
    path = tmp_path / ("adapter.pth" if layout == "pickle" else "adapter.safetensors")
    tensors = adapter.state_dict() if layout == "published" else original(adapter)
    torch.save(tensors, path) if layout == "pickle" else save_file(tensors, path)
    allowed = {"allow_pickle": True} if layout == "pickle" else {}
    again = lockstep.T2IAdapter.from_single_file(path, **allowed)
    assert {name: again.config[name] for name in adapter.config} == dict(adapter.config)
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in adapter.state_dict().items())
    assert "T2I-Adapter" in detect(open_header(path, bool(allowed))).title
    back = WeightMap(t2i_adapter_rows(adapter.config)).to_theirs(in_memory(adapter.state_dict(), path))
    assert {name: tensor.info.shape for name, tensor in back.items()} == {
        name: tuple(tensor.shape) for name, tensor in original(adapter).items()
    }


def test_single_files_of_others_and_in_the_wrong_place(folders, tmp_path):
    path = tmp_path / "adapter.safetensors"
    save_file(original(tiny.randomize(lockstep.T2IAdapter(**SINGLE["full_adapter"]), 3)), path)
    with pytest.raises(LoadError, match="no pipeline but a T2I-Adapter"):
        lockstep.DiffusionPipeline.from_single_file(path)
    sections = tiny_adapters.ip_adapter(
        diffusers.UNet2DConditionModel.from_pretrained(folders["sd1"], subfolder="unet")
    )
    save_file(tiny_adapters.flat(sections), tmp_path / "ip.safetensors")
    for load in (lockstep.T2IAdapter.from_single_file, lockstep.DiffusionPipeline.from_single_file):
        with pytest.raises(FileFormatError, match="IP-Adapter, plain.*load_ip_adapter"):
            load(tmp_path / "ip.safetensors")


# ---- refusals ----


def test_inputs_that_do_not_fit_are_refused_before_anything_runs(folders, monkeypatch):
    pipe = loaded(lockstep, folders, "xl", adapter=adapters(lockstep))
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *a, **k: pytest.fail("a model ran"))
    given = {"prompt": "a cat", "num_inference_steps": 2}

    def refused(match, **inputs):
        with pytest.raises(InputError, match=match):
            pipe(**given, **inputs)

    refused("'adapter_image'")
    refused("finite", image=picture(), adapter_conditioning_scale=float("nan"))
    refused("each T2I-Adapter, 1, or one for all", image=picture(), adapter_conditioning_scale=[1.0, 2.0])
    refused("at most 1", image=picture(), adapter_conditioning_factor=1.5)
    pipe.adapter = adapters(lockstep, (1, 2))
    refused("each of 2 T2I-Adapters, got one picture", image=picture())
    refused("each of 2 T2I-Adapters, got 3", image=[picture()] * 3)
    pipe.adapter = tiny.randomize(lockstep.T2IAdapter(channels=(8, 32), downscale_factor=4, num_res_blocks=1), 1)
    refused("made for another UNet", image=picture())
    pipe.adapter = tiny.randomize(lockstep.T2IAdapter(channels=(16, 32), downscale_factor=16, num_res_blocks=1), 1)
    refused("multiple of 16", image=picture(), height=24, width=16)
    pipe.adapter = None
    refused("T2IAdapter.from_pretrained", image=picture())


# ---- FreeU ----


@pytest.mark.parametrize("kind", NAMES)
def test_freeu_in_a_whole_run(folders, kind):
    name = NAMES[kind].replace("Adapter", "")
    pipes = [loaded(library, folders, kind, name) for library in (lockstep, diffusers)]
    plain = latents_of(pipes[0], **given_for(kind))
    for pipe in pipes:
        pipe.enable_freeu(**FREEU)
    got, wanted = (latents_of(pipe, **given_for(kind)) for pipe in pipes)
    assert_close(got, wanted)
    assert not torch.allclose(got, plain, atol=1e-3)
    assert pipes[0](**given_for(kind), seed=1).manifest["freeu"] == FREEU
    pipes[0].disable_freeu()
    assert torch.equal(latents_of(pipes[0], **given_for(kind)), plain)
    assert "freeu" not in pipes[0](**given_for(kind), seed=1).manifest.to_dict()
    with pytest.raises(InputError, match="b2 as a finite number"):
        pipes[0].enable_freeu(s1=1, s2=1, b1=1, b2=float("nan"))


def test_a_denoiser_without_up_blocks_is_refused(folders):
    class Straight(lockstep.ModelMixin):
        pass

    pipe = loaded(lockstep, folders, "sd1", "StableDiffusionPipeline")
    object.__getattribute__(pipe, "_components")["unet"] = Straight()
    with pytest.raises(UnsupportedError, match="FreeU.*UNet2DConditionModel.*Straight"):
        pipe.enable_freeu(**FREEU)
    with pytest.raises(UnsupportedError, match="IP-Adapters.*Straight"):
        pipe.load_ip_adapter("somewhere", "models", "x.safetensors")


# ---- replay ----


def test_a_picture_with_all_of_them_is_made_again(folders, tmp_path):
    place = tmp_path / "adapters"
    tiny_adapters.image_encoder().save_pretrained(place / "image_encoder")
    unet = diffusers.UNet2DConditionModel.from_pretrained(folders["sd1"], subfolder="unet")
    for name in ("plain", "plus"):
        save_file(tiny_adapters.flat(tiny_adapters.ip_adapter(unet, name)), place / f"{name}.safetensors")
    adapters(lockstep).save_pretrained(tmp_path / "edges")
    pictures = []
    for number in range(3):
        picture(number).save(tmp_path / f"{number}.png")
        pictures.append(lockstep.images.load_image(tmp_path / f"{number}.png"))
    pipe = loaded(lockstep, folders, "sd1", adapter=lockstep.T2IAdapter.from_pretrained(tmp_path / "edges"))
    pipe.load_ip_adapter(place, None, ["plain.safetensors", "plus.safetensors"])
    pipe.set_ip_adapter_scale([0.6, {"up": {"block_0": [0.5, 1.0]}}])
    pipe.enable_freeu(**FREEU)
    given = {"image": pictures[0], "ip_adapter_image": [pictures[1], pictures[2:]]}
    out = pipe("a cat", **given, seed=3, num_inference_steps=2, height=16, width=16)
    [file] = out.save(tmp_path / "made.png")
    manifest = lockstep.blocks.manifest.read_manifest(file)
    assert [one["file"] for one in manifest["ip_adapters"]] == [
        "./adapters/plain.safetensors",
        "./adapters/plus.safetensors",
    ]
    assert str(tmp_path) not in json.dumps(manifest)
    again = run_again(manifest, Places(file, []), None)
    assert np.array_equal(np.asarray(again.images[0]), np.asarray(Image.open(file)))
    (place / "plus.safetensors").rename(tmp_path / "moved.safetensors")
    with pytest.raises(ReplayError, match=r"plus\.safetensors, which is not there now"):
        run_again(manifest, Places(file, []), None)
    told = Places(file, [f"plus.safetensors={tmp_path / 'moved.safetensors'}"])
    assert np.array_equal(np.asarray(run_again(manifest, told, None).images[0]), np.asarray(Image.open(file)))

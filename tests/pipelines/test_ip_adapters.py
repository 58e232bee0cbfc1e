"""IP-Adapters in whole runs: beside diffusers step by step, in files, in the manifest, and what is refused before."""

import json
import re
from pathlib import Path

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import lockstep
from helpers import assert_close
from lockstep.errors import (
    FileFormatError,
    InputError,
    LockstepError,
    NotFoundError,
    UnsupportedError,
    WeightsError,
)
from lockstep.loaders.weight_map import WeightMap
from lockstep.models.adapters.ip_adapter_map import ip_adapter_rows
from lockstep.models.weights import MappedFiles, in_memory
from pipelines import tiny, tiny_adapters
from pipelines.test_against_diffusers import arguments_for, mask, picture, watch_steps
from pipelines.test_published import control_net

FAMILIES = {"sd1": "StableDiffusion", "xl": "StableDiffusionXL"}
TASKS = {"text2image": "", "image2image": "Img2Img", "inpainting": "Inpaint"}


def their_unet(folder):
    return diffusers.UNet2DConditionModel.from_pretrained(folder, subfolder="unet")


def pixels(count=1, seed=0):
    """Pictures as the encoder reads them: both libraries take them as they are."""
    side = tiny_adapters.ENCODER["image_size"]
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each family, and beside it one with adapters in the published layout."""
    root = tmp_path_factory.mktemp("ip")
    made = {}
    for kind in FAMILIES:
        made[kind] = tiny.save_folder(root / kind, kind)
        adapters = root / f"{kind}-adapters"
        tiny_adapters.image_encoder().save_pretrained(adapters / "models" / "image_encoder")
        for name in tiny_adapters.KINDS:
            sections = tiny_adapters.ip_adapter(their_unet(made[kind]), name, seed=len(name))
            save_file(tiny_adapters.flat(sections), adapters / "models" / f"{name}.safetensors")
            torch.save(sections, adapters / "models" / f"{name}.bin")
        made[f"{kind}-adapters"] = adapters
    return made


def loaded(library, folders, kind, class_name=None, **parts):
    pipe = getattr(library, class_name or f"{FAMILIES[kind]}Pipeline").from_pretrained(folders[kind], **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def both(folders, kind, names, class_name=None):
    """Our pipeline and theirs with the same adapters in them."""
    pair = []
    for library in (lockstep, diffusers):
        parts = {"controlnet": control_net(kind, library)} if class_name and "ControlNet" in class_name else {}
        pipe = loaded(library, folders, kind, class_name, **parts)
        pipe.load_ip_adapter(str(folders[f"{kind}-adapters"]), "models", [f"{name}.safetensors" for name in names])
        pair.append(pipe)
    return pair


def compare(ours, theirs, arguments, tolerance=1e-5):
    records, pictures = [], []
    for pipe in (ours, theirs):
        steps = []
        generator = torch.Generator().manual_seed(7)
        pictures.append(pipe(**arguments, generator=generator, output_type="np", **watch_steps(steps)).images)
        records.append(steps)
    assert len(records[0]) == len(records[1]) > 0
    for index, ((_, got), (_, wanted)) in enumerate(zip(*records, strict=True)):
        assert_close(got, wanted, tolerance, f"latents after step {index}")
    assert np.abs(pictures[0] - pictures[1]).max() <= 1 / 255
    return records[0][-1][1]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("guidance", [1.0, 6.0])
def test_every_workflow(folders, kind, task, guidance):
    name = f"{FAMILIES[kind]}{TASKS[task]}Pipeline"
    ours, theirs = both(folders, kind, ["plain"], name)
    arguments = {**arguments_for(kind, task, 1, guidance), "ip_adapter_image": pixels()}
    first = compare(ours, theirs, arguments)
    second = compare(ours, theirs, {**arguments, "ip_adapter_image": pixels(seed=1)})
    assert not torch.allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("names", [("full",), ("plus",), ("plain", "plus")], ids="+".join)
@pytest.mark.parametrize("kind", FAMILIES)
def test_kinds_several_pictures_and_prompts(folders, kind, names):
    ours, theirs = both(folders, kind, names)
    for pipe in (ours, theirs):
        pipe.set_ip_adapter_scale([0.7, {"up": {"block_0": [0.2, 1.0]}}][: len(names)])
    pictures = [pixels(2, seed) for seed in range(len(names))]
    arguments = {**arguments_for(kind, "text2image", 3, 6.0), "ip_adapter_image": pictures}
    compare(ours, theirs, {**arguments, "num_images_per_prompt": 2})


@pytest.mark.parametrize("kind", FAMILIES)
def test_beside_a_controlnet(folders, kind):
    ours, theirs = both(folders, kind, ["plus"], f"{FAMILIES[kind]}ControlNetPipeline")
    arguments = {**arguments_for(kind, "text2image", 1, 6.0), "image": picture(3), "ip_adapter_image": pixels()}
    compare(ours, theirs, arguments)
    compare(ours, theirs, {**arguments, "guess_mode": True})


@pytest.mark.parametrize("task", ["image2image", "inpainting"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_beside_a_controlnet_from_a_picture(folders, kind, task):
    """The start, the steering and the prompt are three pictures, each in its own place."""
    ours, theirs = both(folders, kind, ["plus"], f"{FAMILIES[kind]}ControlNet{TASKS[task]}Pipeline")
    arguments = {**arguments_for(kind, task, 1, 6.0), "control_image": picture(3), "ip_adapter_image": pixels()}
    first = compare(ours, theirs, arguments)
    for changed in ({"control_image": picture(4)}, {"ip_adapter_image": pixels(seed=1)}, {"image": picture(5)}):
        assert not torch.allclose(first, compare(ours, theirs, {**arguments, **changed}), atol=1e-3)


def test_the_block_can_be_taken_out_and_its_encodings_given(folders):
    whole = loaded(lockstep, folders, "xl")
    whole.load_ip_adapter(str(folders["xl-adapters"]), "models", "plain.safetensors")
    names = ["latents", "ip_adapter_embeds", "negative_ip_adapter_embeds"]
    wanted = whole(**arguments_for("xl", "text2image", 1, 6.0), ip_adapter_image=pixels(), seed=1, output=names)
    blocks = lockstep.StableDiffusionXLBlocks()
    assert "ip_adapter_image" in blocks.input_names
    blocks.sub_blocks.pop("ip_adapter")
    assert "ip_adapter_image" not in blocks.input_names
    pipe = blocks.init_pipeline(str(folders["xl"]), unet=whole.unet)
    pipe.set_progress_bar_config(disable=True)
    given = {name: wanted[name] for name in names[1:]}
    got = pipe(**arguments_for("xl", "text2image", 1, 6.0), **given, seed=1, output="latents")
    assert torch.equal(got, wanted["latents"])


def test_editing_takes_a_picture_as_a_prompt_too(tmp_path, folders):
    """Three branches: the picture acts in the one with the prompt alone."""
    folder, name = tiny.save_one_task(tmp_path / "edit", "edit"), "StableDiffusionInstructPix2PixPipeline"
    place = tmp_path / "adapters"
    tiny_adapters.image_encoder().save_pretrained(place / "image_encoder")
    save_file(tiny_adapters.flat(tiny_adapters.ip_adapter(their_unet(folder), "plus")), place / "plus.safetensors")
    pair = [loaded(library, {"edit": folder}, "edit", name) for library in (lockstep, diffusers)]
    for pipe in pair:
        pipe.load_ip_adapter(str(place), subfolder="", weight_name="plus.safetensors")
    arguments = {"prompt": "a red house", "image": picture(), "num_inference_steps": 3, "ip_adapter_image": pixels()}
    compare(*pair, arguments)


def test_masks_of_two_pictures(folders):
    ours, theirs = both(folders, "xl", ["plain"])
    black = Image.new("L", (16, 16))
    white_left, white_right = black.copy(), black.copy()
    white_left.paste(255, (0, 0, 8, 16))
    white_right.paste(255, (8, 0, 16, 16))
    made = [
        library.IPAdapterMaskProcessor().preprocess([white_left, white_right], height=16, width=16)
        for library in (lockstep, diffusers.image_processor)
    ]
    assert torch.equal(*made)
    for pipe in (ours, theirs):
        pipe.set_ip_adapter_scale([[0.7, 0.4]])
    masks = {"ip_adapter_masks": [made[0].reshape(1, 2, 16, 16)]}
    arguments = {**arguments_for("xl", "text2image", 1, 6.0), "ip_adapter_image": [pixels(2)]}
    compare(ours, theirs, {**arguments, "cross_attention_kwargs": masks})


def test_pil_pictures_are_prepared_as_by_the_reference(folders):
    ours, theirs = both(folders, "sd1", ["plus"])
    photo = Image.fromarray(np.random.default_rng(1).integers(0, 255, (40, 60, 3), dtype=np.uint8))
    compare(ours, theirs, {**arguments_for("sd1", "text2image", 1, 6.0), "ip_adapter_image": photo}, tolerance=2e-3)


@pytest.mark.parametrize("guidance", [1.0, 6.0])
def test_ready_encodings(folders, guidance):
    ours, theirs = both(folders, "sd1", ["plain", "plus"])
    pictures = [pixels(2), pixels(1)]
    guided = guidance > 1
    made = [
        pipe.prepare_ip_adapter_image_embeds(pictures, None, torch.device("cpu"), 1, guided) for pipe in (ours, theirs)
    ]
    for got, wanted in zip(*made, strict=True):
        assert_close(got, wanted)
    arguments = arguments_for("sd1", "text2image", 1, guidance)
    from_pictures = compare(ours, theirs, {**arguments, "ip_adapter_image": pictures})
    ours.image_encoder = None
    from_embeds = compare(ours, theirs, {**arguments, "ip_adapter_image_embeds": made[0]})
    assert torch.equal(from_pictures, from_embeds)
    again = ours.prepare_ip_adapter_image_embeds(None, made[0], torch.device("cpu"), 1, guided)
    assert all(torch.equal(*pair) for pair in zip(again, made[0], strict=True))


def faces(guidance, count=2, seed=5):
    """The vectors of a face recogniser, and before them, where guidance is on, zeros."""
    vectors = torch.randn(
        1, count, 1, tiny_adapters.ENCODER["projection_dim"], generator=torch.Generator().manual_seed(seed)
    )
    return [torch.cat([torch.zeros_like(vectors), vectors]) if guidance > 1 else vectors]


@pytest.mark.parametrize("guidance", [1.0, 6.0])
@pytest.mark.parametrize("kind", FAMILIES)
def test_faces(folders, kind, guidance):
    ours, theirs = both(folders, kind, ["face"])
    arguments = arguments_for(kind, "text2image", 1, guidance)
    first = compare(ours, theirs, {**arguments, "ip_adapter_image_embeds": faces(guidance)})
    second = compare(ours, theirs, {**arguments, "ip_adapter_image_embeds": faces(guidance, seed=6)})
    assert not torch.allclose(first, second, atol=1e-3)
    with pytest.raises(InputError, match="face recogniser"):
        ours(**arguments, ip_adapter_image=pixels())


def test_the_lora_that_comes_with_faces(folders):
    arguments = {**arguments_for("sd1", "text2image", 1, 6.0), "ip_adapter_image_embeds": faces(6.0)}
    unet = their_unet(folders["sd1"])
    sections = tiny_adapters.ip_adapter(unet, "face")
    with_lora = {**sections, "ip_adapter": sections["ip_adapter"] | tiny_adapters.lora_of_faces(unet)}
    ours, theirs = (loaded(library, folders, "sd1") for library in (lockstep, diffusers))
    plain = ours("a cat", seed=1, height=16, width=16, num_inference_steps=2, output_type="pt").images
    without = []
    for tensors in (sections, with_lora):
        for pipe in (ours, theirs):
            pipe.load_ip_adapter(
                {name: dict(part) for name, part in tensors.items()}, None, None, image_encoder_folder=None
            )
        without.append(compare(ours, theirs, arguments, tolerance=2e-5))
    assert ours.get_list_adapters() == {"unet": ["faceid_0"]}
    assert not torch.allclose(*without, atol=1e-3)
    assert not ours("a cat", seed=1, num_inference_steps=1, ip_adapter_image_embeds=faces(6.0)).manifest["adapters"]
    ours.unload_ip_adapter()
    assert ours.get_list_adapters() == {}
    again = ours("a cat", seed=1, height=16, width=16, num_inference_steps=2, output_type="pt").images
    assert torch.equal(again, plain)


def test_plus_with_its_attention_under_its_own_name(folders):
    """A layout that the reference reads too: `layers.0.attn.to_q` beside `layers.0.0.norm1`."""
    unet = their_unet(folders["sd1"])
    sections = tiny_adapters.ip_adapter(unet, "plus")
    renamed = {re.sub(r"^(layers\.\d)\.0\.to_", r"\1.attn.to_", name): t for name, t in sections["image_proj"].items()}
    ours, theirs = (loaded(library, folders, "sd1") for library in (lockstep, diffusers))
    for pipe in (ours, theirs):
        pipe.image_encoder = None
        pipe.load_ip_adapter({**sections, "image_proj": dict(renamed)}, None, None, image_encoder_folder=None)
    hidden = torch.randn(2, 1, 17, tiny_adapters.ENCODER["hidden_size"], generator=torch.Generator().manual_seed(2))
    compare(ours, theirs, {**arguments_for("sd1", "text2image", 1, 6.0), "ip_adapter_image_embeds": [hidden]})


def test_the_config_says_that_pictures_are_projected(folders, tmp_path):
    ours, theirs = both(folders, "sd1", ["plain"])
    assert ours.unet.config.encoder_hid_dim_type == theirs.unet.config.encoder_hid_dim_type == "ip_image_proj"
    ours.unet.save_pretrained(tmp_path)
    assert lockstep.UNet2DConditionModel.from_pretrained(tmp_path).config.encoder_hid_dim_type is None
    ours.unload_ip_adapter()
    assert ours.unet.config.encoder_hid_dim_type is None


def test_encode_image(folders):
    ours, theirs = both(folders, "sd1", ["plain"])
    for hidden in (None, True):
        pair = [pipe.encode_image(pixels(2), torch.device("cpu"), 2, hidden) for pipe in (ours, theirs)]
        for got, wanted in zip(*pair, strict=True):
            assert_close(got, wanted)


def test_a_picture_of_a_batch_is_the_same_alone(folders):
    pipe = loaded(lockstep, folders, "sd1")
    pipe.load_ip_adapter(folders["sd1-adapters"], "models", "plus.safetensors")
    shared = {"ip_adapter_image": pixels(), "height": 16, "width": 16, "num_inference_steps": 2, "output_type": "pt"}
    several = pipe(["a cat", "a dog"], seed=3, **shared).images
    alone = pipe("a dog", seed=4, **shared).images
    assert_close(several[1], alone[0], 1e-4)


def test_a_callback_can_end_it(folders):
    """As the reference's `IPAdapterScaleCutoffCallback` does."""

    def cut(pipe, step, timestep, values):
        if step == 1:
            pipe.set_ip_adapter_scale(0.0)
        return {}

    finals = []
    for pipe in both(folders, "sd1", ["plain"]):
        arguments = {
            **arguments_for("sd1", "text2image", 1, 6.0),
            "ip_adapter_image": pixels(),
            "output_type": "latent",
        }
        finals.append(pipe(**arguments, generator=torch.Generator().manual_seed(7), callback_on_step_end=cut).images)
    assert_close(*finals)


# ---- loading and unloading ----


def test_unloading_brings_everything_back(folders):
    pipe = loaded(lockstep, folders, "sd1")
    arguments = {"prompt": "a cat", "seed": 1, "height": 16, "width": 16, "num_inference_steps": 2, "output_type": "pt"}
    before = pipe(**arguments).images
    pipe.load_ip_adapter(folders["sd1-adapters"], "models", "plus.safetensors")
    assert pipe.image_encoder is not None
    assert pipe.feature_extractor is not None
    with pytest.raises(InputError, match="given no picture"):
        pipe(**arguments)
    assert not torch.equal(pipe(**arguments, ip_adapter_image=pixels()).images, before)
    pipe.unload_ip_adapter()
    assert (pipe.image_encoder, pipe.feature_extractor) == (None, None)
    assert torch.equal(pipe(**arguments).images, before)
    with pytest.raises(InputError, match="load one with pipe.load_ip_adapter"):
        pipe(**arguments, ip_adapter_image=pixels())


def test_an_encoder_that_was_there_stays(folders):
    encoder = tiny_adapters.image_encoder(seed=31)
    pipe = loaded(lockstep, folders, "sd1", image_encoder=encoder)
    pipe.load_ip_adapter(folders["sd1-adapters"] / "models" / "plain.safetensors")
    assert pipe.image_encoder is encoder
    pipe.unload_ip_adapter()
    assert pipe.image_encoder is encoder


def test_a_second_load_takes_the_place_of_the_first(folders):
    pipe = loaded(lockstep, folders, "sd1")
    place = folders["sd1-adapters"]
    arguments = {"prompt": "a cat", "seed": 1, "height": 16, "width": 16, "num_inference_steps": 2, "output_type": "pt"}
    pipe.load_ip_adapter(place, "models", "plain.safetensors")
    wanted = pipe(**arguments, ip_adapter_image=pixels()).images
    pipe.load_ip_adapter(place, "models", ["plus.safetensors", "plain.safetensors"])
    assert pipe.unet.encoder_hid_proj.num_ip_adapters == 2
    pipe.load_ip_adapter(place, "models", "plain.safetensors")
    assert torch.equal(pipe(**arguments, ip_adapter_image=pixels()).images, wanted)


def test_a_dict_and_a_pickle_are_the_same_adapter(folders):
    place, arguments = folders["sd1-adapters"] / "models", {"prompt": "a cat", "seed": 1, "height": 16, "width": 16}
    arguments |= {"num_inference_steps": 2, "output_type": "pt", "ip_adapter_image": pixels()}
    pictures = []
    sections = torch.load(place / "plus.bin", weights_only=True)
    for source, options in (
        (place / "plus.safetensors", {}),
        (place / "plus.bin", {"allow_pickle": True}),
        (sections, {"image_encoder_folder": None}),
    ):
        pipe = loaded(lockstep, folders, "sd1", image_encoder=tiny_adapters.image_encoder())
        pipe.load_ip_adapter(source, **options)
        pictures.append(pipe(**arguments).images)
    assert torch.equal(pictures[0], pictures[1])
    assert torch.equal(pictures[0], pictures[2])
    with pytest.raises(FileFormatError, match="allow_pickle=True"):
        pipe.load_ip_adapter(place, weight_name="plus.bin")


def test_a_saved_pipeline_has_the_encoder_and_no_adapter(folders, tmp_path):
    pipe = loaded(lockstep, folders, "sd1")
    pipe.load_ip_adapter(folders["sd1-adapters"], "models", "plain.safetensors")
    pipe.save_pretrained(tmp_path)
    index = json.loads((tmp_path / "model_index.json").read_text())
    assert index["image_encoder"] == ["transformers", "CLIPVisionModelWithProjection"]
    theirs = diffusers.StableDiffusionPipeline.from_pretrained(tmp_path)
    assert type(theirs.image_encoder).__name__ == "CLIPVisionModelWithProjection"
    again = lockstep.StableDiffusionPipeline.from_pretrained(tmp_path)
    assert again.unet.image_projections is None
    assert again.image_encoder is not None


def test_another_pipeline_over_the_same_models_has_it_too(folders):
    text = loaded(lockstep, folders, "sd1")
    text.load_ip_adapter(folders["sd1-adapters"], "models", "plain.safetensors")
    image = lockstep.StableDiffusionImg2ImgPipeline.from_pipe(text)
    arguments = {"prompt": "a cat", "image": picture(), "num_inference_steps": 3, "seed": 1, "output_type": "pt"}
    first = image(**arguments, ip_adapter_image=pixels()).images
    assert not torch.equal(first, image(**arguments, ip_adapter_image=pixels(seed=5)).images)


# ---- refusals ----


def test_files_that_do_not_fit(folders, tmp_path):
    pipe = loaded(lockstep, folders, "sd1")
    arguments = {"prompt": "a cat", "seed": 1, "height": 16, "width": 16, "num_inference_steps": 2, "output_type": "pt"}
    before = pipe(**arguments).images
    with pytest.raises(WeightsError, match="another family"):
        pipe.load_ip_adapter(folders["xl-adapters"], "models", "plain.safetensors")
    with pytest.raises(FileFormatError, match="no IP-Adapter"):
        pipe.load_ip_adapter(folders["sd1"], "unet", "diffusion_pytorch_model.safetensors")
    with pytest.raises(NotFoundError, match=r"nothing\.safetensors"):
        pipe.load_ip_adapter(folders["sd1-adapters"], "models", "nothing.safetensors")
    with pytest.raises(NotFoundError, match="image_encoder_folder"):
        pipe.load_ip_adapter(
            folders["sd1-adapters"], "models", "plain.safetensors", image_encoder_folder="models/encoder"
        )
    with pytest.raises(InputError, match="weight_name"):
        pipe.load_ip_adapter(folders["sd1-adapters"], "models")
    with pytest.raises(InputError, match="lists of one length"):
        pipe.load_ip_adapter([folders["sd1-adapters"]] * 2, "models", ["a", "b", "c"])
    sections = tiny_adapters.ip_adapter(their_unet(folders["sd1"]))
    for change, problem, name in (
        (lambda s: s["image_proj"].pop("norm.bias"), WeightsError, "missing.safetensors"),
        (
            lambda s: s["ip_adapter"].pop(next(n for n in s["ip_adapter"] if "to_v" in n)),
            WeightsError,
            "half.safetensors",
        ),
        (lambda s: s["image_proj"]["proj.bias"].fill_(float("nan")), WeightsError, "nan.safetensors"),
        (lambda s: s["ip_adapter"].update({"9.other.weight": torch.zeros(1)}), WeightsError, "more.safetensors"),
    ):
        wrong = {section: {k: v.clone() for k, v in values.items()} for section, values in sections.items()}
        change(wrong)
        save_file(tiny_adapters.flat(wrong), tmp_path / name)
        with pytest.raises(problem):
            pipe.load_ip_adapter(tmp_path / name, image_encoder_folder=None)
    face = {**tiny_adapters.flat(sections), "image_proj.perceiver_resampler.proj_in.weight": torch.zeros(4, 4)}
    save_file(face, tmp_path / "face.safetensors")
    with pytest.raises(UnsupportedError, match="face recogniser"):
        pipe.load_ip_adapter(tmp_path / "face.safetensors", image_encoder_folder=None)
    assert pipe.image_encoder is None
    assert torch.equal(pipe(**arguments).images, before), "a refused file changed the pipeline"


@pytest.mark.parametrize("kind", tiny_adapters.KINDS)
def test_the_map_of_a_file(kind):
    """Read in both directions, and each tensor where the reference puts it."""
    unet = diffusers.UNet2DConditionModel(**tiny.unet().config)
    sections = tiny_adapters.ip_adapter(unet, kind)
    wanted = tiny_adapters.flat(sections)
    shapes = {name: tuple(tensor.shape) for name, tensor in wanted.items()}
    table = WeightMap(ip_adapter_rows({"full": "full face", "face": "FaceID"}.get(kind, kind), shapes))
    ours = table.to_ours(in_memory(wanted, Path("memory")))
    opened = MappedFiles()
    back = table.to_theirs(ours)
    assert set(back) == set(wanted)
    assert all(torch.equal(opened.read(tensor), wanted[name]) for name, tensor in back.items())
    projection = unet._convert_ip_adapter_image_proj_to_diffusers(dict(sections["image_proj"]), low_cpu_mem_usage=False)
    theirs = {f"projection.{name}": tensor for name, tensor in projection.state_dict().items()}
    for place, number in enumerate(sorted({int(name.partition(".")[0]) for name in sections["ip_adapter"]})):
        for part in ("to_k_ip", "to_v_ip"):
            theirs[f"attentions.{place}.{part}.weight"] = sections["ip_adapter"][f"{number}.{part}.weight"]
    assert set(ours) == set(theirs)
    assert all(torch.equal(opened.read(tensor), theirs[name]) for name, tensor in ours.items())


@pytest.mark.parametrize("shape", [(), (0,), (3,), (0, 0), (2, 3, 4)])
def test_odd_shapes_are_an_error_of_ours(folders, tmp_path, shape):
    pipe = loaded(lockstep, folders, "sd1")
    for kind in tiny_adapters.KINDS:
        tensors = tiny_adapters.flat(tiny_adapters.ip_adapter(their_unet(folders["sd1"]), kind))
        for name in [name for name in tensors if name.startswith("image_proj.")][:6]:
            save_file({**tensors, name: torch.zeros(shape)}, tmp_path / "odd.safetensors")
            with pytest.raises(LockstepError):
                pipe.load_ip_adapter(tmp_path / "odd.safetensors", image_encoder_folder=None)


def test_inputs_that_do_not_fit_are_refused_before_anything_runs(folders, monkeypatch):
    pipe = loaded(lockstep, folders, "sd1")
    pipe.load_ip_adapter(folders["sd1-adapters"], "models", "plain.safetensors")
    monkeypatch.setattr(pipe.text_encoder, "forward", lambda *a, **k: pytest.fail("a model ran"))
    given = {"prompt": "a cat", "height": 16, "width": 16, "num_inference_steps": 2}
    ready = pipe.prepare_ip_adapter_image_embeds(pixels())

    def refused(match, **inputs):
        with pytest.raises(InputError, match=match):
            pipe(**given, **inputs)

    refused("each of 1 IP-Adapters, got 2", ip_adapter_image=[pixels(), pixels()])
    refused("PIL pictures", ip_adapter_image=np.zeros((8, 8, 3), np.uint8))
    refused(r"\(3, 32, 32\)", ip_adapter_image=torch.zeros(3, 16, 16))
    refused("as many tensors, got 2", ip_adapter_image_embeds=ready * 2)
    refused("even; got 1", ip_adapter_image_embeds=[ready[0][:1]])
    refused("NaN", ip_adapter_image_embeds=[ready[0] * float("nan")])
    refused("were both given", ip_adapter_image=pixels(), ip_adapter_image_embeds=ready)
    masks = torch.ones(1, 1, 16, 16)
    for match, wrong in (
        ("each of 1", [masks, masks]),
        ("height, width", [masks[0]]),
        ("proportions", [masks[:, :, :8]]),
    ):
        refused(match, ip_adapter_image=pixels(), cross_attention_kwargs={"ip_adapter_masks": wrong})
    refused(r"\(1, 2, height", ip_adapter_image=[pixels(2)], cross_attention_kwargs={"ip_adapter_masks": [masks]})
    pipe.image_encoder = tiny.randomize(
        lockstep.CLIPVisionModelWithProjection(**{**tiny_adapters.ENCODER, "projection_dim": 20}), 1
    )
    refused("24 wide, this image encoder's", ip_adapter_image=pixels())
    pipe.image_encoder = None
    refused("'image_encoder'", ip_adapter_image=pixels())


def test_painting_with_a_picture_and_a_mask_of_its_own(folders):
    """The two masks are different things: what is painted anew, and where the adapter acts."""
    ours, theirs = both(folders, "sd1", ["plain"], "StableDiffusionInpaintPipeline")
    masks = lockstep.IPAdapterMaskProcessor().preprocess([mask()], height=16, width=16)
    arguments = {**arguments_for("sd1", "inpainting", 1, 6.0), "ip_adapter_image": pixels()}
    compare(ours, theirs, {**arguments, "cross_attention_kwargs": {"ip_adapter_masks": [masks]}})

"""Published names: each takes the arguments of its namesake in the reference, and makes the same picture."""

import inspect
import json
import subprocess
import sys

import diffusers
import numpy as np
import pytest
import torch

import lockstep
from helpers import assert_close
from lockstep.blocks.index import read_index
from lockstep.errors import InputError, UnsupportedError
from lockstep.pipelines.pipeline import pipeline_class
from lockstep.pipelines.published.table import AUTO, PUBLISHED, WHOLE
from pipelines import tiny, tiny_adapters, tiny_flow, tiny_ltx_video, tiny_qwen_image, tiny_video, tiny_z_image
from pipelines.test_against_diffusers import mask, picture

WORKFLOW = {"text2image": (), "image2image": ("image",), "inpainting": ("image", "mask_image")}
SMALL = {"conditioning_embedding_out_channels": (8, 16)}
NAMES = [name for name in (*WHOLE, *PUBLISHED) if not name.startswith(("Wan", "LTX"))]
# their videos are proven in tests of their own
VIDEO = [
    f"{name}Pipeline"
    for name in ("Wan", "WanImageToVideo", "WanVideoToVideo", "Helios", "HeliosPyramid", "LTX", "LTXImageToVideo")
]
FLOW = ("dev", "fill", "kontext", "sd3", "z_image", "qwen_image", "qwen_edit")  # folders of flow matching
# read pictures at a megapixel there, whatever they are: proven in a test of their own
EDITORS = ("QwenImageEditPipeline", "QwenImageEditPlusPipeline")
PAINTER = "StableDiffusion3ControlNetInpaintingPipeline"  # the ControlNet is given the mask, no other block
TASK_OF = {name: task for task, (name, _, _) in tiny.ONE_TASK.items()}
# arguments of the reference that are no inputs here, and why: see docs/differences.md
NOT_HERE = {"kwargs", "callback", "callback_steps"}
# of Flux and Stable Diffusion 3
REFUSED = {
    "HeliosPipeline": {"latents", "image_latents", "fake_image_latents", "video_latents"},
    "HeliosPyramidPipeline": {"latents", "image_latents", "fake_image_latents", "video_latents", "sigmas"},
}
NOT_TAUGHT = {"Qwen": {"guidance_scale"}}  # the guider's is shown; it does nothing there
NO_IP_ADAPTER = {f"{negative}ip_adapter_image{kind}" for negative in ("", "negative_") for kind in ("", "_embeds")}

SCRIPT = """
import json, sys
from lockstep.blocks.index import read_index
from lockstep.pipelines.pipeline import pipeline_class
found = pipeline_class(read_index(sys.argv[1]))
families = {name.split(".")[2] for name in sys.modules if name.startswith("lockstep.pipelines.stable_diffusion")}
print(json.dumps([found.__name__, sorted(families)]))
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("published")
    made = {kind: tiny.save_folder(root / kind, kind) for kind in ("sd1", "xl")}
    made["lcm"] = tiny.save_folder(root / "lcm", "sd1")
    tiny.unet(time_cond_proj_dim=8, seed=5).save_pretrained(made["lcm"] / "unet")
    lockstep.LCMScheduler(**tiny.BETAS).save_pretrained(made["lcm"] / "scheduler")
    index = json.loads((made["lcm"] / "model_index.json").read_text())
    index |= {"_class_name": "LatentConsistencyModelPipeline", "scheduler": ["diffusers", "LCMScheduler"]}
    (made["lcm"] / "model_index.json").write_text(json.dumps(index))
    made |= {kind: tiny_flow.save_flux(root / kind, kind) for kind in ("dev", "fill", "kontext")}
    made["sd3"] = tiny_flow.save_sd3(root / "sd3")
    made["z_image"] = tiny_z_image.save_z_image(root / "z_image")
    made["qwen_image"] = tiny_qwen_image.save_qwen_image(root / "qwen_image")
    made["qwen_edit"] = tiny_qwen_image.save_qwen_image_edit(root / "qwen_edit")
    made["ltx"] = tiny_ltx_video.save_ltx(root / "ltx")
    made |= {kind: tiny_video.save_wan(root / kind, kind) for kind in ("text", "image")}
    made["helios"] = tiny_video.save_helios(root / "helios", {"stages": 1, "stage_range": [0, 1]}, {}, 0.25)
    made["pyramid"] = tiny_video.save_helios(root / "pyramid", {}, {}, 0.25)
    return made | {task: tiny.save_one_task(root / task, task) for task in tiny.ONE_TASK}


def folder_of(path, class_name):
    (path / "model_index.json").write_text(
        json.dumps({"_class_name": class_name, "unet": ["diffusers", "UNet2DConditionModel"]})
    )
    return str(path)


def kind_of(name):
    if name in TASK_OF:
        return TASK_OF[name]
    if "Flux" in name:
        return "fill" if "Fill" in name else "kontext" if "Kontext" in name else "dev"
    if "QwenImage" in name:
        return "qwen_edit" if "Edit" in name else "qwen_image"
    if "ZImage" in name:
        return "z_image"
    if "LTX" in name:
        return "ltx"
    if "Diffusion3" in name:
        return "sd3"
    if "Wan" in name:
        return "image" if "ImageTo" in name else "text"
    if "Helios" in name:
        return "pyramid" if "Pyramid" in name else "helios"
    return "xl" if "XL" in name else "lcm" if "Consistency" in name else "sd1"


def control_net(kind, library, **config):
    if kind in ("dev", "sd3"):
        mine = tiny_flow.flux_net(9) if kind == "dev" else tiny_flow.sd3_net(9, **config)
        if library is lockstep:
            return mine
        theirs = getattr(diffusers, type(mine).__name__).from_config(dict(mine.config)).eval()
        theirs.load_state_dict(mine.state_dict())
        return theirs
    mine = tiny.randomize(lockstep.ControlNetModel.from_unet(tiny.unet(xl=kind == "xl"), **SMALL), 9)
    if library is lockstep:
        return mine
    theirs = diffusers.ControlNetModel.from_config(dict(mine.config))
    theirs.load_state_dict(mine.state_dict())
    return theirs.eval()


def t2i_adapter(library, seed=50):
    mine = tiny_adapters.t2i_adapter(seed=seed)
    if library is lockstep:
        return mine
    theirs = diffusers.T2IAdapter.from_config(dict(mine.config))
    theirs.load_state_dict(mine.state_dict())
    return theirs.eval()


def loaded(library, name, folders, **parts):
    kind = kind_of(name)
    if "ControlNet" in name:
        config = {"extra_conditioning_channels": 1} if name == PAINTER else {}
        parts["controlnet"] = control_net(kind, library, **config)
    if "Adapter" in name:
        parts["adapter"] = t2i_adapter(library)
    if kind == "depth":
        parts |= tiny.depth_parts()
    pipe = getattr(library, name).from_pretrained(folders[kind], **parts)
    pipe.set_progress_bar_config(disable=True)
    if library is diffusers and name == "StableDiffusion3InpaintPipeline":
        pipe.vae.decode = tiny_flow.shifted(pipe.vae)
    if library is diffusers and name in ("StableDiffusion3ControlNetPipeline", PAINTER):
        tiny_flow.likeliest(pipe.vae)
    return pipe


def arguments_for(name):
    """What a script gives: by the published names of the arguments."""
    given = {"prompt": "a photo of a cat", "num_inference_steps": 4, "output_type": "np"}
    if name == PAINTER:
        return given | {"height": 16, "width": 16, "control_image": picture(3), "control_mask": mask()}
    if "Img2Img" in name or "Inpaint" in name or name in TASK_OF:
        given["image"] = picture()
    else:
        given |= {"height": 16, "width": 16}
    if kind_of(name) in FLOW:
        given |= {"height": 16, "width": 16}
    if "Kontext" in name:
        given["max_area"] = 256
    if "Inpaint" in name or "Fill" in name:
        given |= {"image": picture(), "mask_image": mask(), "height": 16, "width": 16}
    if "Adapter" in name:
        given["image"] = picture(3)
    if "ControlNet" in name:
        argument = "control_image" if "image" in given or kind_of(name) in FLOW else "image"
        given |= {argument: picture(3), "height": 16, "width": 16}
    return given


@pytest.mark.filterwarnings("ignore:The decode_latents method is deprecated:FutureWarning")  # their own, of their own
@pytest.mark.filterwarnings("ignore:In CPU autocast", "ignore:.*FluxPosEmbed.*:FutureWarning")  # theirs
@pytest.mark.parametrize("name", [name for name in NAMES if name not in EDITORS])
def test_the_same_call_makes_the_same_picture(name, folders):
    pictures = []
    for library in (lockstep, diffusers):
        pipe = loaded(library, name, folders)
        pictures.append(pipe(**arguments_for(name), generator=torch.Generator().manual_seed(3)).images)
    assert np.abs(pictures[0] - pictures[1]).max() <= 1 / 255


@pytest.mark.parametrize("name", [*NAMES, *VIDEO])
def test_arguments_order_and_defaults_are_those_of_the_reference(name, folders):
    theirs = list(inspect.signature(getattr(diffusers, name).__call__).parameters.values())[1:]
    ours = inspect.signature(getattr(lockstep, name).__call__).parameters
    by_position = [p.name for p in ours.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert by_position == [p.name for p in theirs][: len(by_position)]
    settings = loaded(lockstep, name, folders, load=False).guider.config
    for parameter in theirs:
        without = NO_IP_ADAPTER if kind_of(name) in FLOW else set()
        if parameter.name in NOT_HERE | REFUSED.get(name, set()) | without:
            continue
        assert parameter.name in ours, f"{name} takes no {parameter.name!r}"
        default = ours[parameter.name].default
        if parameter.name in ("guidance_scale", "image_guidance_scale") and default is None:
            default = settings[parameter.name]
        elif parameter.name in ({"strength"} if name in WHOLE else set()) | NOT_TAUGHT.get(name[:4], set()):
            continue
        there = parameter.default
        assert there in (default, parameter.empty), f"{name}: {parameter.name} is {default}, there {there}"


def test_the_control_picture_of_the_plain_controlnet_pipeline_is_called_image(folders):
    pipe = loaded(lockstep, "StableDiffusionControlNetPipeline", folders)
    given = arguments_for("StableDiffusionControlNetPipeline") | {"seed": 1}
    by_published_name = pipe(**given).images
    edges = given.pop("image")
    assert np.array_equal(by_published_name, pipe(**given, control_image=edges).images)
    assert not np.array_equal(by_published_name, pipe(**given, control_image=picture(8)).images)
    with pytest.raises(InputError, match="another name"):
        pipe(**given, image=edges, control_image=edges)
    with pytest.raises(InputError, match="control_image"):
        pipe(**given)
    assert pipe("a cat", edges, 16, 16, 2, output_type="np").images.shape == (1, 16, 16, 3)


def test_an_index_decides_the_meaning_of_the_arguments(folders, tmp_path):
    loaded(lockstep, "StableDiffusionControlNetPipeline", folders).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "model_index.json").read_text())["_class_name"] == "StableDiffusionControlNetPipeline"
    ours = lockstep.DiffusionPipeline.from_pretrained(tmp_path)
    theirs = diffusers.DiffusionPipeline.from_pretrained(tmp_path)
    assert type(ours).__name__ == type(theirs).__name__ == "StableDiffusionControlNetPipeline"
    given = arguments_for("StableDiffusionControlNetPipeline")
    pictures = [pipe(**given, generator=torch.Generator().manual_seed(3)).images for pipe in (ours, theirs)]
    assert np.abs(pictures[0] - pictures[1]).max() <= 1 / 255


def test_a_pipeline_under_another_name_shares_its_models(folders):
    text = loaded(lockstep, "StableDiffusionPipeline", folders)
    painting = lockstep.StableDiffusionInpaintPipeline.from_pipe(text)
    assert painting.unet is text.unet
    wide = loaded(lockstep, "StableDiffusionXLPipeline", folders)
    assert lockstep.StableDiffusionXLInpaintPipeline.from_pipe(wide).guider.guidance_scale == 7.5
    wide.guider = lockstep.ClassifierFreeGuidance(guidance_scale=3.0)
    assert lockstep.StableDiffusionXLInpaintPipeline.from_pipe(wide).guider.guidance_scale == 3.0
    later = loaded(lockstep, "StableDiffusionPipeline", folders, load=False)
    assert lockstep.StableDiffusionImg2ImgPipeline.from_pipe(later).unet is not None


@pytest.mark.parametrize("auto", AUTO)
@pytest.mark.parametrize("kind", ["sd1", "xl"])
@pytest.mark.parametrize("steered", [False, True])
def test_automatic_names_choose_as_in_the_reference(auto, kind, steered, folders):
    chosen = []
    for library in (lockstep, diffusers):
        parts = {"controlnet": control_net(kind, library)} if steered else {}
        pipe = getattr(library, auto).from_pretrained(folders[kind], **parts)
        again = library.AutoPipelineForImage2Image.from_pipe(pipe)
        chosen.append((type(pipe).__name__, type(again).__name__))
    assert chosen[0] == chosen[1]


def test_an_automatic_name_refuses_what_it_does_not_know(folders):
    with pytest.raises(UnsupportedError, match="inpainting"):
        lockstep.AutoPipelineForInpainting.from_pretrained(folders["lcm"])


@pytest.mark.parametrize("published", ["StableDiffusionPipeline", "LatentConsistencyModelPipeline"])
def test_only_the_named_family_is_imported(published, tmp_path):
    script = [sys.executable, "-c", SCRIPT, folder_of(tmp_path, published)]
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    assert json.loads(said) == [published, ["stable_diffusion"]]


def test_every_name_of_the_table_is_public():
    assert {*PUBLISHED, *AUTO, *WHOLE} <= set(lockstep.__all__)


@pytest.mark.parametrize("name", [*NAMES, *VIDEO])
def test_an_index_leads_to_the_class_that_it_names(name, tmp_path):
    assert pipeline_class(read_index(folder_of(tmp_path, name))) is getattr(lockstep, name)


def test_an_unknown_class_is_told_with_the_nearest(tmp_path):
    with pytest.raises(UnsupportedError, match="did you mean 'StableDiffusionPipeline'"):
        pipeline_class(read_index(folder_of(tmp_path, "StableDifusionPipeline")))
    with pytest.raises(UnsupportedError, match="BaseGuidance"):
        pipeline_class(read_index(folder_of(tmp_path, "BaseGuidance")))  # public, and no pipeline


@pytest.mark.parametrize("name", ["LatentConsistencyModelPipeline", "LatentConsistencyModelImg2ImgPipeline"])
def test_a_callback_sees_and_sets_what_a_consistency_model_takes_for_the_picture(folders, name):
    seen, pictures = [], []
    for library in (lockstep, diffusers):
        pipe = getattr(library, name).from_pretrained(folders["lcm"], safety_checker=None)
        pipe.set_progress_bar_config(disable=True)
        asked = pipe._callback_tensor_inputs
        steps = []

        def watch(pipe, step, timestep, values, asked=asked, steps=steps):
            assert set(values) == set(asked)
            steps.append(values["denoised"])
            return {"denoised": values["denoised"] / 2} if step == pipe.num_timesteps - 1 else {}

        start = {"image": torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(2)), "strength": 0.8}
        call = start if "Img2Img" in name else {"height": 16, "width": 16}
        told = {"callback_on_step_end": watch, "callback_on_step_end_tensor_inputs": asked}
        generator = torch.Generator().manual_seed(4)
        pictures.append(pipe("a cat", **call, **told, generator=generator, output_type="latent").images)
        seen.append(steps)
    assert len(seen[0]) == len(seen[1]) > 2
    for ours, theirs in zip(*seen, strict=True):
        assert_close(ours, theirs)
    assert_close(*pictures)
    assert_close(pictures[0], seen[0][-1] / 2)

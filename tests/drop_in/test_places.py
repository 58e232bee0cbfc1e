"""Import lines of published scripts, with the first word changed: the names are there, or the error says what to do."""

import http.server
import importlib
import subprocess
import sys
import threading

import diffusers.utils
import numpy as np
import pytest
from PIL import Image

import lockstep
from lockstep import places
from lockstep.errors import FileFormatError, InputError, NotFoundError

SAME = [
    ("utils", ["load_image", "load_video", "make_image_grid", "export_to_video", "export_to_gif", "BaseOutput"]),
    ("utils.torch_utils", ["randn_tensor"]),
    ("image_processor", ["VaeImageProcessor", "IPAdapterMaskProcessor"]),
    ("configuration_utils", ["ConfigMixin", "register_to_config", "FrozenDict"]),
    ("models", ["AutoencoderKL", "UNet2DConditionModel", "ControlNetModel", "FluxTransformer2DModel"]),
    ("models.attention_processor", ["AttnProcessor2_0", "AttnProcessor", "Attention"]),
    ("models.modeling_utils", ["ModelMixin"]),
    ("schedulers", ["DDIMScheduler", "EulerDiscreteScheduler"]),
    ("schedulers.scheduling_utils", ["SchedulerMixin"]),
    ("pipelines", ["StableDiffusionPipeline", "FluxPipeline", "AutoPipelineForText2Image"]),
    ("pipelines.stable_diffusion", ["StableDiffusionPipeline", "StableDiffusionImg2ImgPipeline"]),
    ("pipelines.stable_diffusion.pipeline_stable_diffusion", ["StableDiffusionPipeline", "rescale_noise_cfg"]),
    ("pipelines.flux", ["FluxPipeline"]),
    ("modular_pipelines", ["SequentialPipelineBlocks", "InputParam", "ModularPipeline", "ComponentSpec"]),
]


@pytest.mark.parametrize(("place", "names"), SAME)
def test_names_are_where_the_reference_has_them(place, names):
    theirs, ours = importlib.import_module(f"diffusers.{place}"), importlib.import_module(f"lockstep.{place}")
    for name in names:
        assert hasattr(theirs, name), "the reference has it there, too"
        assert getattr(ours, name).__module__.startswith("lockstep.")


def test_every_name_of_the_table_is_there():
    for place, names in places.PLACES.items():
        for name in names:
            assert getattr(importlib.import_module(f"lockstep.{place}"), name) is not None


def test_the_same_object_by_every_way():
    from lockstep.models import UNet2DConditionModel
    from lockstep.pipelines.stable_diffusion import StableDiffusionPipeline

    assert UNet2DConditionModel is lockstep.UNet2DConditionModel
    assert StableDiffusionPipeline is lockstep.StableDiffusionPipeline


def test_what_is_not_there_is_told():
    with pytest.raises(ImportError, match="cannot import name 'load_pictures'"):
        from lockstep.utils import load_pictures  # noqa: F401
    with pytest.raises(AttributeError, match="has no 'load_imag': did you mean 'load_image'"):
        _ = importlib.import_module("lockstep.utils").load_imag
    with pytest.raises(ModuleNotFoundError, match="lockstep.training_utils is not part of Lockstep. Lockstep trains"):
        import lockstep.training_utils
    with pytest.raises(ModuleNotFoundError, match="No module named 'lockstep.nonsense'"):
        import lockstep.nonsense  # noqa: F401


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("DDPMPipeline", "lockstep has no 'DDPMPipeline'. Of this kind it has: DiffusionPipeline, Flux"),
        ("VQDiffusionScheduler", "Of this kind it has: CMStochasticIterativeScheduler"),
        ("EulerDiscretScheduler", "did you mean 'EulerDiscreteScheduler'?"),
        ("StableDiffusionAttendAndExcitePipeline", "lockstep has no 'StableDiffusionAttendAndExcitePipeline'"),
    ],
)
def test_a_name_of_the_reference_that_is_not_here_leads_to_no_other_program(name, told):
    with pytest.raises(AttributeError) as caught:
        getattr(lockstep, name)
    assert told in str(caught.value)
    assert "Wan" not in str(caught.value).partition("it has")[0]


def test_a_place_costs_nothing_until_it_is_used():
    code = "import sys, lockstep, lockstep.utils; assert 'torch' not in sys.modules and 'PIL' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- what the handy functions do ----


def picture(seed=0, size=(12, 8)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8))


def test_a_picture_from_a_file_as_the_reference_loads_it(tmp_path):
    rotated = picture()
    exif = rotated.getexif()
    exif[0x0112] = 6
    rotated.save(tmp_path / "a.png", exif=exif)
    ours, theirs = (library.utils.load_image(str(tmp_path / "a.png")) for library in (lockstep, diffusers))
    assert ours.size == (8, 12)
    assert np.array_equal(ours, theirs)
    assert ours.filename == str(tmp_path / "a.png"), "so that a manifest can name it"
    grey = lockstep.utils.load_image(picture(), lambda image: image.convert("L"))
    assert grey.mode == "L"
    with pytest.raises(InputError, match="wants a path"):
        lockstep.utils.load_image(3)
    with pytest.raises(FileFormatError, match="nowhere"):
        lockstep.utils.load_image("nowhere.png")


@pytest.fixture
def address(tmp_path):
    """A folder that is served on this machine."""
    picture().save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("no picture")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=tmp_path)

        def log_message(self, *args): ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_picture_from_an_address(address, monkeypatch):
    assert np.array_equal(lockstep.utils.load_image(f"{address}/a.png"), picture())
    with pytest.raises(NotFoundError, match="could not be fetched: File not found. Download the file"):
        lockstep.utils.load_image(f"{address}/b.png")
    with pytest.raises(FileFormatError, match="not a picture"):
        lockstep.utils.load_image(f"{address}/a.txt")
    monkeypatch.setattr("lockstep.media.handy.MOST_BYTES", 10)
    with pytest.raises(InputError, match="is larger than"):
        lockstep.utils.load_image(f"{address}/a.png")


@pytest.mark.parametrize("resize", [None, 5])
def test_a_grid_as_the_reference_makes_it(resize):
    pictures = [picture(seed) for seed in range(6)]
    ours, theirs = (library.utils.make_image_grid(pictures, 2, 3, resize) for library in (lockstep, diffusers))
    assert np.array_equal(ours, theirs)
    with pytest.raises(InputError, match="wants 6 pictures, got 5"):
        lockstep.utils.make_image_grid(pictures[:5], 2, 3)


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_frames_to_a_file_and_back(tmp_path, suffix):
    frames = [np.full((32, 48, 3), value) for value in (0.0, 0.5, 1.0)]
    export = lockstep.utils.export_to_gif if suffix == ".gif" else lockstep.utils.export_to_video
    path = export(frames, str(tmp_path / f"a{suffix}"), fps=5)
    back, fps = lockstep.utils.load_video(path, return_fps=True)
    assert (len(back), back[0].size, round(fps)) == (3, (48, 32), 5)
    assert [round(np.asarray(frame).mean() / 255, 1) for frame in back] == [0.0, 0.5, 1.0]
    assert export(frames).endswith(suffix)

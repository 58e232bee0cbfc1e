"""The client library `webuiapi`, unchanged, against a live server."""

import base64
import threading
from io import BytesIO

import numpy as np
import pytest
import webuiapi
from PIL import Image

QUICK = {"steps": 4, "width": 128, "height": 128, "seed": 3, "cfg_scale": 2.0, "eta": 0.0}


@pytest.fixture
def client(live):
    made = webuiapi.WebUIApi(host="127.0.0.1", port=live.port, sampler="DDIM")
    yield made
    made.session.close()


@pytest.fixture
def start():
    return Image.new("RGB", (128, 128), "orange")


def test_txt2img(client, live):
    result = client.txt2img(prompt="a red heart", negative_prompt="blue", batch_size=2, **QUICK)
    assert [image.size for image in result.images] == [(128, 128)] * 2
    assert (result.info["all_seeds"], result.info["sampler_name"]) == ([3, 4], "DDIM")
    assert result.info["infotexts"][0].startswith(
        "a red heart\nNegative prompt: blue\nSteps: 4, Sampler: DDIM, CFG scale: 2.0, Seed: 3,"
    )
    native = live.made("a red heart", inputs={"negative_prompt": "blue", "guidance_scale": 2.0}, seed=3)
    apart = np.abs(np.asarray(result.image).astype(int) - np.asarray(Image.open(BytesIO(live.picture(native)))))
    assert apart.max() <= 1


def test_img2img_and_inpainting(client, start):
    plain = client.img2img(images=[start], prompt="a cat", denoising_strength=0.6, **QUICK)
    assert plain.image.size == (128, 128)
    mask = Image.new("L", (128, 128), 0)
    mask.paste(255, (0, 0, 64, 128))
    for invert, kept in ((0, slice(80, 128)), (1, slice(0, 48))):
        painted = client.img2img(
            images=[start], mask_image=mask, prompt="a sea", denoising_strength=1.0, inpainting_mask_invert=invert,
            inpaint_full_res=False, **QUICK,
        )  # fmt: skip
        apart = np.abs(np.asarray(painted.image.convert("RGB")).astype(int) - np.array([255, 165, 0])).max(axis=-1)
        assert apart[:, kept].max() == 0
        assert apart.max() > 30
    cropped = client.img2img(images=[start], mask_image=mask, prompt="a sea", inpaint_full_res=True, **QUICK)
    assert cropped.image.size == (128, 128)


def test_progress_and_interrupt(client, live):
    """The running call ends at once, with the picture as far as it is."""
    idle = client.get_progress()
    assert (idle["progress"], idle["state"]["job_count"], idle["current_image"]) == (0.0, 0, None)
    client.util_wait_for_ready(check_interval=0.01)
    results = []
    other = webuiapi.WebUIApi(host="127.0.0.1", port=live.port, sampler="DDIM")
    call = threading.Thread(target=lambda: results.append(other.txt2img(prompt="a dog", **{**QUICK, "steps": 200})))
    call.start()
    while not (now := client.get_progress())["current_image"]:
        assert call.is_alive()
    assert 0 < now["progress"] < 1
    assert now["state"]["sampling_steps"] == 200
    assert Image.open(BytesIO(base64.b64decode(now["current_image"]))).size == (128, 128)
    client.interrupt()
    call.join(30)
    other.session.close()
    assert not call.is_alive()
    assert (len(results[0].images), results[0].info["interrupted"]) == (1, True)
    assert client.get_progress()["state"]["job_count"] == 0


def test_options_models_and_lists(client):
    assert client.util_get_current_model() == "lockstep/emoji"
    client.util_set_model("emoji")
    assert client.util_get_model_names() == ["lockstep/emoji"]
    with_names = client.util_get_sampler_names()
    assert {"Euler a", "DPM++ 2M", "DDIM", "UniPC"} <= set(with_names)
    assert "Heun" not in with_names, "which this model's first step would spoil"
    assert "karras" in client.util_get_scheduler_names()
    empty_lists = (
        client.get_loras, client.get_hypernetworks, client.get_face_restorers, client.get_sd_vae,
        client.get_prompt_styles, client.get_realesrgan_models, client.get_latent_upscale_modes,
    )  # fmt: skip
    for empty in empty_lists:
        assert empty() == []
    assert [one["name"] for one in client.get_upscalers()] == ["None", "Lanczos", "Nearest"]
    assert client.get_embeddings() == {"loaded": {}, "skipped": {}}
    assert client.get_memory()["ram"]["total"] > 0
    assert client.get_cmd_flags() == {}
    assert client.refresh_checkpoints() is None


def test_layers_of_the_text_encoder_are_skipped_by_options_and_by_a_call(client, live):
    plain = client.txt2img(prompt="a dog", **QUICK)
    client.set_options({"CLIP_stop_at_last_layers": 2})
    try:
        assert client.get_options()["CLIP_stop_at_last_layers"] == 2
        skipped = client.txt2img(prompt="a dog", **QUICK)
        assert "Clip skip: 2" in skipped.info["infotexts"][0]
        assert not np.array_equal(*(np.asarray(result.image) for result in (plain, skipped)))
        back = client.txt2img(prompt="a dog", override_settings={"CLIP_stop_at_last_layers": 1}, **QUICK)
        assert np.array_equal(*(np.asarray(result.image) for result in (plain, back)))
        wrong = live.http.post("/sdapi/v1/options", json={"CLIP_stop_at_last_layers": "x"})
        assert wrong.status_code == 422
    finally:
        client.set_options({"CLIP_stop_at_last_layers": 1})


def test_every_listed_sampler_runs_with_both_ways_of_naming_its_grid(client):
    """One call each: a name that is listed and cannot run would be a promise that nobody keeps."""
    for name in client.util_get_sampler_names():
        assert len(client.txt2img(prompt="a dog", sampler_name=name, **QUICK).images) == 1, name
    both = [
        client.txt2img(prompt="a dog", sampler_name="DPM++ 2M Karras", **QUICK),
        client.txt2img(prompt="a dog", sampler_name="dpm++ 2m", scheduler="Karras", **QUICK),
    ]
    assert np.array_equal(*(np.asarray(result.image) for result in both))
    for result in both:
        assert "Sampler: DPM++ 2M, Schedule type: Karras," in result.info["infotexts"][0]
        assert "Sampler: DPM++ 2M, Schedule type: Karras," in client.png_info(result.image).info
    for wrong in ({"sampler_name": "DPM adaptive"}, {"sampler_name": "Euler", "scheduler": "kl_optimal"}):
        with pytest.raises(RuntimeError, match="not found"):
            client.txt2img(prompt="a dog", **wrong, **QUICK)


def test_png_info_tells_how_a_picture_was_made(client, start):
    made = client.txt2img(prompt="a rose", **QUICK)
    told = client.png_info(made.image)
    assert told.info.startswith("a rose\nSteps: 4, Sampler: DDIM")
    assert told.parameters["Seed"] == "3"
    assert client.png_info(start).info == ""


def test_larger_pictures_and_what_is_not_offered(client, start):
    assert client.extra_single_image(start, upscaler_1="Lanczos", upscaling_resize=2).image.size == (256, 256)
    with pytest.raises(RuntimeError, match="501"):
        client.interrogate(start)


@pytest.mark.parametrize(
    "asked",
    [
        {"enable_hr": True},
        {"restore_faces": True},
        {"tiling": True},
        {"styles": ["x"]},
        {"script_name": "x"},
        {"subseed_strength": 0.5},
    ],
)
def test_what_cannot_be_had_is_refused_before_it_is_computed(client, asked):
    with pytest.raises(RuntimeError, match="cannot be had"):
        client.txt2img(prompt="a dog", **asked, **QUICK)


def test_a_form_with_foreign_fields_and_secrets_passes(live):
    """SillyTavern sends all that it has."""
    body = {
        "prompt": "a dog",
        **QUICK,
        "url": "http://elsewhere",
        "auth": "user:secret",
        "sampler_name": "Euler a",
        "scheduler": "Automatic",
    }
    answer = live.http.post("/sdapi/v1/txt2img", json=body)
    assert answer.status_code == 200, answer.text
    assert "secret" not in answer.text
    assert "secret" not in (live.data / "queue.sqlite").read_bytes().decode("latin-1")


def test_controlnet_units(equipped, start):
    client = webuiapi.WebUIApi(host="127.0.0.1", port=equipped.port, sampler="DDIM")
    assert client.has_controlnet
    assert (client.controlnet_version(), client.controlnet_model_list(), client.controlnet_module_list()) == (
        3,
        ["edges"],
        ["none"],
    )
    assert len(client.controlnet_detect([start]).images) == 1
    plain = client.txt2img(prompt="a dog", **QUICK)
    unit = webuiapi.ControlNetUnit(image=start, module="none", model="edges", weight=0.8)
    steered = client.txt2img(prompt="a dog", controlnet_units=[unit], **QUICK)
    assert not np.array_equal(np.asarray(plain.image), np.asarray(steered.image))
    again = client.txt2img(prompt="a dog", **QUICK)
    assert np.array_equal(np.asarray(plain.image), np.asarray(again.image)), "the unit did not stay"
    assert len(client.img2img(images=[start], prompt="a dog", controlnet_units=[unit], **QUICK).images) == 1
    two = client.txt2img(prompt="a dog", controlnet_units=[unit, unit], **QUICK)
    assert not np.array_equal(np.asarray(two.image), np.asarray(steered.image))
    with pytest.raises(RuntimeError, match="ControlNet not found"):
        client.txt2img(prompt="a dog", controlnet_units=[webuiapi.ControlNetUnit(image=start, model="depth")], **QUICK)
    client.session.close()


def test_a_lora_for_one_call_alone(equipped):
    client = webuiapi.WebUIApi(host="127.0.0.1", port=equipped.port, sampler="DDIM")
    assert [one["name"] for one in client.get_loras()] == ["style"]
    plain = client.txt2img(prompt="a dog", **QUICK)
    styled = client.txt2img(prompt="a dog <lora:style:0.8>", **QUICK)
    assert styled.info["prompt"] == "a dog <lora:style:0.8>"
    assert styled.info["infotexts"][0].startswith("a dog <lora:style:0.8>\nSteps")
    assert client.png_info(styled.image).info.startswith("a dog <lora:style:0.8>\nSteps")
    assert not np.array_equal(np.asarray(plain.image), np.asarray(styled.image))
    assert np.array_equal(np.asarray(plain.image), np.asarray(client.txt2img(prompt="a dog", **QUICK).image))
    with pytest.raises(RuntimeError, match="is no number"):
        client.txt2img(prompt="a dog <lora:style:nan>", **QUICK)
    with pytest.raises(RuntimeError, match="Unknown lora"):
        client.txt2img(prompt="a dog <lora:other:1>", **QUICK)
    manifest = equipped.http.get("/api/jobs", params={"limit": 2}).json()["jobs"][1]["outputs"][0]["url"] + "/manifest"
    told = equipped.http.get(manifest).json()["adapters"]
    assert [(one["file"], one["strength"]) for one in told] == [("style.safetensors", 0.8)]
    client.session.close()

"""The official `openai` package, unchanged, against a live server."""

import base64
import json
import warnings
from io import BytesIO

import httpx2
import numpy as np
import openai
import pytest
from PIL import Image

from .conftest import serving

QUICK = {"steps": 4, "seed": 3}


@pytest.fixture(scope="module")
def client(live):
    with openai.OpenAI(base_url=f"{live.url}/v1", api_key="any") as client:
        yield client


def png(mode="RGB", size=(128, 128), colour="orange"):
    data = BytesIO()
    Image.new(mode, size, colour).save(data, format="PNG")
    return data.getvalue()


def opened(image):
    return Image.open(BytesIO(base64.b64decode(image.b64_json)))


def test_generate(client, live):
    answer = client.images.generate(prompt="a red heart", n=2, size="128x128", extra_body=QUICK)
    assert [opened(one).size for one in answer.data] == [(128, 128)] * 2
    assert [one.seed for one in answer.data] == [3, 4]
    assert (answer.size, answer.output_format, answer.lockstep["model"]) == ("128x128", "png", "lockstep/emoji")
    assert answer.usage.input_tokens_details.text_tokens == 3
    native = live.made("a red heart", seed=3)
    assert (
        np.abs(
            np.asarray(opened(answer.data[0])).astype(int) - np.asarray(Image.open(BytesIO(live.picture(native))))
        ).max()
        <= 1
    )


def test_other_formats_names_qualities_and_links(client, live):
    jpeg = client.images.generate(
        model="gpt-image-1",
        prompt="a dog",
        output_format="jpeg",
        output_compression=60,
        quality="low",
        extra_body={"seed": 1},
    )
    assert (opened(jpeg.data[0]).format, jpeg.lockstep["steps"], jpeg.quality) == (
        "JPEG",
        1,
        "low",
    )  # half of the folder's own
    link = client.images.generate(prompt="a dog", response_format="url", extra_body=QUICK).data[0]
    assert Image.open(BytesIO(httpx2.get(link.url).content)).size == (128, 128)
    assert httpx2.get(link.manifest).json()["inputs"]["prompt"] == "a dog"


def test_stream_with_partial_images(client):
    with client.images.generate(
        prompt="a dog", stream=True, partial_images=2, extra_body={**QUICK, "steps": 6}
    ) as stream:
        events = list(stream)
    assert [event.type for event in events] == ["image_generation.partial_image"] * 2 + ["image_generation.completed"]
    assert [event.partial_image_index for event in events[:2]] == [0, 1]
    assert [opened(event).size for event in events] == [(128, 128)] * 3
    assert events[-1].usage.total_tokens == 3


def test_edit_repaints_where_the_mask_is_transparent(client):
    mask = Image.new("RGBA", (128, 128), (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), (0, 0, 64, 128))
    data = BytesIO()
    mask.save(data, format="PNG")
    answer = client.images.edit(image=png(), mask=data.getvalue(), prompt="a blue sea", extra_body=QUICK)
    pixels = np.asarray(opened(answer.data[0])).astype(int)
    orange = np.abs(pixels - np.array([255, 165, 0])).max(axis=-1)
    assert orange[:, 64:].max() == 0, "what the mask keeps is kept to the last pixel"
    assert np.median(orange[:, :48]) > 30


def test_edit_of_a_list_and_as_a_stream(client):
    given = {"image": [("start.png", png(), "image/png")], "prompt": "a cat", "extra_body": {**QUICK, "strength": 0.5}}
    assert len(client.images.edit(**given).data) == 1
    with client.images.edit(**given, stream=True) as stream:
        assert [event.type for event in stream] == ["image_edit.completed"]
    with pytest.raises(openai.BadRequestError, match="wants one picture, got 2"):
        client.images.edit(**{**given, "image": [png(), png()]})


def test_variations(client):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the client's own, of the whole call
        answer = client.images.create_variation(image=png(), n=2, extra_body=QUICK)
    assert len(answer.data) == 2


def test_models(client):
    assert [model.id for model in client.models.list()] == ["lockstep/emoji"]
    assert client.models.retrieve("lockstep/emoji").id == "lockstep/emoji"
    with pytest.raises(openai.NotFoundError, match="There is no model 'other'"):
        client.models.retrieve("other")


def test_what_means_nothing_here_is_not_in_the_way(client):
    given = {"style": "vivid", "quality": "low", "moderation": "low", "user": "me", "output_compression": 50}
    assert len(client.images.generate(model="dall-e-3", prompt="a dog", background="auto", **given).data) == 1


WRONG = [
    ({"size": "100x100"}, "invalid_value", "width"),
    ({"model": "sd-99"}, "model_not_found", "model"),
    ({"output_format": "gif"}, "invalid_value", "output_format"),
    ({"background": "transparent"}, "invalid_value", "background"),
    ({"extra_body": {"guidance_scal": 3}}, "unknown_parameter", None),
    ({"extra_body": {"scheduler": "eulre"}}, "unknown_parameter", "scheduler"),
    ({"n": 11}, "invalid_value", "n"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "code", "param"), WRONG, ids=lambda value: str(value)[:40])
def test_errors_have_a_message_a_code_and_the_field(client, given, code, param):
    with pytest.raises(openai.APIStatusError) as refused:
        client.images.generate(prompt="a dog", **given)
    assert (refused.value.code, refused.value.param) == (code, param), refused.value.body
    assert refused.value.message
    assert refused.value.request_id


def test_a_stream_that_is_left_cancels_its_job(client, live):
    with client.images.generate(prompt="a dog", stream=True, partial_images=3, extra_body={"steps": 200}) as stream:
        next(iter(stream))
    job = live.http.get("/api/jobs", params={"limit": 1}).json()["jobs"][0]
    assert live.wait(job)["state"] == "cancelled"


SECRET = "a token of more than sixteen letters"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server that wants a token and keeps one job waiting."""
    with serving(tmp_path_factory.mktemp("guarded"), "--max-queue", "1", token=SECRET) as server:
        yield server


def test_a_full_queue_is_told_with_429_and_when_to_come_again(guarded):
    """The client waits as long as it is told to, and comes again twice."""
    jobs = [guarded.make(inputs={"num_inference_steps": 200})]
    guarded.wait(jobs[0], until=("running",))
    jobs.append(guarded.make(inputs={"num_inference_steps": 199}))
    seen = []
    hooked = httpx2.Client(event_hooks={"response": [lambda response: seen.append(response)]}, timeout=60)
    with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=SECRET, http_client=hooked) as client:
        with pytest.raises(openai.RateLimitError) as refused:
            client.images.generate(prompt="a dog", extra_body=QUICK)
        assert refused.value.code == "queue_full"
        assert [response.status_code for response in seen] == [429] * 3
        assert all(1 <= int(response.headers["retry-after"]) <= 120 for response in seen)
        for job in jobs:
            guarded.http.post(f"/api/jobs/{job['id']}/cancel")
        guarded.wait(jobs[0])
        assert client.images.generate(prompt="a dog", extra_body=QUICK).data


def test_a_token_is_wanted_where_one_was_set(guarded):
    for key, right in ((SECRET, True), ("wrong", False)):
        with openai.OpenAI(base_url=f"{guarded.url}/v1", api_key=key) as client:
            if right:
                assert list(client.models.list())
                continue
            with pytest.raises(openai.AuthenticationError) as refused:
                client.models.list()
            assert refused.value.code == "invalid_api_key"
    with httpx2.Client(base_url=guarded.url) as anybody:
        assert anybody.get("/api/jobs", headers={"authorization": ""}).status_code == 401
        assert anybody.get("/health").status_code == 200
        assert anybody.get("/api/jobs", auth=("anybody", SECRET)).status_code == 200
        assert anybody.post("/api/session", json={"token": "wrong"}).status_code == 401
        anybody.post("/api/session", json={"token": SECRET}).raise_for_status()
        assert anybody.get("/api/jobs").status_code == 200, "by the cookie"
        cookie = next(iter(anybody.cookies.jar))
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert SECRET not in json.dumps(dict(anybody.cookies))
    assert SECRET not in guarded.log.read_text()

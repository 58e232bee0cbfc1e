"""Jobs through the native face on a live server: made, watched, cancelled, stopped and gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from lockstep.media import read_manifest
from lockstep.pipelines.pipeline import DiffusionPipeline

from .conftest import serving


def pixels(data):
    return np.asarray(Image.open(BytesIO(data)).convert("RGB")).astype(int)


@pytest.fixture(scope="module")
def pipe():
    return DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")


def test_the_web_process_has_no_torch(live):
    with open(f"/proc/{live.process.pid}/maps") as maps:
        assert "libtorch" not in maps.read()
    code = "import sys, lockstep.serve.running; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_job_makes_the_picture_that_the_library_makes(live, pipe):
    job = live.made("a red heart", seed=3)
    (output,) = job["outputs"]
    assert (output["facts"]["seed"], output["facts"]["width"], output["media"]) == (3, 128, "image/png")
    own = pipe("a red heart", num_inference_steps=4, seed=3).images[0]
    assert np.array_equal(pixels(live.picture(job)), np.asarray(own))
    manifest = live.http.get(f"{output['url']}/manifest").json()
    assert (manifest["model"], manifest["seed"], manifest["inputs"]["prompt"]) == ("lockstep/emoji", [3], "a red heart")
    assert str(live.data) not in json.dumps(manifest)


def test_what_a_server_made_can_be_replayed_from_its_file(live, lockstep, tmp_path):
    job = live.made("a dog", seed=5)
    (tmp_path / "dog.png").write_bytes(live.picture(job))
    torch.set_num_threads(1)  # as the server has it
    _, out, err = lockstep("replay", "dog.png", "--json")
    assert json.loads(out)["identical"], out + err


def test_the_client_writes_the_format_that_a_suffix_names(live, lockstep, tmp_path):
    words = ["client", "make", "a dog", "--set", "num_inference_steps=1", "--seed", "3", "--url", live.url]
    for name in ("e.jpg", "e.png"):
        code, _, err = lockstep(*words, "-o", tmp_path / name)
        assert code == 0, err
    assert (tmp_path / "e.jpg").read_bytes().startswith(b"\xff\xd8"), "a JPEG"
    jpeg, png = (read_manifest(tmp_path / name) for name in ("e.jpg", "e.png"))
    assert (jpeg["seed"], jpeg["inputs"], jpeg["pixels"]) == (png["seed"], png["inputs"], png["pixels"])


def test_several_pictures_have_seeds_in_a_row(live):
    job = live.made("a dog", count=2, seed=8)
    assert [one["facts"]["seed"] for one in job["outputs"]] == [8, 9]
    alone = live.made("a dog", seed=9)
    assert np.abs(pixels(live.picture(job, 1)) - pixels(live.picture(alone))).max() <= 1


def test_a_batch_gives_each_job_what_it_would_get_alone(live):
    """While one job runs, others of one shape gather and run together; their manifests tell of themselves alone."""
    wishes = [("a cat", "blue"), ("a rocket", None), ("a house", None)]
    first = live.make("the sun", inputs={"num_inference_steps": 20})
    jobs = [
        live.make(prompt, inputs={"negative_prompt": negative}, seed=20 + k)
        for k, (prompt, negative) in enumerate(wishes)
    ]
    live.wait(first)
    jobs = [live.wait(job) for job in jobs]
    assert [job["result"]["batch"] for job in jobs] == [3, 3, 3]
    for k, job in enumerate(jobs):
        prompt, negative = wishes[k]
        alone = live.made(prompt, inputs={"negative_prompt": negative}, seed=20 + k, deterministic=True)
        apart = live.http.get("/api/compare", params={"a": f"{job['id']}/0", "b": f"{alone['id']}/0"}).json()
        assert apart["largest"] <= 1, apart
        manifest = live.http.get(f"{job['outputs'][0]['url']}/manifest").json()
        assert manifest["batch"] == {"size": 3, "row": k}
        assert (manifest["inputs"]["prompt"], manifest["inputs"]["negative_prompt"], manifest["seed"]) == (
            prompt,
            negative,
            [20 + k],
        )
        assert not any(other in json.dumps(manifest) for other, _ in wishes if other != prompt)


def test_image_to_image_and_inpainting(live, pipe):
    start = Image.new("RGB", (128, 128), "orange")
    mask = Image.new("L", (128, 128), 0)
    mask.paste(255, (0, 0, 64, 128))
    kept = {}
    for name, picture in (("image", start), ("mask_image", mask)):
        data = BytesIO()
        picture.save(data, format="PNG")
        kept[name] = live.http.post("/api/inputs", content=data.getvalue()).json()
        assert live.http.get(f"/api/inputs/{kept[name]['file']}").status_code == 200
    inputs = {name: {"file": one["file"]} for name, one in kept.items()}
    job = live.made("a cat", inputs={**inputs, "strength": 1.0}, seed=1)
    own = pipe(
        "a cat", image=start, mask_image=mask.convert("RGB"), strength=1.0, num_inference_steps=4, seed=1
    ).images[0]
    assert np.array_equal(pixels(live.picture(job)), np.asarray(own))
    again = live.made("a cat", inputs={"image": {"job": job["id"]}, "strength": 0.5}, seed=1)
    assert pixels(live.picture(again)).shape == (128, 128, 3)


def test_another_scheduler_and_guider_for_one_job_alone(live, pipe):
    plain = live.made(seed=3, deterministic=True)
    other = live.made(
        seed=3, scheduler="DPM++ 2M Karras", guider={"class": "AdaptiveProjectedGuidance", "settings": {"eta": 0.5}}
    )
    manifest = live.http.get(f"{other['outputs'][0]['url']}/manifest").json()
    assert manifest["components"]["scheduler"]["class"] == "DPMSolverMultistepScheduler"
    assert manifest["components"]["guider"]["values"]["eta"] == 0.5
    after = live.made(seed=3, deterministic=True)
    assert live.picture(plain) == live.picture(after), "it did not stay"


def test_events_tell_the_way_of_a_job_and_come_again_by_their_id(live):
    job = live.make(partials=2, seed=1)
    with live.http.stream("GET", "/api/events", params={"job": job["id"], "previews": True}) as stream:
        told = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    kinds = [one["kind"] for one in told]
    assert [kind for kind in kinds if kind in ("queued", "running", "done")] == ["queued", "running", "done"]
    assert kinds.count("step") >= 3
    assert kinds.count("preview") >= 1
    assert all(one["job"] == job["id"] for one in told)
    running = next(one["id"] for one in told if one["kind"] == "running")
    with live.http.stream(
        "GET", "/api/events", params={"job": job["id"]}, headers={"Last-Event-ID": str(running)}
    ) as stream:
        again = [json.loads(line[6:])["kind"] for line in stream.iter_lines() if line.startswith("data: ")]
    assert again == ["done"]


def test_a_running_job_is_cancelled_at_its_next_step(live):
    job = live.make(inputs={"num_inference_steps": 200})
    live.wait(job, until=("running",))
    live.http.post(f"/api/jobs/{job['id']}/cancel")
    ended = live.wait(job)
    assert (ended["state"], ended["outputs"]) == ("cancelled", [])
    assert ended["ended"] - ended["started"] < 20
    live.made()


def test_a_running_job_can_be_ended_with_what_there_is(live):
    job = live.make(inputs={"num_inference_steps": 200})
    live.wait(job, until=("running",))
    live.http.post(f"/api/jobs/{job['id']}/shorten")
    ended = live.wait(job)
    assert (ended["state"], ended["result"]["interrupted"], len(ended["outputs"])) == ("done", True, 1)
    assert live.http.get(f"{ended['outputs'][0]['url']}/manifest").json()["changed_by"] == ["interrupted"]
    made = ended["outputs"][0]["facts"]["steps"]
    assert 0 <= made < 200
    assert ended["result"]["steps_made"] == made
    refused = live.http.post(f"/api/jobs/{job['id']}/replay")
    assert (refused.status_code, f"step {made} of 200" in refused.json()["error"]["message"]) == (422, True)


def test_a_run_stops_at_a_boundary_and_goes_on_with_another_value(live):
    whole = live.made(seed=4, deterministic=True)
    stopped = live.made(seed=4, stop_at="after_step_1")
    assert stopped["result"]["stopped_at"] == "after_step_1"
    latents = stopped["result"]["values"]["latents"]
    assert latents["shape"] == [1, 4, 16, 16]
    assert latents["std"] > 0
    kinds = [output["facts"]["kind"] for output in stopped["outputs"]]
    assert kinds == ["values", "preview"]
    on = f"/api/jobs/{stopped['id']}/continue"
    same = live.wait(live.http.post(on, json={}).json())
    assert np.array_equal(pixels(live.picture(same)), pixels(live.picture(whole)))
    changed = live.wait(live.http.post(on, json={"values": {"latents": {"multiply": 0.5}}}).json())
    assert not np.array_equal(pixels(live.picture(changed)), pixels(live.picture(whole)))
    manifest = live.http.get(f"{changed['outputs'][0]['url']}/manifest").json()
    assert manifest["changed_by"] == ["edit of latents at after_step_1"]
    wrong = live.wait(live.http.post(on, json={"values": {"latent": {"multiply": 0.5}}}).json())
    assert (wrong["state"], "did you mean 'latents'" in wrong["error"]["message"]) == ("failed", True)


def test_a_recorded_job_keeps_what_every_block_made(live):
    """And two of them can be compared block by block, and proven."""
    plain = live.made(seed=4, deterministic=True)
    jobs = [live.made(seed=seed, trace=True) for seed in (4, 5)]
    apart = live.http.get("/api/compare", params={"a": f"{plain['id']}/0", "b": f"{jobs[0]['id']}/0"}).json()
    assert apart["identical"], "recording changes nothing"
    values = live.http.get(f"/api/jobs/{jobs[0]['id']}/boundaries").json()["values"]
    steps = [value for value in values if value["path"] == "denoise.step"]
    assert [value["step"] for value in steps] == [f"denoise:{k:03d}" for k in range(4)]
    assert steps[0]["shape"] == [1, 4, 16, 16]
    assert steps[0]["std"] > 0
    found = live.http.get("/api/compare/steps", params={"a": jobs[0]["id"], "b": jobs[1]["id"]}).json()
    rows = {(row["step"], row["path"], row["name"]): row["relative"] for row in found["differences"]}
    assert rows["-", "text_encoder", "prompt_embeds"] == 0
    assert rows["denoise:003", "denoise.step", "latents"] > 0.1
    assert (found["only_a"], found["only_b"]) == (0, 0)
    traces = [live.http.post(f"/api/jobs/{job['id']}/trace").json()["trace"] for job in jobs]
    report = live.http.post("/api/reports", json=dict(zip(("reference", "candidate"), traces, strict=True))).json()
    assert report["exit_code"] >= 10, report
    assert live.http.get(f"/api/jobs/{plain['id']}/boundaries").status_code == 404


def test_who_watches_sees_the_values_between_the_blocks(live):
    job = live.make(seed=1, inputs={"num_inference_steps": 8})
    with live.http.stream("GET", "/api/events", params={"job": job["id"], "previews": True}) as stream:
        told = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    looks = {one["path"]: one["values"] for one in told if "values" in one}
    assert looks["denoise.007.step"]["latents"]["shape"] == [1, 4, 16, 16]
    assert looks["denoise.007.predict"]["noise_pred"]["std"] > 0


def test_a_walk_between_two_noises_ends_at_neither_too_loud_nor_too_quiet(live):
    turns = [{"latents": {"toward": {"seed": 9, "amount": part}}} for part in (0, 0.5, 1)]
    stops = [
        live.made(seed=4, edits=[{"at": "start.latents", "values": turn}], stop_at="denoise.000.scale")
        for turn in turns
    ]
    spreads = [stop["result"]["values"]["latents"]["std"] for stop in stops]
    assert max(spreads) / min(spreads) < 1.1
    assert len({stop["outputs"][0]["sha256"] for stop in stops}) == 3


def test_a_replay_is_the_same_to_the_last_pixel(live):
    job = live.made("a rose", seed=6, deterministic=True)
    again = live.wait(live.http.post(f"/api/jobs/{job['id']}/replay").json())
    places = {"a": f"{job['id']}/0", "b": f"{again['id']}/0"}
    assert live.http.get("/api/compare", params=places).json() == {
        "identical": True,
        "largest": 0,
        "mean": 0.0,
        "differing": 0.0,
    }
    assert live.http.get("/api/compare/picture", params=places).headers["content-type"] == "image/png"


def test_the_gallery_is_searched_starred_and_cleared(live):
    job = live.made("a purple banana")
    one = f"/api/jobs/{job['id']}"
    assert [found["id"] for found in live.http.get("/api/jobs", params={"text": "PURPLE"}).json()["jobs"]] == [
        job["id"]
    ]
    for words, found in (("banana a", 1), ("purple rose", 0)):
        wanted = {"text": words, "made": True}
        assert len(live.http.get("/api/jobs", params=wanted).json()["jobs"]) == found, words
    live.http.put(f"{one}/outputs/0/star", json={"starred": True})
    assert [found["id"] for found in live.http.get("/api/jobs", params={"starred": True}).json()["jobs"]] == [job["id"]]
    assert Image.open(BytesIO(live.http.get(f"{one}/outputs/0/thumbnail?side=32").content)).size == (32, 32)
    assert live.http.delete(one).status_code == 204
    assert live.http.get(one).status_code == 404
    assert not list((live.data / "results").glob(f"{job['id']}*"))


def test_one_key_is_one_job(live):
    headers = {"Idempotency-Key": "one and the same"}
    first, again = (live.make("a cat", headers=headers) for _ in range(2))
    assert (first["id"], first["request"]["seed"]) == (again["id"], again["request"]["seed"])
    other = live.http.post("/api/jobs", json={"inputs": {"prompt": "a dog"}}, headers=headers)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


REFUSALS = [
    ({"inputs": {"prompt": "a cat", "hieght": 64}}, 400, "did you mean 'height'?"),
    ({"inputs": {"prompt": "a cat", "height": 65}}, 400, "in steps of 8"),
    ({"inputs": {"prompt": "a cat", "height": True}}, 400, "a whole number"),
    ({"inputs": {"prompt": "a cat", "height": 80000, "width": 80000}}, 400, "width x height"),
    ({"inputs": {"prompt": "a cat", "num_inference_steps": 10**6}}, 400, "200 steps at most"),
    ({"inputs": {"prompt": "x", "num_inference_steps": 200, "width": 2048, "height": 2048}, "count": 9}, 400, "pixels"),
    ({"inputs": {"prompt": "x" * 3000}}, 400, "2000 characters"),
    ({"inputs": {"prompt": ["a", "b"]}}, 400, "a text"),
    ({"inputs": {}}, 400, "'prompt' is wanted"),
    ({"inputs": {"prompt": "a cat", "image": {"data": "http://127.0.0.1/x.png"}}}, 400, "fetches none"),
    ({"inputs": {"prompt": "a cat", "image": {"data": "AAAA"}}}, 400, "not a PNG"),
    ({"inputs": {"prompt": "a cat", "image": {"file": "../../etc/passwd"}}}, 400, "file"),
    ({"inputs": {"prompt": "a cat"}, "model": "no/such"}, 404, "There is no model"),
    ({"inputs": {"prompt": "a cat"}, "scheduler": "eulre"}, 400, "did you mean 'euler'?"),
    ({"inputs": {"prompt": "a cat"}, "guider": "None"}, 400, "Unknown guider"),
    ({"inputs": {"prompt": "a cat"}, "loras": [{"name": "x"}]}, 400, "Unknown lora"),
    ({"inputs": {"prompt": "a cat"}, "controlnets": ["x"]}, 400, "Unknown controlnet"),
    ({"inputs": {"prompt": "a cat"}, "seeed": 1}, 400, "unknown name"),
    ({"inputs": {"prompt": "a cat"}, "seed": -1}, 400, "seed"),
    ({"inputs": {"prompt": "a cat"}, "count": 1.5}, 400, "count"),
    ({"inputs": {"prompt": "a cat"}, "count": 2, "trace": True}, 400, "one picture at a time"),
    ({"inputs": {"prompt": "a"}, "edits": [{"at": "x", "values": {"latents": {"toward": 1}}}]}, 400, "amount, seed"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "words"), REFUSALS, ids=lambda value: str(value)[:60])
def test_what_cannot_work_is_refused_before_it_waits(live, body, status, words):
    newest = live.http.get("/api/jobs", params={"limit": 1}).json()["jobs"][0]["seq"]
    answer = live.http.post("/api/jobs", json=body)
    assert (answer.status_code, words in answer.json()["error"]["message"]) == (status, True), answer.text
    assert live.http.get("/api/jobs", params={"limit": 1}).json()["jobs"][0]["seq"] == newest


def test_the_catalogue_and_the_schema_tell_what_there_is(live):
    catalogue = live.http.get("/api/catalogue").json()
    assert list(catalogue["models"]) == ["lockstep/emoji"]
    schema = live.http.get("/api/schema").json()
    assert schema["inputs"]["num_inference_steps"]["default"] == 2
    assert schema["inputs"]["guidance_scale"]["default"] == 1.0  # the folder's own
    assert (schema["width"], schema["height"]) == (128, 128)
    flow = schema["blocks"]["text2image"]
    assert "preloop" in flow["boundaries"]
    assert [block["path"] for block in flow["blocks"]][-2:] == ["decode", "safety"]


def test_health_and_metrics(live):
    live.made()
    assert live.http.get("/health").json()["status"] == "ok"
    text = live.http.get("/metrics").text
    assert 'lockstep_requests_total{face="api",status="202"}' in text
    assert 'lockstep_jobs{state="done"}' in text


@pytest.mark.slow
def test_each_process_that_is_killed_is_replaced_and_every_job_ends_once(tmp_path):
    """kill -9 of the worker, then of the server."""
    options = ("--attempts", "50")
    with serving(tmp_path, *options) as server:
        done = server.made(seed=2)
        job = server.make(inputs={"num_inference_steps": 60})
        server.wait(job, until=("running",))
        os.kill(server.worker(), signal.SIGKILL)
        ended = server.wait(job)
        assert (ended["state"], ended["attempt"]) == ("done", 2)
        left = [server.make(inputs={"num_inference_steps": steps}) for steps in (60, 4, 4)]
        server.wait(left[0], until=("running",))
        worker = server.worker()
        server.process.kill()
        server.process.wait()
        gone_by = time.monotonic() + 30
        while os.path.exists(f"/proc/{worker}") and time.monotonic() < gone_by:
            time.sleep(0.05)
        assert not os.path.exists(f"/proc/{worker}"), "no worker is left behind"
    with serving(tmp_path, *options) as server:
        assert [server.wait(job)["state"] for job in left] == ["done"] * 3
        assert server.http.get(f"/api/jobs/{done['id']}").json()["outputs"] == done["outputs"]
    for job in (ended, *left):
        kinds = [event.kind for event in events_of(tmp_path, job["id"])]
        assert (kinds[0], kinds[-1], kinds.count("done")) == ("queued", "done", 1)


def events_of(data, job):
    from lockstep.serve.queue import Queue

    queue = Queue(data / "queue.sqlite")
    found = [event for event in queue.events_after(0) if event.job == job]
    queue.close()
    return found

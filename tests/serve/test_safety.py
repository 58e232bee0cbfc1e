"""A hostile client: each line of the list of threats is a test, and none of them is answered with a 500."""

import asyncio
import contextlib
import json
import os
import random
import re
import socket
import string
import struct
import sys
import time
import zlib
from io import BytesIO
from pathlib import Path

import httpx2
import pytest
from PIL import Image

from lockstep.errors import InputError, NotFoundError, WriteError
from lockstep.media import kind_named
from lockstep.serve.metrics import Metrics
from lockstep.serve.problems import Problem
from lockstep.serve.results import DataFolder
from lockstep.serve.running import run
from lockstep.serve.safety import Body, Safety
from lockstep.serve.settings import Limits, Settings, named_sources
from lockstep.serve.wishes import Catalogue, Wish, request_of
from lockstep.serve.worker.cards import unable_to_write

MODEL = {"models": {"m": "lockstep/emoji"}}


def status(live, method="GET", path="/api/jobs", **headers):
    return live.http.request(
        method, path, headers=headers, json={"inputs": {}} if method == "POST" else None
    ).status_code


def test_only_this_machine_can_reach_a_server_without_a_token(tmp_path):
    for host in ("127.0.0.1", "::1", "localhost"):
        Settings(tmp_path, host=host, **MODEL)
    for host in ("0.0.0.0", "::", "192.168.0.2", "example.org"):
        with pytest.raises(InputError, match="needs a token"):
            Settings(tmp_path, host=host, **MODEL)
        Settings(tmp_path, host=host, token="x" * 16, **MODEL)
    with pytest.raises(InputError, match="16 characters"):
        Settings(tmp_path, token="short", **MODEL)


def test_names_of_models_are_the_owners(tmp_path):
    folder = str(tmp_path)
    assert named_sources(["lockstep/emoji", f"sd={folder}", folder, "owner/name"], "--model") == {
        "lockstep/emoji": "lockstep/emoji", "sd": folder, tmp_path.stem: folder, "owner/name": "owner/name",
    }  # fmt: skip
    with pytest.raises(NotFoundError, match="there is nothing at"):
        named_sources(["sd=./no/such/folder"], "--model")
    with pytest.raises(InputError, match="not taken"):
        named_sources([f"a={folder}", f"a={folder}"], "--model")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil", "127.0.0.1@evil", "[::1]evil"]
)
def test_a_foreign_host_is_refused(live, host):
    assert status(live, Host=host) == 403


def test_its_own_names_are_known_in_any_case(live):
    for host in ("127.0.0.1", "LOCALHOST", f"localhost:{live.port}", "[::1]"):
        assert status(live, Host=host) == 200


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1:1",
        "http://127.0.0.1.evil:{port}",
        "file://",
        "",
    ],
)
def test_a_page_of_another_site_changes_nothing(live, origin):
    assert status(live, "POST", Origin=origin.format(port=live.port)) == 403
    assert status(live, "DELETE", f"/api/jobs/{'a' * 26}", Origin=origin.format(port=live.port)) == 403


def test_its_own_page_may(live):
    assert status(live, "POST", Origin=f"http://127.0.0.1:{live.port}") == 400, (
        "refused for what it asks, not for who asks"
    )


def test_a_form_of_another_site_without_an_origin_is_known_by_its_fetch_header(live):
    assert status(live, "POST", **{"Sec-Fetch-Site": "cross-site"}) == 403


PAGE = "http://localhost:9000"


def asked(settings, method="GET", path="/api/jobs", **headers):
    """What the checks answer, with nothing behind them but a `200`: its status and its headers."""
    sent = []

    async def inner(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    given = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    rows = [(name.encode(), value.encode()) for name, value in given.items()]
    asyncio.run(Safety(inner, settings, Metrics())({"type": "http", "method": method, "path": path, "headers": rows},
                                                   None, send))  # fmt: skip
    return sent[0]["status"], {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}


def test_an_allowed_site_is_answered_before_it_sends_and_no_other(tmp_path):
    settings = Settings(tmp_path, allowed_origins=[PAGE], token="x" * 16, **MODEL)
    wanted = {"access_control_request_method": "POST",
              "access_control_request_headers": "authorization, content-type, x-stainless-os"}  # fmt: skip
    code, told = asked(settings, "OPTIONS", origin=PAGE, **wanted)
    assert (code, told["access-control-allow-origin"], told["vary"]) == (204, PAGE, "Origin")
    assert "POST" in told["access-control-allow-methods"]
    for name in ("authorization", "content-type", "idempotency-key", "last-event-id", "x-stainless-os"):
        assert name in told["access-control-allow-headers"]
    for strange in ({"origin": "http://evil.example"}, {"origin": "null"}, {"origin": PAGE, "host": "evil.example"}):
        code, told = asked(settings, "OPTIONS", **{**wanted, **strange})
        assert code == 403
        assert "access-control-allow-methods" not in told
    assert asked(settings, "POST", origin=PAGE)[0] == 401, "the token is asked for with what is sent"
    code, told = asked(settings, "POST", origin=PAGE, authorization=f"Bearer {settings.token}")
    assert (code, told["access-control-allow-origin"], told["vary"]) == (200, PAGE, "Origin")
    code, told = asked(settings, origin="http://evil.example", authorization=f"Bearer {settings.token}")
    assert ("access-control-allow-origin" in told, told["vary"]) == (False, "Origin")
    assert asked(Settings(tmp_path, **MODEL), "OPTIONS", origin=PAGE, **wanted)[0] == 403


def test_a_server_for_everybody_knows_addresses_and_its_own_name(tmp_path):
    everywhere = Settings(tmp_path, host="0.0.0.0", token="x" * 16, **MODEL)
    for host in ("192.168.0.7", "10.1.2.3:7860", "[fe80::1]:7860", socket.gethostname().upper(), "localhost"):
        assert asked(everywhere, path="/health", host=host)[0] == 200, host
    for host in ("evil.example", "192.168.0.7.evil.example", "0x7f.1"):
        assert asked(everywhere, path="/health", host=host)[0] == 403, host
    assert asked(Settings(tmp_path, **MODEL), path="/health", host="192.168.0.7")[0] == 403


@pytest.mark.parametrize("wrong", [
    {"dtype": "int8"}, {"devices": ["banana"]}, {"devices": ["cuda:x"]}, {"allowed_origins": ["evil"]},
    {"allowed_hosts": ["http://x"]},
], ids=str)  # fmt: skip
def test_a_setting_that_can_never_work_is_refused_at_the_start(tmp_path, wrong):
    with pytest.raises(InputError):
        Settings(tmp_path, **wrong, **MODEL)


def test_a_folder_that_cannot_be_had_is_told_before_the_address(tmp_path):
    told = []
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        run(Settings(tmp_path / "file" / "data", port=0, **MODEL), told.append)
    held = DataFolder(tmp_path / "held")
    with pytest.raises(InputError, match="Another server"):
        run(Settings(held.root, port=0, **MODEL), told.append)
    held.close()
    assert told == []


def test_a_model_whose_kind_cannot_be_written_is_refused_before_it_is_computed(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    assert unable_to_write(kind_named("picture")) is None
    card = {"name": "wan", "media": "video", "unable": unable_to_write(kind_named("video"))}
    known = Catalogue({"wan": card}, {}, {}, [], [])
    with pytest.raises(Problem, match="PyAV") as refused:
        request_of(Wish("wan", {"prompt": "x"}), known, Limits())
    assert refused.value.status == 501
    with pytest.raises(Problem, match="makes no pictures"):
        known.picture_card("wan")


def test_json_has_to_say_that_it_is(live):
    answer = live.http.post(
        "/api/jobs", content=json.dumps({"inputs": {"prompt": "x"}}), headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code == 400


def test_answers_carry_the_policy_and_no_cors(live):
    headers = live.http.get("/health", headers={"Origin": "http://evil.example"}).headers
    assert "require-trusted-types-for 'script'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers
    assert headers["x-request-id"]


@pytest.mark.parametrize("path", [
    "/api/jobs/../../etc/passwd", "/api/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/api/inputs/..%2f..%2fqueue.sqlite",
    "/api/inputs/queue.sqlite", f"/api/jobs/{'a' * 26}/outputs/..%2f0",
    "/studio/..%2f..%2fpyproject.toml", "/studio/%2e%2e/app.py",
    "/api/jobs/" + "a" * 27, "/api/jobs/" + "A" * 26, "/api/jobs/" + "a" * 25 + "%00",
])  # fmt: skip
def test_no_path_of_a_request_reaches_a_file(live, path):
    with socket.create_connection(("127.0.0.1", live.port)) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = raw.makefile("rb").read()
    assert re.match(rb"HTTP/1.1 (400|404) ", answer), answer[:100]
    assert b"root:" not in answer
    assert str(live.data).encode() not in answer


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width, height):
    """A PNG of a few kilobytes that would be as large as it says."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


def text_bomb():
    packed = zlib.compress(b"x" * 50_000_000)
    data = bomb(8, 8)
    return data[:33] + chunk(b"zTXt", b"k\0\0" + packed) + data[33:]


BAD_PICTURES = {
    "100 megapixels": bomb(10_000, 10_000), "more than there is": bomb(2**31 - 1, 2**31 - 1), "text": text_bomb(),
    "nothing": b"", "html": b"<html><script>alert(1)</script>", "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "gif": b"GIF89a" + bytes(100), "cut off": b"\x89PNG\r\n\x1a\n" + bytes(20), "pickle": b"\x80\x04K\x01.",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_a_bomb_is_refused_before_it_is_decoded(live, name):
    before = resident(live.process.pid)
    answer = live.http.post("/api/inputs", content=BAD_PICTURES[name])
    assert answer.status_code in (400, 413), answer.text
    assert answer.json()["error"]["code"] in ("invalid_image", "too_large")
    assert resident(live.process.pid) - before < 60e6


def resident(pid):
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_what_a_picture_carries_besides_its_pixels_is_dropped(live):
    data, exif = BytesIO(), Image.Exif()
    exif[0x010E], exif[0x0112] = "where I live", 6
    Image.new("RGB", (16, 8), "red").save(data, format="JPEG", exif=exif, comment=b"a secret")
    kept = live.http.post("/api/inputs", content=data.getvalue()).json()
    stored = (live.data / "inputs" / kept["file"]).read_bytes()
    assert (kept["width"], kept["height"]) == (8, 16), "turned upright"
    assert b"where" not in stored
    assert b"secret" not in stored


def test_a_body_that_is_too_large_is_refused_by_what_it_says_and_by_what_it_is(live):
    with socket.create_connection(("127.0.0.1", live.port)) as raw:
        length = Limits().body + 1
        raw.sendall(f"POST /api/inputs HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 413 ")

    def endless():
        for _ in range(80):
            yield bytes(2**20)

    with contextlib.suppress(httpx2.TransportError):  # it answers and closes while this side is still sending
        assert live.http.post("/api/inputs", content=endless()).status_code == 413
    assert live.http.get("/health").status_code == 200


def test_a_body_that_comes_too_slowly_is_not_waited_for(tmp_path):
    settings = Settings(tmp_path, limits=Limits(body_seconds=0.05), **MODEL)

    async def never():
        await asyncio.sleep(60)

    with pytest.raises(Problem, match="too long") as refused:
        asyncio.run(Body(never, settings, None)())
    assert refused.value.status == 408


def test_no_address_is_fetched(live):
    """A server that would fetch one would ask this socket."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/picture.png"
        tries = [
            ("/api/jobs", {"inputs": {"prompt": "x", "image": {"data": url}}}),
            ("/sdapi/v1/img2img", {"prompt": "x", "init_images": [url]}),
            ("/sdapi/v1/png-info", {"image": url}),
            (
                "/sdapi/v1/txt2img",
                {"prompt": "x", "alwayson_scripts": {"ControlNet": {"args": [{"image": url, "model": "x"}]}}},
            ),
        ]
        for path, body in tries:
            assert live.http.post(path, json=body).status_code in (400, 422), path
        with pytest.raises(BlockingIOError):
            trap.accept()


def test_prompts_are_not_logged_and_never_become_html(live):
    evil = "<img src=x onerror=alert(1)> \x1b[31m"
    job = live.made(evil)
    told = live.http.get(f"/api/jobs/{job['id']}")
    assert told.headers["content-type"] == "application/json"
    manifest = live.http.get(f"{job['outputs'][0]['url']}/manifest").json()
    assert manifest["inputs"]["prompt"] == evil
    assert "onerror" not in live.log.read_text()


def random_bodies(seed):
    draw = random.Random(seed)
    values = [
        None,
        True,
        -1,
        0,
        1,
        2**63,
        10**400,
        1e308,
        "",
        "x" * 5000,
        [],
        {},
        [[[]]],
        {"a": {"b": []}},
        "\ud800",
        "\0",
        "../..",
        0.1,
    ]
    names = ["inputs", "prompt", "model", "seed", "count", "scheduler", "loras", "edits", "stop_at", "image",
             "n", "size", "stream", "init_images", "mask", "alwayson_scripts", "override_settings",
             "sampler_name", "width", "height", "steps"]  # fmt: skip
    paths = ["/api/jobs", "/v1/images/generations", "/v1/images/edits", "/sdapi/v1/txt2img",
             "/sdapi/v1/img2img", "/sdapi/v1/options",
             "/sdapi/v1/png-info", "/controlnet/detect", "/api/session", f"/api/jobs/{'b' * 26}/continue"]  # fmt: skip
    body = {draw.choice(names): draw.choice(values) for _ in range(draw.randrange(5))}
    if draw.random() < 0.3:
        body["inputs"] = {draw.choice(names): draw.choice(values) for _ in range(3)}
    raw = json.dumps(body)
    if draw.random() < 0.2:
        raw = "".join(draw.choice(string.printable) for _ in range(draw.randrange(200)))
    return draw.choice(paths), raw.encode("utf-8", "replace")


@pytest.mark.parametrize("many", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_requests_are_refused_and_never_a_500(frugal, many):
    before, folders = resident(frugal.process.pid), sorted(os.listdir(frugal.data.parent))
    for seed in range(many):
        path, raw = random_bodies(seed)
        answer = frugal.http.post(path, content=raw, headers={"Content-Type": "application/json"})
        assert answer.status_code < 500 or answer.status_code == 501, (path, raw[:200], answer.text)
    deep = b"[" * 100_000 + b"]" * 100_000
    assert frugal.http.post("/api/jobs", content=deep, headers={"Content-Type": "application/json"}).status_code == 400
    assert resident(frugal.process.pid) - before < 100e6
    assert sorted(os.listdir(frugal.data.parent)) == folders, "nothing is written outside of the data folder"
    known = {"inputs", "lock", "queue.sqlite", "reports", "results", "traces", "work"}
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in frugal.data.iterdir()} <= known


def test_health_answers_while_the_worker_computes(live):
    job = live.make(inputs={"num_inference_steps": 100})
    live.wait(job, until=("running",))
    slowest = 0.0
    for _ in range(20):
        began = time.perf_counter()
        assert live.http.get("/health").status_code == 200
        slowest = max(slowest, time.perf_counter() - began)
    live.http.post(f"/api/jobs/{job['id']}/cancel")
    live.wait(job)
    assert slowest < 5, "not one of them waited for the computation"

"""The OpenAPI document is what the server does: schemathesis asks all of it, and no answer is undocumented."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = ["not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance"]
# a stream has no end; what is not offered says so with 501, which every server error is to a fuzzer
LEFT_OUT = ["/api/events", "/sdapi/v1/interrogate", "/sdapi/v1/extra-batch-images"]


def asked(server, tmp_path, *options):
    words = [
        Path(sys.executable).parent / "schemathesis",
        "run",
        f"{server.url}/openapi.json",
        "--checks",
        ",".join(CHECKS),
    ]
    words += [word for path in LEFT_OUT for word in ("--exclude-path", path)]
    words += ["--generation-deterministic", "--request-timeout", "10", "--workers", "1", "--no-color", *options]
    words += ["--suppress-health-check", "all"]  # patterns that few texts match are no fault of the server
    return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)


def test_a_few_requests_of_every_kind(frugal, tmp_path):
    ran = asked(frugal, tmp_path, "--phases", "fuzzing", "--max-examples", "1")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


@pytest.mark.slow
def test_many_requests_of_every_kind(frugal, tmp_path):
    ran = asked(frugal, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", "50")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


def test_the_document_names_every_route(frugal):
    document = frugal.http.get("/openapi.json").json()
    wanted = {"/v1/images/generations", "/v1/images/edits", "/v1/images/variations", "/v1/models", "/sdapi/v1/txt2img",
              "/sdapi/v1/img2img", "/controlnet/detect", "/api/jobs", "/api/events", "/health", "/metrics"}  # fmt: skip
    assert wanted <= set(document["paths"])
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            assert {"400", "401", "403", "429"} <= set(told["responses"]), (method, path)

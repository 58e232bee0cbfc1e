"""Two traces that are sent in, compared, and the report of it."""

import numpy as np
from safetensors.numpy import save


def trace(scale=1.0):
    values = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    return save({"000001|-|model.first|out": values, "000002|-|model.second|out": values * scale})


def test_a_difference_is_found_and_its_report_can_reach_nothing(live):
    kept = [live.http.post("/api/traces", content=trace(scale)).json()["trace"] for scale in (1.0, 1.5)]
    report = live.http.post("/api/reports", json={"reference": kept[0], "candidate": kept[1]}).json()
    assert report["exit_code"] >= 10, report
    assert "second" in str(report["answer"])
    page = live.http.get(report["url"])
    assert page.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'")
    assert "model.second" in page.text
    assert str(live.data) not in f"{report} {page.text}", "no path of the server's"
    assert live.http.get("/api/reports").json()["reports"][0]["id"] == report["id"]


def test_what_is_no_trace_is_refused_and_not_kept(live):
    before = sorted((live.data / "traces").iterdir())
    assert live.http.post("/api/traces", content=b"\x80\x04K\x01.").status_code == 400
    assert sorted((live.data / "traces").iterdir()) == before
    missing = {"reference": "0" * 64 + ".safetensors", "candidate": "../x"}
    assert live.http.post("/api/reports", json=missing).status_code == 400

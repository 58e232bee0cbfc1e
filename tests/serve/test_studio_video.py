"""A video model in the studio: the player, an exact replay, and two videos side by side."""

import pytest

from pipelines import tiny_video

from .browser import Studio, browsing, needs_chromium
from .conftest import serving

pytestmark = needs_chromium
CLIP = {"num_inference_steps": 1, "height": 32, "width": 64, "num_frames": 5}


@pytest.fixture(scope="module")
def cinema(tmp_path_factory):
    folder = tiny_video.save_wan(tmp_path_factory.mktemp("wan"))
    with serving(tmp_path_factory.mktemp("cinema"), "--model", f"wan={folder}") as server:
        yield server


def test_a_video_is_played_replayed_exactly_and_compared(cinema, tmp_path):
    first, second = (cinema.made("a cat", model="wan", inputs=CLIP, seed=seed) for seed in (1, 2))
    facts = first["outputs"][0]["facts"]
    assert (facts["kind"], facts["width"], facts["height"]) == ("video", 64, 32)
    assert facts["fps"] > 0
    with browsing() as browser:
        tab = Studio(browser, cinema)
        tab.open(f"picture/{first['id']}/0")
        tab.locator("frame-player video").wait_for()
        tab.locator("frame-player video").evaluate(
            "video => video.readyState >= 2 || new Promise(done => { video.onloadeddata = done })"
        )
        box, tools = (tab.locator(f"frame-player {one}").bounding_box() for one in ("video", ".tools"))
        assert box["width"] / box["height"] == pytest.approx(2, rel=0.02), "it has the video's form"
        assert box["width"] >= 256
        assert tools["y"] >= box["y"] + box["height"], "the tools stand under it, whole"
        tab.locator("#replay").click()
        tab.get_by_text("Identical to the last pixel.").wait_for()
        tab.open(f"compare/{first['id']}/0/{second['id']}/0")
        tab.locator(".compare-board.beside frame-player video").nth(1).wait_for()
        assert tab.get_by_role("button", name="Slider").count() == 0
        tab.screenshot(path=tmp_path / "beside.png")
        tab.get_by_role("button", name="Difference").click()
        shown = tab.locator(".compare-board > img")
        assert shown.evaluate("async image => { await image.decode(); return image.naturalWidth }") == 64
        tab.end()


def test_a_seed_that_a_page_cannot_count_to_is_told(cinema):
    with browsing() as browser:
        tab = Studio(browser, cinema)
        tab.open()
        tab.get_by_label("Seed", exact=True).fill("9007199254740993")
        tab.get_by_text("The page takes seeds up to 9007199254740991").wait_for()
        assert tab.get_by_label("Seed", exact=True).input_value() == "9007199254740991"
        tab.end()

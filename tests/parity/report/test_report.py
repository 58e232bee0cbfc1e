"""The report's parts and renderings, on comparisons of real recordings."""

import json
import math
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
import zlib
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from lockstep import parity as px
from lockstep.parity import report as reports
from lockstep.parity.comparison.results import Cause, Comparison, Coverage, Verdict
from lockstep.parity.report import pictures, svg
from lockstep.parity.report.parts import number, strict


def write_trace(path, change=None, steps=3, missing=()):
    """A small loop written with numpy alone: two modules, latents and a picture."""
    generator = np.random.default_rng(0)
    with px.TraceWriter(
        path,
        {"side": path.stem, "modules": {"net": {"class": "Net", "attrs": {"eps": 1e-5 if change is None else 1e-3}}}},
    ) as writer:
        for index in range(steps):
            step = f"denoise:{index:02d}"
            for name, slot in (
                ("net.norm", "in.input"),
                ("net.norm", "out"),
                ("net.attn", "out"),
                ("@scheduler.step", "out"),
            ):
                values = generator.standard_normal((2, 16, 8)).astype(np.float32)
                if change is not None and (name, slot) in change:
                    values = change[name, slot](values, index)
                if f"{step}|{name}|{slot}" not in missing:
                    writer.put(step, name, slot, values, op={"net.norm": "LayerNorm"}.get(name, ""))
        picture = generator.random((1, 3, 16, 16)).astype(np.float32)
        writer.put("-", "@pipeline", "out", picture if change is None else np.clip(picture + 0.01, 0, 1))
    return path


@pytest.fixture(scope="module")
def same(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    return px.compare(write_trace(folder / "ref.trace"), write_trace(folder / "cand.trace"))


@pytest.fixture(scope="module")
def different(tmp_path_factory):
    folder = tmp_path_factory.mktemp("different")

    def one_channel(values, index):
        values = values.copy()
        values[..., 3] += 0.5
        return values

    change = {(name, "out"): one_channel for name in ("net.norm", "net.attn", "@scheduler.step")}
    result = px.compare(
        write_trace(folder / "ref.trace"),
        write_trace(folder / "cand.trace", change, missing=("denoise:02|net.attn|out",)),
    )
    result.causes = [
        Cause("norm_eps", "`net.norm.eps` is <other>", str(result.first.key), 0.2, 1e-7, 1e-7, fix="set it to 1e-5")
    ]
    return result


def terminal(comparison, width=120):
    console = Console(width=width, no_color=True, force_terminal=False)
    with console.capture() as capture:
        console.print(reports.to_terminal(reports.build(comparison)), highlight=False)
    return capture.get()


def test_a_pass_has_no_command_and_no_first(same):
    report = reports.build(same)
    assert report.verdict == "PASS"
    assert (report.command, report.first) == ("", None)
    assert all(cell in (None, 0.0) for row in report.heat.cells for cell in row)
    assert dict(report.facts)["coverage"] == "100.0%"


def test_a_bug_names_the_node_and_one_command_for_it(different):
    report = reports.build(different)
    assert report.verdict == "BUG"
    assert report.first.key == "denoise:00|net.norm|out"
    words = report.command.split()
    assert words[:3] == ["lockstep", "parity", "zoom"]
    assert words[-1] == "'denoise:00|net.norm|out'"
    assert ("denoise:00|net.norm|in.input", "identical") in report.first.inputs


def test_energy_is_where_the_fault_is(different):
    axes = {axis.name: axis for axis in reports.build(different).first.axes}
    assert axes["channel"].top_index == 3
    assert axes["channel"].concentration > 7
    assert axes["token"].concentration < 1.5
    assert math.isclose(sum(axes["channel"].share), 1, rel_tol=1e-6)


def test_heat_has_a_column_per_step_and_says_where(different):
    heat = reports.build(different).heat
    assert heat.steps == ["denoise:00", "denoise:01", "denoise:02", "-"]
    assert heat.cells[heat.rows.index("net.norm")][0] > 1
    assert heat.cells[heat.rows.index("net.attn")][2] is None, "what was not compared has no colour"


def test_rows_are_grouped_until_they_fit():
    from lockstep.parity.report.parts import MAX_ROWS, _row, _row_depth

    paths = [f"unet.down.{i}.resnets.{k}.conv" for i in range(30) for k in range(4)]
    depth = _row_depth(paths)
    assert depth == 4
    assert len({_row(p, depth) for p in paths}) <= MAX_ROWS
    assert len({_row(p, depth + 1) for p in paths}) > MAX_ROWS


def test_the_loop_is_followed_with_its_gain(different):
    loop = reports.build(different).loop
    assert [part.step for part in loop] == ["denoise:00", "denoise:01", "denoise:02"]
    assert loop[1].gain == pytest.approx(loop[1].error / loop[0].error)


def test_terminal_says_everything_that_matters(different):
    text = " ".join(terminal(different).split())
    for wanted in (
        "BUG",
        "net.norm",
        "norm_eps",
        "0.2 → 1.0e-07",
        "to repair: set it to 1e-5",
        "Coverage",
        "not compared: denoise:02|net.attn|out",
    ):
        assert wanted in text, wanted


def test_json_is_strict_and_complete(different):
    data = json.loads(json.dumps(reports.to_json(different), allow_nan=False))
    assert data["schema"] == "pcompare/1"
    assert data["first"]["key"] == "denoise:00|net.norm|out"
    assert data["command"].startswith("lockstep parity zoom")
    assert data["coverage"]["missing"] == ["denoise:02|net.attn|out"]
    assert strict({"a": [math.inf, math.nan, 1.0]}) == {"a": ["inf", "nan", 1.0]}


def test_junit_fails_where_the_values_are_over(different, same):
    suite = ElementTree.fromstring(reports.to_junit(reports.build(different)))[0]
    failed = [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed[:2] == ["verdict", "net.norm"]
    assert int(suite.get("failures")) == len(failed)
    properties = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert (properties["verdict"], properties["cause"]) == ("BUG", "norm_eps")
    assert ElementTree.fromstring(reports.to_junit(reports.build(same)))[0].get("failures") == "0"


def test_junit_survives_control_characters():
    result = Comparison(Verdict.INVALID, [], Coverage(0, 0), reasons=["bad \x00 name \x1b"])
    assert ElementTree.fromstring(reports.to_junit(reports.build(result)))[0].get("failures") == "1"


class Tags(HTMLParser):
    VOID = {"meta", "link", "img", "input", "wbr", "br", "line", "rect", "circle", "polyline", "polygon"}

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.seen = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_is_whole_and_stands_alone(different, tmp_path):
    page = reports.to_html(reports.build(different))
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.sources
    assert all(source.startswith("data:") for source in tags.sources)
    assert not re.search(r"https?://", page)
    assert "&lt;other&gt;" in page
    assert "<other>" not in page
    assert (
        page.index("First difference: ")
        < page.index("Error against depth")
        < page.index("Step × node")
        < page.index("Where its energy lies")
    )
    assert page.index("Pictures") < page.index("Effective settings") < page.index("Coverage")
    path = reports.write_html(different, tmp_path / "deep" / "report.html")
    assert path.read_text(encoding="utf-8") == page
    assert [f.name for f in path.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_renders(verdict):
    result = Comparison(verdict, [], Coverage(0, 0), reasons=["a reason", "another"])
    assert verdict.value in terminal(result)
    assert verdict.value in reports.to_html(reports.build(result))


def test_a_report_outlives_its_traces(different, tmp_path):
    gone = Comparison(different.verdict, different.nodes, different.coverage, different.first)
    gone.reference_path = str(tmp_path / "gone.trace")
    assert reports.build(gone).pictures == []


def test_comparison_writes_its_own_page(same, tmp_path):
    assert "PASS" in same.html(tmp_path / "r.html").read_text(encoding="utf-8")


def decode(image):
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", image[16:24])
    begin = image.index(b"IDAT") + 4
    size = struct.unpack(">I", image[begin - 8 : begin - 4])[0]
    rows = np.frombuffer(zlib.decompress(image[begin : begin + size]), np.uint8).reshape(height, 1 + 3 * width)
    return rows[:, 1:].reshape(height, width, 3)


def test_png_holds_the_picture():
    picture = np.random.default_rng(0).random((9, 13, 3))
    assert np.array_equal(decode(pictures.png(picture)), (picture * 255 + 0.5).astype(np.uint8))


@pytest.mark.parametrize(
    ("shape", "videos", "frames"),
    [((16, 16, 3), 1, 1), ((3, 16, 16), 1, 1), ((2, 3, 16, 16), 2, 1), ((2, 16, 16, 3), 2, 1),
        ((1, 3, 5, 16, 16), 1, 5),
     ((1, 5, 3, 16, 16), 1, 5), ((1, 5, 16, 16, 3), 1, 5), ((2, 4, 16, 16), 0, 0), ((2, 77, 768), 0, 0),
     ((1, 3, 4, 4), 0, 0)],
)  # fmt: skip
def test_layouts_of_pictures_are_told_apart(shape, videos, frames):
    made = pictures.as_frames(np.random.default_rng(0).random(shape))
    assert len(made) == videos
    assert all(video.shape == (frames, 16, 16, 3) for video in made)


def test_ranges_follow_the_reference():
    signed = np.broadcast_to(np.linspace(-1, 1, 8)[:, None, None], (8, 8, 3))
    assert pictures.as_frames(signed)[0].min() == 0
    candidate = np.full((8, 8, 3), 0.5)
    assert pictures.as_frames(candidate, like=signed)[0].max() == pytest.approx(0.75)
    assert pictures.as_frames(np.full((8, 8, 3), 255, np.uint8))[0].max() == 1


@pytest.mark.parametrize(
    ("largest", "factor"), [(0.0, 1), (1.0, 1), (0.6, 1), (0.5, 2), (0.01, 100), (0.004, 200), (1 / 255, 200)]
)
def test_differences_are_amplified_into_the_scale(largest, factor):
    assert pictures.amplification(largest) == factor
    assert factor * largest <= 1


def test_the_picture_of_a_pipeline_is_found(different):
    (picture,) = reports.build(different).pictures
    assert picture.key == "-|@pipeline|out"
    frame = picture.frames[0]
    assert frame.largest == pytest.approx(0.01, abs=1e-6)
    assert frame.psnr == pytest.approx(40, abs=1)
    assert decode(frame.difference).max() > 200


def test_a_video_has_a_strip(tmp_path):
    video = np.random.default_rng(0).random((1, 3, 20, 16, 16)).astype(np.float32)
    (picture,) = pictures.pair_pictures("-|@pipeline|out", video, video)
    assert picture.is_video
    assert [frame.label for frame in picture.frames][:2] == ["frame 0", "frame 3"]
    assert len(picture.frames) == pictures.MAX_FRAMES
    from lockstep.parity.report.html import _picture

    assert _picture(picture).count("<img") == 3 * pictures.MAX_FRAMES


def test_long_curves_keep_their_worst(different):
    from dataclasses import replace

    point = reports.build(different).curve[0]
    points = [replace(point, ratio=0.0, key=str(i)) for i in range(9000)]
    points[4321] = replace(point, ratio=50.0, key="worst")
    kept = svg.thinned(points)
    assert len(kept) <= svg.MAX_POINTS
    assert "worst" in {p.key for p in kept}


def test_numbers_for_a_person():
    assert [number(v) for v in (None, 0.0, math.inf, 0.0123456, 1.5e-7, 12345678.0)] == [
        "-",
        "0",
        "∞",
        "0.0123",
        "1.5e-07",
        "1.2e+07",
    ]


# In a real browser: it draws, its script runs, and it asks the network for nothing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def browse(page, tmp_path, *more):
    """Standard output and the console's lines."""
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}", *more, page.as_uri(),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result.stdout, [line for line in result.stderr.splitlines() if "CONSOLE" in line]


@needs_chromium
def test_the_page_draws_without_a_console_message(different, tmp_path):
    page = reports.write_html(different, tmp_path / "report.html")
    probe = (
        "<script>document.title = [document.querySelectorAll('svg circle').length, "
        "document.querySelectorAll('.cell').length,"
        "[...document.images].every((image) => image.naturalWidth > 0), document.documentElement.scrollWidth <= "
        "innerWidth].join()</script>"
    )
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{probe}</body>"), encoding="utf-8")
    dom, console = browse(page, tmp_path, "--dump-dom", "--window-size=1240,900")
    assert console == []
    circles, cells, images, fits = dom.partition("<title>")[2].partition("<")[0].split(",")
    assert int(circles) >= 9
    assert int(cells) >= 8
    assert (images, fits) == ("true", "true")


@needs_chromium
def test_the_first_sentence_is_on_the_first_screen_and_the_filter_works(different, tmp_path):
    page = reports.write_html(different, tmp_path / "report.html")
    probe = """<script>{
      const rows = [...document.querySelectorAll("table.values tbody tr")];
      const shown = () => rows.filter((row) => !row.hidden).length, before = shown();
      const sentence = document.querySelector("main p, main h1"), bottom = sentence.getBoundingClientRect().bottom;
      const filter = document.getElementById("filter");
      filter.value = "net.norm|out";
      filter.dispatchEvent(new Event("input"));
      const seen = {text: sentence.textContent, bottom, height: innerHeight, before, after: shown()};
      document.title = JSON.stringify(seen);
    }</script>"""
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{probe}</body>"), encoding="utf-8")
    dom, console = browse(page, tmp_path, "--dump-dom", "--window-size=1240,900")
    assert console == []
    seen = json.loads(unescape(dom.partition("<title>")[2].partition("</title>")[0]))
    assert 0 < seen["bottom"] < seen["height"]
    assert "net.norm" in seen["text"]
    assert 0 < seen["after"] < seen["before"]


@needs_chromium
def test_a_screenshot_shows_the_page(different, tmp_path):
    page = reports.write_html(different, tmp_path / "report.html")
    browse(page, tmp_path, f"--screenshot={tmp_path / 'page.png'}", "--window-size=1240,1600")
    with Image.open(tmp_path / "page.png") as picture:
        colours = picture.convert("RGB").getcolors(2**24)
    assert picture.size == (1240, 1600)
    assert len(colours) > 100
    assert max(count for count, _ in colours) < 0.97 * 1240 * 1600


@needs_chromium
def test_a_broken_script_would_be_seen(tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<!doctype html><title>x</title><script>nothing.here()</script>", encoding="utf-8")
    assert browse(page, tmp_path, "--dump-dom")[1]

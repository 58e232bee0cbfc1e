"""The studio in a real browser, against a real server: what people do there, and that it complains of nothing."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from .browser import Studio, browsing, needs_chromium
from .conftest import serving
from .test_proofs import trace

pytestmark = needs_chromium
VIEWS = ("make", "gallery", "blocks", "compare", "explore", "proofs")


@pytest.fixture(scope="module")
def browser():
    with browsing() as opened:
        yield opened


@pytest.fixture
def studio(browser, live):
    tab = Studio(browser, live)
    yield tab
    tab.end()


@pytest.fixture(scope="module")
def hearts(live):
    """Two recorded runs that differ in one word."""
    return [live.made(f"a {colour} heart", seed=3, trace=True) for colour in ("red", "blue")]


def make(studio, prompt, **fields):
    """Fill in the form, and press Make by its key."""
    studio.get_by_label("Prompt", exact=True).fill(prompt)
    for label, value in fields.items():
        studio.get_by_label(label.capitalize(), exact=True).fill(str(value))
    studio.keyboard.press("Control+Enter")


def test_a_prompt_is_written_and_its_previews_arrive_before_the_picture(studio):
    studio.open()
    make(studio, "a red heart", steps=16, seed=11)
    studio.locator(".frame.running[data-previews]").wait_for()
    assert studio.locator(".frame img").get_attribute("src").startswith("blob:")
    studio.get_by_text(re.compile(r"Step \d+ of 16")).wait_for()
    studio.locator(".frame.done img").wait_for()
    job = studio.newest()
    assert (job["request"]["inputs"]["prompt"], job["request"]["seed"], job["request"]["steps"]) == (
        "a red heart",
        11,
        16,
    )
    assert studio.locator(".frame img").get_attribute("src") == job["outputs"][0]["url"]
    shifts = "new Promise(done => new PerformanceObserver(l => done(l.getEntries().reduce((s, e) => s + e.value, 0)))"
    moved = studio.evaluate(f"Promise.race([{shifts}.observe({{type: 'layout-shift', buffered: true}})), "
                            "new Promise(done => setTimeout(() => done(0), 300))])")  # fmt: skip
    assert moved < 0.05, "nothing moves when a picture comes"
    studio.reload()
    studio.locator(".frame.done img").wait_for()
    assert studio.get_by_label("Prompt", exact=True).input_value() == "a red heart", "a reload shows the same page"


def test_a_run_is_cancelled_and_the_page_says_so(studio):
    studio.open()
    make(studio, "a cat", steps=200)
    studio.locator(".frame.running").wait_for()
    studio.locator("studio-queue .queue-row").first.wait_for()
    studio.locator("#cancel").click()
    studio.get_by_text("Cancelled").wait_for()
    assert studio.newest()["state"] == "cancelled"
    studio.get_by_text("Nothing is waiting.").wait_for()


def test_two_tabs_share_one_stream_and_the_second_takes_over(studio, live):
    streams = []
    studio.context.on("request", lambda request: "/api/events" in request.url and streams.append(request.url))

    def sees(page, prompt):
        job = live.made(prompt, seed=1)
        page.locator(f".strip a[href='#/make/{job['id']}']").wait_for()

    studio.open()
    second = studio.context.new_page()
    second.goto(f"{live.url}/#/make")
    second.get_by_text("Ready").wait_for()
    sees(second, "a tab")
    assert len(streams) == 1
    studio.page.close()
    sees(second, "another tab")
    assert len(streams) == 2


def test_what_the_server_refuses_stands_beside_the_button(studio):
    studio.open()
    make(studio, "")
    studio.get_by_role("alert").filter(has_text="'prompt' is wanted").wait_for()
    refusals = [said for said in studio.complaints if "status of 400" in said]
    assert len(refusals) == 1, "Chromium notes the answer"
    studio.complaints.remove(refusals[0])


def test_a_prompt_never_becomes_markup(studio, live):
    hostile = "<img src=x onerror=alert(1)><b>bold</b>"
    job = live.made(hostile, seed=1)
    for view in (f"make/{job['id']}", f"picture/{job['id']}/0", "gallery", f"blocks/{job['id']}", "compare"):
        studio.open(view)
        studio.locator("#view").get_by_text(hostile, exact=False).first.wait_for(state="attached")
    assert studio.locator("#view b", has_text="bold").count() == 0
    live.http.delete(f"/api/jobs/{job['id']}")


def test_the_controls_are_those_of_the_schema(studio, live):
    studio.open()
    studio.get_by_text("More of StableDiffusion").click()
    schema = live.http.get("/api/schema").json()
    for name in ("clip_skip", "guidance_rescale", "long_prompts", "foretell"):
        assert name in schema["inputs"]
        assert studio.locator(f"[data-name={name}] :is(input, select)").first.is_visible(), name
    studio.get_by_label("Sampler").select_option("dpm++_2m")
    studio.get_by_label("Noise levels").select_option("karras")
    studio.get_by_label("Guider").select_option("AdaptiveProjectedGuidance")
    studio.get_by_text("Guider settings").click()
    studio.locator("[data-name=eta]").first.wait_for()
    studio.get_by_role("button", name="16:9").click()
    before = studio.newest()["seq"]
    make(studio, "a dog", steps=4)
    request = studio.made_after(before)["request"]
    assert request["scheduler"]["class"] == "DPMSolverMultistepScheduler"
    assert request["scheduler"]["settings"]["use_karras_sigmas"] is True
    assert request["guider"]["class"] == "AdaptiveProjectedGuidance"
    assert request["width"] > request["height"]


def test_a_mask_is_painted_undone_and_used(studio, live):
    job = live.made("a red heart", seed=3)
    studio.open(f"picture/{job['id']}/0")
    studio.get_by_role("button", name="Paint on it").click()
    canvas = studio.locator("mask-painter canvas")
    canvas.scroll_into_view_if_needed()
    undo = studio.get_by_role("button", name="Undo the last stroke")
    assert undo.is_disabled()

    def stroke(*places):
        box = canvas.bounding_box()
        at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in places]
        studio.mouse.move(*at[0])
        studio.mouse.down()
        for place in at[1:]:
            studio.mouse.move(*place, steps=4)
        studio.mouse.up()

    stroke((0.25, 0.1), (0.25, 0.9))
    stroke((0.8, 0.1), (0.8, 0.9))
    undo.click()
    studio.get_by_role("button", name="Redo").click()
    undo.click()
    make(studio, "a blue heart", steps=4)
    painted = studio.made_after(job["seq"])
    made = painted["request"]
    mask = np.asarray(
        Image.open(io.BytesIO(live.http.get(f"/api/inputs/{made['inputs']['mask_image']['file']}").content))
    )
    assert set(np.unique(mask)) == {0, 255}
    assert (mask[64, 32, 0], mask[64, 102, 0]) == (255, 0), "the undone stroke is gone"
    studio.reload()
    assert studio.locator("mask-painter").get_by_role("button", name="Undo the last stroke").is_enabled(), (
        "strokes stay"
    )
    studio.open(f"picture/{painted['id']}/0")
    studio.get_by_role("button", name="Use all settings").click()
    studio.locator("mask-painter").wait_for()
    studio.keyboard.press("Control+Enter")
    again = studio.made_after(painted["seq"])["request"]
    assert again["inputs"]["mask_image"] == made["inputs"]["mask_image"], (
        "the mask of a job comes back with its settings"
    )


def test_a_picture_is_found_starred_and_replayed_exactly(studio, live):
    job = live.made("a turquoise umbrella", seed=6, deterministic=True)
    studio.open("gallery")
    studio.get_by_label("Search the prompts").fill("umbrella turquoise")
    studio.get_by_text("1 results", exact=True).wait_for()
    studio.locator(".gallery .tile").click()
    studio.get_by_text("Manifest").click()
    studio.get_by_text('"workflow": "text2image"').wait_for()
    studio.keyboard.press("Escape")
    studio.open(f"picture/{job['id']}/0")
    studio.get_by_role("button", name="Star").click()
    studio.locator("[aria-pressed=true]").wait_for()
    assert studio.json(f"/api/jobs/{job['id']}")["outputs"][0]["starred"]
    studio.get_by_role("button", name="Replay exactly").click()
    studio.get_by_text("Identical to the last pixel.").wait_for()
    studio.get_by_role("button", name="Use all settings").click()
    assert studio.get_by_label("Prompt", exact=True).input_value() == "a turquoise umbrella"


def test_what_is_deleted_can_be_called_back(studio, live):
    job = live.made("a striped sock", seed=1)
    studio.open(f"picture/{job['id']}/0")
    studio.get_by_role("button", name="Delete").click()
    studio.get_by_role("button", name="Undo").click()
    studio.get_by_label("Search the prompts").fill("striped sock")
    studio.get_by_text("1 results", exact=True).wait_for()
    assert live.http.get(f"/api/jobs/{job['id']}").status_code == 200


def test_two_runs_are_compared_by_pixels_by_steps_and_by_settings(studio, hearts):
    studio.open("compare/{}/0/{}/0".format(*(job["id"] for job in hearts)))
    slider = studio.get_by_label("How much of A is shown")
    slider.focus()
    before = studio.locator("compare-slider").evaluate("e => e.style.getPropertyValue('--at')")
    studio.keyboard.press("ArrowRight")
    assert studio.locator("compare-slider").evaluate("e => e.style.getPropertyValue('--at')") != before
    studio.get_by_text(re.compile(r"% of the values differ; largest \d+ of 255")).wait_for()
    studio.get_by_role("button", name="Difference").click()
    studio.get_by_label("Amplified").select_option("64")
    shown = studio.get_by_alt_text("The difference, 64 times as large")
    assert shown.evaluate("e => e.decode().then(() => e.naturalWidth)") == 128
    studio.locator("step-curve circle").first.wait_for()
    assert studio.locator("step-curve circle").count() == 8, "noise_pred and latents at 4 steps"
    assert studio.get_by_role("row", name="prompt a red heart a blue heart").is_visible()


def test_a_run_stops_at_a_block_a_value_is_changed_and_it_goes_on(studio, live, hearts):
    whole = hearts[0]
    studio.open(f"blocks/{whole['id']}")
    studio.locator("[data-path='denoise.step']").click()
    studio.get_by_label("Step", exact=True).fill("1")
    studio.locator("value-map canvas").first.wait_for()
    studio.get_by_role("heading", name="denoise.001.step").wait_for()
    studio.get_by_role("button", name="Run again, stop here").click()
    studio.get_by_role("heading", name="Stopped at denoise.001.step").wait_for()
    studio.get_by_role("button", name="One block").click()
    studio.get_by_role("heading", name="Stopped at denoise.002.scale").wait_for()
    studio.locator("[data-edit=latents]").select_option("multiply")
    studio.locator("[data-edit='latents.amount']").fill("0.5")
    studio.get_by_role("button", name="Go on").click()
    studio.get_by_text("changed latents at denoise.002.scale").wait_for()
    studio.locator(".block-picture img").wait_for()
    job = live.wait(studio.newest())
    assert job["request"]["edits"] == [{"at": "denoise.002.scale", "values": {"latents": {"multiply": 0.5}}}]
    manifest = live.http.get(f"{job['outputs'][0]['url']}/manifest").json()
    assert manifest["changed_by"] == ["edit of latents at denoise.002.scale"]
    places = {"a": f"{whole['id']}/0", "b": f"{job['id']}/0"}
    assert not live.http.get("/api/compare", params=places).json()["identical"]


def test_the_blocks_of_a_run_light_up_with_their_values_while_it_runs(studio, live):
    job = live.make("a cat", inputs={"num_inference_steps": 40})
    studio.open(f"blocks/{job['id']}")
    studio.locator(".block.runs").first.wait_for()
    studio.locator("[data-path='denoise.step'] .value-chip", has_text="[1, 4, 16, 16]").wait_for()
    live.http.post(f"/api/jobs/{job['id']}/cancel")
    live.wait(job)


def test_every_view_says_what_to_do_where_there_is_nothing_yet(browser, frugal):
    """On a server that refuses everything, so that nothing is ever made."""
    said = {
        "make": "Nothing made yet",
        "gallery": "The gallery is empty",
        "blocks": "Choose a block",
        "compare": "There is nothing to compare yet",
        "explore": "One setting against another",
        "proofs": "No report yet",
    }
    tab = Studio(browser, frugal)
    for view, words in said.items():
        tab.open(view).get_by_text(words, exact=True).wait_for()
    tab.end()


def test_a_grid_and_a_walk_are_made(studio):
    studio.open("explore")
    studio.get_by_label("Prompt", exact=True).fill("a cat")
    studio.get_by_label("Values").fill("2, 3")
    studio.get_by_label("Rows").select_option("prompt")
    studio.get_by_label("Values").nth(1).fill("cat, dog")
    studio.get_by_role("button", name="Make all").click()
    studio.locator(".grid-table .tile").nth(3).wait_for()
    assert studio.locator(".grid-table th").all_inner_texts() == ["Steps 2", "Steps 3", "cat", "dog"]
    made = studio.json("/api/jobs?limit=4")["jobs"]
    assert {(job["request"]["inputs"]["prompt"], job["request"]["steps"]) for job in made} == {
        (f"a {word}", steps) for word in ("cat", "dog") for steps in (2, 3)
    }
    assert len({job["request"]["seed"] for job in made}) == 1
    studio.get_by_role("button", name="Seed walk").click()
    studio.get_by_label("Pictures").fill("3")
    studio.get_by_role("button", name="Make all").click()
    studio.locator(".grid-table .tile").nth(2).wait_for()
    turns = [
        job["request"]["edits"][0]["values"]["latents"]["toward"]["amount"]
        for job in studio.json("/api/jobs?limit=3")["jobs"]
    ]
    assert sorted(turns) == [0, 0.5, 1]


def test_two_traces_are_sent_in_and_proven(studio, tmp_path):
    studio.open("proofs")
    for name, scale in (("Reference", 1.0), ("Candidate", 1.5)):
        (tmp_path / f"{name}.safetensors").write_bytes(trace(scale))
        studio.get_by_label(name).set_input_files(tmp_path / f"{name}.safetensors")
    studio.get_by_role("button", name="Compare the traces").click()
    studio.locator(".report-row", has_text="model.second").first.wait_for()
    with studio.context.expect_page() as opened:
        studio.get_by_role("link", name="Open the report").first.click()
    opened.value.wait_for_load_state()
    assert "model.second" in opened.value.content()


def test_it_can_be_used_without_a_mouse(studio, hearts):
    studio.open(f"picture/{hearts[0]['id']}/0")
    studio.get_by_role("button", name="Replay exactly").wait_for()
    studio.keyboard.press("c")
    studio.get_by_text("Choose what to compare it with").wait_for()
    studio.keyboard.press("g")
    studio.get_by_label("Search the prompts").wait_for()
    studio.keyboard.press("?")
    studio.get_by_role("dialog").get_by_text("Cancel what runs").wait_for()
    studio.keyboard.press("Escape")
    studio.get_by_role("dialog").wait_for(state="hidden")
    studio.keyboard.press("m")
    studio.get_by_label("Prompt", exact=True).wait_for()
    studio.locator("#help").evaluate(
        "dialog => { dialog.showModal(); dialog.close();"
        " document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'g', bubbles: true})) }"
    )  # a key that comes before the next frame, while the closed dialog still has the focus
    studio.get_by_label("Search the prompts").wait_for()
    studio.keyboard.press("m")
    studio.get_by_label("Prompt", exact=True).wait_for()
    studio.keyboard.press("/")
    studio.keyboard.type("m is a letter here")
    assert studio.get_by_label("Prompt", exact=True).input_value().endswith("m is a letter here")
    studio.keyboard.press("Tab")
    assert studio.evaluate("document.activeElement.id") == "negative"


def test_a_lora_and_a_controlnet_are_picked(browser, equipped, tmp_path):
    Image.new("RGB", (128, 128), "orange").save(tmp_path / "edges.png")
    tab = Studio(browser, equipped).open()
    before = tab.newest()["seq"]
    tab.get_by_role("switch", name="style").check()
    tab.get_by_label("Strength of style").fill("0.5")
    tab.get_by_role("button", name="Add a ControlNet").click()
    tab.get_by_label("Picture that steers").set_input_files(tmp_path / "edges.png")
    tab.get_by_alt_text("Picture that steers").wait_for()
    tab.get_by_label("Weight", exact=True).fill("0.8")
    make(tab, "a dog", steps=4)
    request = tab.made_after(before)["request"]
    assert request["loras"] == [{"name": "style", "strength": 0.5}]
    assert (request["controlnets"], request["inputs"]["controlnet_conditioning_scale"]) == (["edges"], 0.8)
    tab.end()


@pytest.mark.slow
def test_a_server_with_a_token_asks_for_it(browser, tmp_path):
    with serving(tmp_path, token="a token of many letters") as server:
        tab = Studio(browser, server)
        tab.goto(server.url)
        tab.get_by_label("Token").fill("not the token of this one")
        tab.get_by_role("button", name="Sign in").click()
        tab.get_by_text("That is not this server's token.").wait_for()
        tab.get_by_label("Token").fill("a token of many letters")
        tab.get_by_role("button", name="Sign in").click()
        tab.get_by_label("Prompt", exact=True).wait_for()
        tab.reload()
        tab.get_by_label("Prompt", exact=True).wait_for()
        other = Studio(browser, server)
        other.goto(f"{server.url}/#token=a%20token%20of%20many%20letters")
        other.get_by_label("Prompt", exact=True).wait_for()
        assert "token" not in other.url


def test_no_view_is_wider_than_a_phone(browser, live, hearts):
    tab = Studio(browser, live, width=320, height=640, has_touch=True)
    views = (*VIEWS, f"picture/{hearts[0]['id']}/0", "compare/{}/0/{}/0".format(*(job["id"] for job in hearts)))
    for view in views:
        tab.open(view)
        tab.wait_for_timeout(150)
        assert tab.width_too_many() <= 0, view
        assert tab.get_by_role("link", name="Make", exact=True).is_visible()
    tab.end()


def test_the_first_paint_comes_within_a_second(browser, live):
    times = []
    for _ in range(3):
        tab = Studio(browser, live)
        tab.open()
        times.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        tab.end()
    assert min(times) < 1000, times

"""Names, roles, contrast and landmarks of the studio, as axe-core sees them: every view, in both themes."""

import shutil
import subprocess

import pytest

from .browser import Studio, browsing, needs_chromium

pytestmark = needs_chromium
AXE = "axe-core@4.14.0"
RULES = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]
SEEN = "axe.run(document, {runOnly: RULES}).then(r => r.violations.map(v => [v.impact, v.id, v.nodes[0].html]))"


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The script of axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("axe-core cannot be fetched: no npm")
    done = subprocess.run([npm, "install", "--prefix", folder, "--no-audit", "--no-fund", AXE], capture_output=True)
    if done.returncode:
        pytest.skip("axe-core cannot be fetched: npm has no network")
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def test_axe_finds_nothing_in_any_view(live, axe):
    one, other = (live.made(f"a {colour} heart", seed=3, trace=True)["id"] for colour in ("red", "blue"))
    stopped = live.made(seed=3, stop_at="denoise.001.step")["id"]
    views = ("make", "gallery", f"picture/{one}/0", f"blocks/{one}", f"blocks/{stopped}", "explore", "proofs")
    found = []
    with browsing() as browser:
        for theme in ("light", "dark"):
            tab = Studio(browser, live, theme=theme, bypass_csp=True)  # the script is put in from outside
            for view in (*views, f"compare/{one}/0/{other}/0"):
                tab.open(view)
                tab.wait_for_timeout(250)
                tab.evaluate(axe)
                found += [(theme, view, *seen) for seen in tab.evaluate(SEEN.replace("RULES", str(RULES)))]
            tab.context.close()
    assert found == []

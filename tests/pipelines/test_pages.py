"""The snippets of the pages about LoRA and weights in prompts run as they stand."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", ["lora.md", "prompt-weights.md"])
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    exec("\n".join(snippets), {})
    if page == "lora.md":
        assert "style.safetensors: 2 of 2 tensors applied." in capsys.readouterr().out

"""`lockstep check`: a family as the kit writes it passes, and every rule finds a planted break at its line."""

import json
from pathlib import Path

import pytest

from kit.scaffold import edited, importable, install, written
from lockstep.cli.exit_codes import ExitCode
from lockstep.errors import NotFoundError
from lockstep.kit.checks import reading
from lockstep.kit.checks.checklist import check_family, rules
from lockstep.kit.checks.source import family_in
from lockstep.kit.new import write_new
from lockstep.kit.new.homes import house_from
from lockstep.kit.results import save_result

STAGES = {"encode": "PASS", "decode": "PASS", "denoise": "PASS"}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = written(tmp_path_factory.mktemp("checked") / "dusk-models", ("pipeline", "dusk"), ("scheduler", "tide"))
    save_result(family_in("dusk", home), "reference", "port", STAGES)
    return home


def findings(home, name="dusk", run=False):
    return [one for of_rule in check_family(family_in(name, home), run).values() for one in of_rule]


def test_a_family_as_it_is_written_passes_whole(home, lockstep):
    with importable(home):
        code, out, _ = lockstep("check", "dusk", "--package", home.root)
    assert code == 0, out
    left_out = "schedulers and guiders pass their tests: not for a model and pipeline"
    assert (out.count("✓"), left_out in out) == (len(rules()) - 1, True)
    code, out, err = lockstep("check", "tide", "--package", home.root, "--no-run")
    assert code == 0, out
    assert "– attention is dispatched: not for a scheduler" in out
    assert out.count("✓") == 7
    assert "TideScheduler: found by name once the package is installed" in err


def test_a_scheduler_whose_step_is_wrong_fails_by_its_own_tests(home):
    """Its guider, which is right, is run by the same rule."""
    for kind in ("scheduler", "guider"):
        write_new(kind, "ebb", home)
    install(home)
    step = home.file("scheduler", "ebb")
    with edited(step, ("(there - here)", "(here - there)")):
        found = check_family(family_in("ebb", home))["schedulers and guiders pass their tests"]
    assert {one.path for one in found} == {home.file("scheduler_test", "ebb")}
    assert any("against_reference" in one.message for one in found)
    assert all(one.line > 1 for one in found)


SAMPLE = "        sample = self.sample(state, inputs, repeats)\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("state.prompt_embeds.mul_(2)", "writes state.prompt_embeds"),
        ("state.prompt_embeds[0] = 0", "writes state.prompt_embeds"),
        ("torch.add(state.prompt_embeds, 1, out=state.prompt_embeds)", "writes state.prompt_embeds"),
        ('setattr(self, "seen", 1)', "changes `self.seen`"),
        ("object.__setattr__(self, name, 1)", "changes `self.…`"),
    ],
)
def test_what_a_block_changes_without_an_assignment_is_seen(home, line, told):
    from lockstep.kit.checks import running

    with edited(home.file("denoise", "dusk"), (SAMPLE, f"        {line}\n{SAMPLE}")):
        family = family_in("dusk", home)
        found = list(reading.nothing_is_left_to_the_next_run(family))
        with importable(home):
            found += running.blocks_read_what_they_declare(family)
    assert told in "\n".join(one.message for one in found)


BREAKS = {  # rule -> the file, the text that breaks it, and what the finding says
    "layer calls are visible in forward": (
        "model",
        (
            ("        mixed = self.attn(self.norm1", "        mixed = self.helped(self.norm1"),
            ("    def forward(self, hidden_states: Tensor, temb_BD", "    def helped(self, x, rotary):\n        return self.attn(x, rotary)\n\n    def forward(self, hidden_states: Tensor, temb_BD"),
        ),
        "helped calls the layer 'attn'",
    ),
    "forward is torch alone": (
        "model", (("        tokens = torch.cat([text, picture], dim=1)\n", "        tokens = torch.cat([text, picture], dim=1)\n        np.abs(text.numpy())\n"),),
        "breaks the graph",
    ),
    "attention is dispatched": (
        "model", (("dispatch_attention_fn(\n", "F.scaled_dot_product_attention(\n"),), "does not call dispatch_attention_fn",
    ),
    "processors are declared": (
        "model", (("    _default_processor_cls = DuskAttnProcessor\n", ""),), "does not declare _default_processor_cls",
    ),
    "draws follow the generator": ("decoders", (("        return Vae", "        torch.randn(3)\n        return Vae"),), "global random"),
    "nothing is left to the next run": (
        "decoders", (("        return Vae", "        global LAST\n        return Vae"),), "changes `LAST`",
    ),
    "nothing lies in a temporary folder": ("reference", (("CONFIG = {", 'FOLDER = "/tmp/x"\nCONFIG = {'),), "restart"),
    "pipelines stand alone": (
        "pipeline", (("class DuskPipeline(PicturePipeline)", "class DuskPipeline(FluxPipeline)"),), "made from FluxPipeline",
    ),
    "names are registered": ("project", (("DuskPipeline = ", "DuskPipelin = "),), "DuskPipeline is no entry point"),
    "packages are imported lazily": ("family", (('"""Dusk: text to image."""\n', '"""Dusk: text to image."""\n\nimport torch\n'),), "import torch"),
    "models are tested by the mixins": ("test", (("    MemoryTesterMixin,\n    AttentionTesterMixin,\n    LoraTesterMixin,\n    TrainingTesterMixin,\n    TorchCompileTesterMixin,\n):", "    MemoryTesterMixin,\n):"),), "AttentionTesterMixin"),
    "there is a page": ("page", (("`DuskPipeline`", "It"), ("`DuskTransformer2DModel`", "it")), "no page names"),
    "the proof is fresh": ("denoise", (("        timestep = t", "        timestep = 1 * t"),), "stale"),
}  # fmt: skip


@pytest.mark.parametrize("rule", list(BREAKS))
def test_a_broken_rule_is_found_with_its_line_and_a_remedy(home, rule):
    part, changes, message = BREAKS[rule]
    path = home.root / "pyproject.toml" if part == "project" else home.file(part, "dusk")
    with edited(path, *changes):
        found = [one for one in findings(home) if one.rule == rule]
        assert found, f"{rule} was not found"
        assert any(message in one.message for one in found), found
        text = found[0].path.read_text().splitlines() if found[0].path.exists() else [""]
    assert 1 <= found[0].line <= len(text)
    assert all(one.remedy for one in found)
    assert findings(home) == []


HOUSE = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted(path.stem for path in (HOUSE / "parity").glob("*.json")))
def test_the_families_that_the_kit_brought_in_pass_by_their_files(name):
    """Among them: their proofs are those of the files as they are."""
    assert findings(house_from(HOUSE), name) == []


def test_attention_without_a_softmax_says_so_and_need_not_dispatch(home):
    other = ("dispatch_attention_fn(\n", "linear_attention(\n")
    said = (
        "class DuskAttnProcessor(ProcessorMixin):\n",
        "class DuskAttnProcessor(ProcessorMixin):\n    has_softmax = False\n",
    )
    for changes, count in (((other,), 1), ((other, said), 0)):
        with edited(home.file("model", "dusk"), *changes):
            found = [one for one in findings(home) if one.rule == "attention is dispatched"]
        assert len(found) == count, found


def test_a_missing_proof_and_one_that_did_not_pass_are_told(home):
    family, result = family_in("dusk", home), home.file("result", "dusk")
    before = result.read_text()
    try:
        save_result(family, "r.py:build", "p.py:build", {"encode": "BUG"})
        (found,) = findings(home)
        assert "did not pass: encode BUG" in found.message
        assert "lockstep parity stages r.py:build p.py:build --family dusk" in found.remedy
        result.unlink()
        (found,) = findings(home)
        assert "no saved result" in found.message
    finally:
        result.write_text(before)


@pytest.mark.parametrize(
    ("rule", "part", "change", "message"),
    [
        ("gradient checkpointing saves memory", "model", ("checkpointed(self, block, tokens, temb, rotary)", "block(tokens, temb, rotary)"), "gradient checkpointing"),
        ("the model is the reference's", "model", ("nn.LayerNorm(width, eps=norm_eps)", "nn.LayerNorm(width, eps=0.1)"), "relative L2"),
        ("LoRA finds its layers", "test", ('    """All that every model is asked for."""', '    lora_targets = ("no_such_layer",)'), "no_such_layer"),
    ],
)  # fmt: skip
def test_a_rule_that_only_a_run_tells(home, monkeypatch, rule, part, change, message):
    from lockstep.kit.checks import running

    monkeypatch.setattr(running, "BY_MIXIN", {rule: running.BY_MIXIN[rule]})
    with edited(home.file(part, "dusk"), change), importable(home):
        (found,) = running.mixins_pass(family_in("dusk", home))
    assert found.rule == rule
    assert message in found.message


def test_a_family_that_cannot_be_imported_is_a_finding_at_its_line(home):
    from lockstep.kit.checks import running

    with (
        edited(home.file("decoders", "dusk"), ("from torch import Tensor\n", "from torch import Tensr\n")),
        importable(home),
    ):
        (found,) = running.blocks_read_what_they_declare(family_in("dusk", home))
    assert found.path == home.file("decoders", "dusk")
    assert "Tensr" in found.message


def test_the_command_leaves_with_its_code_and_lists_findings_as_json(home, lockstep):
    with edited(home.file("page", "dusk"), ("`DuskPipeline`", "It"), ("`DuskTransformer2DModel`", "it")):
        code, out, _ = lockstep("check", "dusk", "--package", home.root, "--no-run", "--json")
    assert code == ExitCode.CHECK_FAILED
    assert {one["rule"] for one in json.loads(out)["findings"]} == {"there is a page"}


def test_what_is_not_there_is_told_with_where_it_was_looked_for(home):
    with pytest.raises(NotFoundError, match=r"transformer_dawn\.py"):
        family_in("dawn", home)


def test_start_values_and_folders_that_end_with_their_block_are_no_findings(home):
    family = family_in("dusk", home)
    layer = "        self.modulation = nn.Linear(width, 6 * width)\n"
    table = f"{layer}        self.table = nn.Parameter(torch.randn(3, width))\n"
    with edited(home.file("model", "dusk"), (layer, table)):
        assert not list(reading.draws_follow_the_generator(family_in("dusk", home)))
    folder = "with tempfile.TemporaryDirectory() as folder:\n    KEPT = folder\n"
    with edited(home.file("reference", "dusk"), ("CONFIG = {", f"{folder}CONFIG = {{")):
        assert not list(reading.nothing_lies_in_a_temporary_folder(family_in("dusk", home)))
    with edited(home.file("reference", "dusk"), ("CONFIG = {", "KEPT = tempfile.mkdtemp()\nCONFIG = {")):
        assert list(reading.nothing_lies_in_a_temporary_folder(family_in("dusk", home)))
    assert not list(reading.draws_follow_the_generator(family))


@pytest.mark.parametrize("name", ["z_image", "ltx_video"])
def test_families_of_the_house_keep_the_rules_that_their_files_tell(name):
    """All but the age of their proofs, which `lockstep check` tells."""
    house = house_from(Path(__file__).parent)
    found = check_family(family_in(name, house), run=False)
    assert [one for rule, of_rule in found.items() for one in of_rule if rule != "the proof is fresh"] == []

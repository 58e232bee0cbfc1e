"""Two and four gloo ranks against one process: attention, pipelines, weights, tiles, refusals; and ranks that die.

All of them are forked out of one process (`launch.py`): to import torch takes longer than any of the cases.
"""

import json
import re

import pytest

from lockstep import parity
from lockstep.parallel import watching
from lockstep.parity.trace.merging import merge
from parallel import dying, launch
from pipelines import tiny, tiny_flow, tiny_qwen_image, tiny_video, tiny_z_image

PER_ATTENTION, PER_PIPELINE = 1e-6, 1e-5
IN_TIME = dying.TIMEOUT + 2.0  # to say who it was; a dead rank is noticed after 2 s
TOKENS = [
    *["tokens_flux", "tokens_sd3", "tokens_wan", "tokens_wan_by_time", "tokens_z_image", "tokens_qwen_image"],
    "tokens_helios",
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranks")
    tiny.save_folder(place / "sd")
    tiny_flow.save_flux(place / "flux")
    tiny_flow.save_sd3(place / "sd3")
    tiny_video.save_wan(place / "wan")
    tiny_video.save_wan(place / "wan 5B", "5B")
    tiny_z_image.save_z_image(place / "z image")
    tiny_qwen_image.save_qwen_image(place / "qwen image")
    tiny_video.save_helios(place / "helios", {"stages": 1, "stage_range": [0, 1]}, {}, 0.25)
    return place


@pytest.fixture(scope="module")
def launched(folders):
    """Those that end badly first, all at once: most of the time they wait."""
    launch.launched(folders, [("parallel.dying", dying.GROUPS, True), ("parallel.cases", {"two": 2, "four": 4}, False)])
    return folders


@pytest.fixture(scope="module")
def two(launched):
    return launch.results(launched, "two", 2)


@pytest.fixture(scope="module")
def four(launched):
    return launch.results(launched, "four", 4)


@pytest.fixture(scope="module")
def last_words(launched):
    """Group -> exit code and standard error of each of its ranks."""
    return {group: launch.last_words(launched, group) for group in dying.GROUPS}


def checked(results, case):
    """What a case gave on every rank, if it raised on none."""
    for rank, found in enumerate(results[case]):
        assert "raised" not in found, f"rank {rank}: {found.get('raised')}"
    return results[case]


def assert_equal(results, case, tolerance, bitwise=()):
    """On every rank as close to one process as promised, and bitwise the same as on the other ranks."""
    by_rank = checked(results, case)
    for rank, found in enumerate(by_rank):
        for name, run in found.items():
            assert run["error"] <= tolerance, f"{case}, {name}, rank {rank}: relative L2 {run['error']:.3g}"
            assert run.get("alone again", True), f"{case}, {name}: disable_parallelism leaves something behind"
            assert run.get("sha256") == by_rank[0][name].get("sha256"), f"{case}, {name}: ranks differ"
            if bitwise == "all" or name in bitwise:
                assert run["bitwise"], f"{case}, {name}, rank {rank}: not bitwise, relative L2 {run['error']:.3g}"


def test_ulysses_attention_is_bitwise_that_of_one_process(two, four):
    assert_equal(two, "ulysses_attention", PER_ATTENTION, bitwise="all")
    assert_equal(four, "ulysses_attention_of_four", PER_ATTENTION, bitwise="all")


def test_ring_attention_is_that_of_one_process(two, four):
    assert_equal(two, "ring_attention", PER_ATTENTION)
    assert_equal(four, "ring_attention_of_four", PER_ATTENTION)


def test_a_ring_of_ulysses_groups_is_that_of_one_process(four):
    assert_equal(four, "ring_of_ulysses_attention", PER_ATTENTION)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("dropout", "no dropout"),
        ("gradient", "no gradient"),
        ("heads", "a head for each"),
        ("mask", "mask of the whole sequence"),
        ("backend", "log-sum-exp"),
    ],
)
def test_what_attention_cannot_do_over_ranks_is_refused(two, what, words):
    assert all(words in found[what]["message"] for found in checked(two, "attention_refusals"))


def test_branches_of_the_guidance_on_two_ranks_are_bitwise_those_one_by_one(two):
    assert_equal(two, "cfg_sd", PER_PIPELINE, ["one by one", "three branches", "some steps", "projected"])


def test_without_a_seed_the_ranks_use_one(two):
    first, second = checked(two, "cfg_without_a_seed")
    assert first == second
    assert first["parallel"] == {"cfg": 2}


@pytest.mark.parametrize("case", TOKENS)
def test_pipelines_whose_tokens_are_shared_out(two, case):
    assert_equal(two, case, PER_PIPELINE)


@pytest.mark.parametrize("case", ["wan_of_four", "flux_of_four", "sd_of_four", "weights_of_four", "bare_models"])
def test_pipelines_on_four_ranks(four, case):
    assert_equal(four, case, PER_PIPELINE, ["cfg"])


def test_weights_on_two_ranks(two):
    for found in checked(two, "weights"):
        assert found["fsdp"]["bitwise"]
        assert found["shares"] == pytest.approx([0.5] * 3, abs=0.05)
        assert found["hash"] == two["weights"][0]["hash"]
        assert len(found["hash"]) == 64
        assert "several ranks" in found["saved"]["message"]
        assert "Load the pipeline again" in found["ended"]["message"]


def test_weights_of_several_dtypes_on_two_ranks(two):
    for found in checked(two, "weights_of_several_dtypes"):
        assert found["dtypes"] == ["torch.bfloat16", "torch.float32"]
        assert found["fsdp"]["bitwise"]


def test_tiles_of_the_autoencoder_on_two_ranks_are_bitwise_those_of_one(two):
    assert_equal(two, "tiles", PER_PIPELINE, bitwise="all")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("config", "lost_after_s: 21.0, rank 0 has 20.0"),
        ("weights", "weights of unet"),
        ("prompt", "inputs 'prompt'"),
        ("seed", "seed: [1], rank 0 has [0]"),
        ("guider", "components 'guider'"),
        ("tensor", "inputs 'prompt_embeds'"),
        ("result", "latents"),
    ],
)
def test_ranks_that_differ_are_refused_by_name(two, what, words):
    first, second = (found[what] for found in checked(two, "disagreements"))
    assert first == second
    assert first["type"] == "RankError"
    assert "Rank 1" in first["message"]
    assert words in first["message"]


def test_after_refusals_the_ranks_go_on(two):
    assert all(found["after all of it"]["done"] for found in checked(two, "disagreements"))


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("unet", "UnsupportedError", "Use cfg=2"),
        ("product", "ConfigError", "makes 3 ranks, and 2 are running"),
        ("fsdp", "ConfigError", "1 or 2 here, got 3"),
        ("both", "InputError", "not both"),
        ("twice", "InputError", "already"),
        ("processor", "UnsupportedError", "_parallel_config"),
        ("blur", "InputError", "several ranks"),
        (
            "one branch",
            "InputError",
            "Ask for guidance (a guidance_scale above 1; true_cfg_scale and a negative_prompt",
        ),
    ],
)
def test_what_cannot_be_spread_is_refused_before_compute(two, what, kind, words):
    for found in checked(two, "refusals"):
        assert found[what]["type"] == kind
        assert words in found[what]["message"]
        assert found[what].get("guided", True)


def compared(folders, name, world, kind=None):
    """What `lockstep parity` says of one process and of the ranks' traces put together."""
    kind = kind or name
    whole = merge([folders / f"{kind}.rank{rank}.trace" for rank in range(world)], folders / f"{kind}.merged.trace")
    return parity.compare(folders / f"{name}.trace", whole)


def test_parity_compares_tokens_of_ranks_with_one_process(two, folders):
    checked(two, "traces")
    comparison = compared(folders, "flux", 2)
    assert comparison.verdict is parity.Verdict.PASS, comparison
    assert len(comparison.nodes) > 50


def test_parity_compares_branches_and_tokens_on_four_ranks(four, folders):
    checked(four, "traces_of_four")
    comparison = compared(folders, "wan", 4)
    assert comparison.verdict in (parity.Verdict.PASS, parity.Verdict.NOISE), comparison


def test_a_fault_of_the_ranks_is_found_in_its_block(two, folders):
    checked(two, "traces")
    comparison = compared(folders, "flux", 2, "another_bias")
    assert comparison.verdict is parity.Verdict.BUG
    assert comparison.first.key.path.startswith("transformer.single_transformer_blocks.0.attn")


def test_traces_that_are_not_all_of_one_run_are_refused(two, folders, tmp_path):
    first, second = (folders / f"flux.rank{rank}.trace" for rank in range(2))
    with pytest.raises(parity.InvalidTrace, match=r"2 ranks has a trace of each, got those of \[0\]"):
        merge([first], tmp_path / "one.trace")
    with pytest.raises(parity.InvalidTrace, match="another thing"):
        merge([first, folders / "another_bias.rank1.trace"], tmp_path / "one.trace")
    with pytest.raises(parity.InvalidTrace, match="says nothing of ranks"):
        merge([first, second, folders / "flux.trace"], tmp_path / "one.trace")


def test_a_rank_that_lives_and_does_not_come_is_named(two):
    told = checked(two, "a_rank_that_does_not_come")[0]["message"]
    assert "'what rank 1 leaves out'" in told
    assert "rank 1 (process" in told
    assert "lives, but is at exchange" in told


def test_the_commands_record_merge_and_compare(two, folders, lockstep):
    for found in checked(two, "commands"):
        assert set(found.values()) == {0}
    traces = [folders / f"cli.rank{rank}.trace" for rank in range(2)]
    code, out, _ = lockstep("parity", "merge", *traces, "-o", "ranks.trace", "--json")
    assert code == 0
    assert json.loads(out)["steps"] > 1
    assert lockstep("parity", "diff", folders / "cli.trace", "ranks.trace")[0] == 0


# ---- ranks that end badly ----


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_is_named_in_time(last_words, rank):
    told = last_words["killed"][rank][1]
    found = re.search(
        r"after ([\d.]+) s: Rank \d cannot go on with 'what never comes' \(exchange 2\): rank 2 (.*)", told
    )
    assert found, told
    assert float(found[1]) <= IN_TIME
    assert "taken for dead" in found[2]


def test_a_rank_that_raises_says_why_to_the_others(last_words):
    code, told = last_words["killed"][0]
    assert code != 0
    assert re.search(r"'what never comes either'.*rank 1 .*has left: ValueError: rank 1 has had enough", told), told


@pytest.mark.parametrize("rank", [1, 2])
def test_the_death_of_the_first_rank_in_the_middle_ends_the_others_with_its_name(last_words, rank):
    assert last_words["first_killed"][0][0] == -9
    code, told = last_words["first_killed"][rank]
    assert code not in (0, -9)
    assert re.search(r"cannot go on with 'turn \d+'.*rank 0.* (is gone|taken for dead)", told), told
    began, ended = (float(re.search(rf"{word} at ([\d.]+)", told)[1]) for word in ("began", "ended"))
    assert ended - began <= IN_TIME


def test_a_process_that_waits_for_a_frozen_rank_ends_itself(last_words):
    """With its own exit code, as nothing else can end an exchange whose other side is silent."""
    code, told = last_words["frozen"][0]
    assert code == watching.LOST == 70
    assert re.search(
        r"rank 0 waits in 'what never comes', but rank 1 \(process \d+ on \S+\) has said nothing for", told
    ), told


def test_a_rank_that_is_over_is_named_as_such(last_words):
    told = last_words["ended"][0][1]
    assert re.search(r"rank 1 \(process .*\) has left: its script is over\. Every rank makes the same calls", told), (
        told
    )

"""A rank that dies or raises ends the others in time, with its name."""

import re

import pytest

from parallel import launch

SECONDS = 10.0  # timeout_s of dying.py and some to say who it was; a dead rank is noticed after 2 s


@pytest.fixture(scope="module")
def last_words(tmp_path_factory):
    """Exit code and standard error of each of three ranks."""
    folder = tmp_path_factory.mktemp("dying")
    launch.launched(folder, "parallel.dying", [3], 90)
    return launch.last_words(folder, 3)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_is_killed_is_named_in_time(last_words, rank):
    told = last_words[rank][1]
    found = re.search(
        r"after ([\d.]+) s: Rank \d cannot go on with 'what never comes' \(exchange 2\): rank 2 (.*)", told
    )
    assert found, told
    assert float(found[1]) <= SECONDS
    assert "taken for dead" in found[2]


def test_a_rank_that_raises_says_why_to_the_others(last_words):
    code, told = last_words[0]
    assert code != 0
    assert re.search(r"'what never comes either'.*rank 1 .*has left: ValueError: rank 1 has had enough", told), told

"""What a rank says of the others, from what they last said of themselves."""

import json

import pytest

from lockstep.parallel.watching import Watch


class Store(dict):
    """A store that all ranks see, of one process."""

    def set(self, key, value):
        self[key] = value.encode()

    def check(self, keys):
        return all(key in self for key in keys)

    def get(self, key):
        return self[key]


def explained(exchanges, doing):
    """What rank 0 says when its exchange 7 times out, and rank 1 is somewhere."""
    store = Store()
    store.set(
        "rank1",
        json.dumps({"pid": 11, "host": "here", "beat": 1, "left": None, "exchanges": exchanges, "doing": doing}),
    )
    watch = Watch(store, 0, 2, 20.0)
    watch.exchanges, watch.doing = 7, "the first branch"
    said = str(watch.explained(RuntimeError("Timed out waiting 2000ms")))
    watch.leave("done")
    return said


@pytest.mark.parametrize(("exchanges", "doing"), [(6, "weights"), (7, "another call"), (9, "another call")])
def test_a_rank_that_is_at_another_exchange_is_named(exchanges, doing):
    assert f"rank 1 (process 11 on here) lives, but is at exchange {exchanges} ({doing!r})" in explained(
        exchanges, doing
    )


def test_ranks_at_the_same_exchange_are_not_blamed():
    assert "every rank lives; RuntimeError" in explained(7, "the first branch")

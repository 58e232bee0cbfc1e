"""Traces of ranks as one: shares, what is the same everywhere, branches, dtypes that numpy does not have."""

import numpy as np
import pytest

from lockstep.parity import InvalidTrace, Trace, TraceWriter, compare
from lockstep.parity.comparison.results import Verdict
from lockstep.parity.trace.container import decode
from lockstep.parity.trace.merging import encoded, merge

WHOLE = np.arange(2 * 7 * 3, dtype=np.float32).reshape(2, 7, 3)


def written(path, rank, values, world=2, **told):
    """A rank's trace of `path -> array`, each in its own call."""
    ranks = {"rank": rank, "world": world, "degrees": {}, "branch": 0, "token": rank, "denoisers": ["net"]}
    ranks |= {"streams": {"text": [2, 1], "picture": [2, 2]}, "orders": [["text", "picture"]], "branches": [], **told}
    with TraceWriter(path / f"{rank}.trace", {"ranks": ranks}) as writer:
        for name, array in values:
            writer.put("-", name, "out", array)
    return path / f"{rank}.trace"


def merged(path, *by_rank, **told):
    traces = [written(path, rank, values, **told) for rank, values in enumerate(by_rank)]
    return Trace.open(merge(traces, path / "whole.trace"))


def array(trace, name):
    return trace.array(trace.find(name)[0])


def test_streams_go_back_to_the_order_of_one_process(tmp_path):
    first = np.concatenate([WHOLE[:, :2], WHOLE[:, 3:5]], axis=1)
    second = np.concatenate([WHOLE[:, 2:3], WHOLE[:, 5:]], axis=1)
    trace = merged(tmp_path, [("net.a", first)], [("net.a", second)])
    assert np.array_equal(array(trace, "net.a"), WHOLE)


def test_what_is_the_same_on_all_ranks_stands_once(tmp_path):
    time = np.float32([[1, 2, 3, 4]])  # as long as a share of the sequence
    trace = merged(tmp_path, [("net.time", time)], [("net.time", time)])
    assert np.array_equal(array(trace, "net.time"), time)


def test_equal_shares_of_nothing_but_zeros_are_shares(tmp_path):
    zeros = np.zeros((2, 2, 3), np.float32)
    trace = merged(tmp_path, [("net.ids", zeros)], [("net.ids", zeros)], streams={"picture": [2, 2]}, orders=[])
    assert array(trace, "net.ids").shape == (2, 4, 3)


def test_branches_are_calls_and_repeats_are_left_out(tmp_path):
    """Three branches on two ranks: the second rank repeats the last one."""
    calls = [[("net", np.float32([k]))] for k in range(3)]
    by_rank = [[*calls[0], *calls[2]], [*calls[1], *calls[2]]]
    told = [{"branch": rank, "token": 0, "streams": {}, "orders": [], "branches": [3]} for rank in range(2)]
    traces = [written(tmp_path, rank, by_rank[rank], **told[rank]) for rank in range(2)]
    trace = Trace.open(merge(traces, tmp_path / "whole.trace"))
    assert [(entry.key.call, float(trace.array(entry)[0])) for entry in trace.entries] == [(0, 0.0), (1, 1.0), (2, 2.0)]


def test_values_that_differ_and_are_no_shares_are_refused(tmp_path):
    with pytest.raises(InvalidTrace, match="differs between ranks"):
        merged(tmp_path, [("net.a", np.float32([1]))], [("net.a", np.float32([2]))])


def test_a_value_that_a_rank_lacks_is_refused(tmp_path):
    with pytest.raises(InvalidTrace, match="rank 1 has no value"):
        merged(tmp_path, [("net.a", WHOLE), ("net.b", WHOLE)], [("net.a", WHOLE)])


def test_bf16_is_stored_as_it_was():
    values = np.float32([1.0, -2.5, 3.140625])
    assert np.array_equal(decode(np.frombuffer(encoded(values, "BF16"), np.uint16), "BF16"), values)
    with pytest.raises(InvalidTrace, match="F8_E4M3"):
        encoded(values, "F8_E4M3")


def test_one_rank_alone_is_compared_with_nothing_but_itself(tmp_path):
    alone = written(tmp_path, 0, [("net.a", WHOLE)])
    with TraceWriter(tmp_path / "one.trace", {}) as writer:
        writer.put("-", "net.a", "out", WHOLE)
    found = compare(tmp_path / "one.trace", alone)
    assert found.verdict is Verdict.INVALID
    assert "rank 0 of 2 alone; put the traces of all ranks together" in found.reasons[0]
    assert compare(alone, alone).verdict is Verdict.PASS

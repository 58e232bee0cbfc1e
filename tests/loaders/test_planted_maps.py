"""Every error that can be planted in a weight map turns the tests of its family red."""

from helpers import assert_benchmark_passes, slow


@slow
def test_every_planted_error_is_seen():
    assert_benchmark_passes("benchmarks.planted_maps", timeout=3600)

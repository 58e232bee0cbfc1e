"""Every wrong number that can be planted in the guiders turns these tests red."""

from helpers import assert_benchmark_passes, slow


@slow
def test_every_planted_error_is_seen():
    assert_benchmark_passes("benchmarks.planted_guiders", timeout=7200)

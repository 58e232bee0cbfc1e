"""Small things that many tests use."""

import pytest

from lockstep.kit.testing.closeness import assert_close, relative_l2

__all__ = ["assert_close", "relative_l2", "slow"]

slow = pytest.mark.slow

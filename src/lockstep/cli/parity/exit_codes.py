"""What the exit code of a parity command means; the codes of a verdict stand with `Verdict` itself."""

from __future__ import annotations

DIFFERENT = 1  # configs, weights or pictures that should agree do not
FAULT_MISSED = 1  # a planted fault was not found at its place
MEANING = (
    "Exit codes: 0 PASS or NOISE (10 NOISE with --strict); 1 BUG; 2 INVALID, or an input is wrong; "
    "3 INCONCLUSIVE or DRIFT."
)

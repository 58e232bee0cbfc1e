"""`python -m tools.quality` checks the house's own rules and lists what breaks them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import lockstep
from lockstep.kit.checks.finding import Finding

from . import imports, lengths, public_types

ROOT, HERE = Path(lockstep.__file__).parent, Path(__file__).parent


def undeclared_reads() -> list[Finding]:
    from . import blocks  # needs torch; the others do not

    return blocks.findings(blocks.all_blocks())


CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "imports point one way": lambda: imports.findings(ROOT),
    "no source is too long": lambda: lengths.findings([ROOT, HERE.parent, HERE.parents[1] / "benchmarks"]),
    "no public name is typed Any": lambda: public_types.findings(ROOT),
    "blocks read only what they declare": undeclared_reads,
}


def main() -> int:
    """Every check, every finding; 1 where there is one."""
    failed = False
    for name, check in CHECKS.items():
        found = check()
        failed |= bool(found)
        print(f"{name}: {len(found) or 'yes'}{' findings' if found else ''}")
        for finding in found:
            print(f"  {finding}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

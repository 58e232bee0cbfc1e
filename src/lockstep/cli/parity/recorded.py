"""What a command says of a trace that it has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..console import err, out, print_json


def tell_recorded(output: Path, stopped: str | None, json: bool) -> None:
    from ...parity import Trace

    trace = Trace.open(output)
    facts: dict[str, Any] = {
        "trace": str(output),
        "values": len(trace.entries),
        "parameters": len(trace.params),
        "steps": len(trace.steps),
        "bytes": sum(f.stat().st_size for f in output.iterdir()),
        "stopped_at": stopped,
    }
    if json:
        print_json(facts)
        return
    size = sum(f.stat().st_size for f in output.iterdir()) / 1e6
    out.print(
        f"[bold green]{output}[/]: {facts['values']} values, {facts['parameters']} parameters, {size:.1f} MB",
        highlight=False,
    )
    err.print(
        f"[dim]Next: lockstep parity floor {output}   ·   lockstep parity diff {output} OTHER.trace[/]", highlight=False
    )

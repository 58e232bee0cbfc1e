"""Numbers for Prometheus: a few counters and gauges, in its text form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
Sample = tuple[str, dict[str, str], float]


class Metrics:
    """What has been counted since the start."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.refused: Counter[str] = Counter()
        self.seconds: dict[str, list[int]] = {}
        self.totals: Counter[str] = Counter()

    def answered(self, face: str, status: int, seconds: float) -> None:
        self.requests[face, status] += 1
        buckets = self.seconds.setdefault(face, [0] * len(BUCKETS))
        for k, bound in enumerate(BUCKETS):
            buckets[k] += seconds <= bound
        self.totals[face] += seconds  # type: ignore[assignment]

    def text(self, gauges: Iterable[tuple[str, str, str, list[Sample]]]) -> str:
        """All of it; `gauges` are (name, kind, help, samples)."""
        requests = [
            ("", {"face": face, "status": str(status)}, float(many)) for (face, status), many in self.requests.items()
        ]
        families = [("lockstep_requests_total", "counter", "Answers by face and status.", requests), *gauges]
        families.append(
            ("lockstep_request_seconds", "histogram", "Time to the first byte of an answer.", self._histogram())
        )
        return "".join(_family(*family) for family in families)

    def _histogram(self) -> list[Sample]:
        samples: list[Sample] = []
        for face, buckets in self.seconds.items():
            many = float(sum(count for (known, _), count in self.requests.items() if known == face))
            samples += [
                ("_bucket", {"face": face, "le": f"{bound:g}"}, float(n))
                for bound, n in zip(BUCKETS, buckets, strict=True)
            ]
            samples.append(("_bucket", {"face": face, "le": "+Inf"}, many))
            samples += [("_sum", {"face": face}, float(self.totals[face])), ("_count", {"face": face}, many)]
        return samples


def _family(name: str, kind: str, told: str, samples: list[Sample]) -> str:
    lines = [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
    for suffix, labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{suffix}{{{inside}}} {value:g}" if inside else f"{name}{suffix} {value:g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""What a pipeline returns: its result by name, the manifest, and the state of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from .. import media
from ..errors import InputError
from ..outputs import Output
from .manifest import Manifest
from .state import PipelineState
from .vocabulary import media_of

if TYPE_CHECKING:
    from .run import RunOptions


@dataclass(frozen=True)
class Part:
    """One picture or video of an output, with all that it takes to write it."""

    kind: media.MediaKind
    item: Any
    describe: media.Describe
    options: Mapping[str, Any]

    def write(self, path: Path, **options: Any) -> Path:
        """Write it with its manifest inside; what the run says of the options can be overruled."""
        return self.kind.write(self.item, path, self.describe, **{**self.options, **options})

    def preview(self) -> Image.Image:
        """One picture that shows it."""
        return self.kind.preview(self.item)


class RunValues(dict[str, Any]):
    """All values of a run by name; called, as a dictionary's `values()` is, those of the result."""

    def __init__(self, output: PipelineOutput) -> None:
        super().__init__({**output.state.to_dict(), **dict(output.items())})
        self._result = output.to_tuple()

    def __call__(self) -> tuple[Any, ...]:
        return self._result


class PipelineOutput(Output):
    """`out.images`, `out["images"]` and `out[0]` are the same; `out.manifest` says what it was made from."""

    def __init__(
        self, values: Mapping[str, Any], manifest: Manifest, state: PipelineState, stopped_at: str | None
    ) -> None:
        self.manifest, self.state, self.stopped_at = manifest, state, stopped_at
        self._values = {name: self._carrying(name, value) for name, value in values.items()}

    def keys(self) -> list[str]:  # type: ignore[override]
        return [name for name, value in self._values.items() if value is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self._values[name] for name in self.keys())

    @property
    def values(self) -> RunValues:  # type: ignore[override]
        """`out.values["latents"]` is any value of the run, `out.values()` are those of the result."""
        return RunValues(self)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"This output has no {name!r}; it has: {', '.join(values) or 'nothing'}.")
        return values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the result or of the run, by name."""
        found = self._values.get(name)
        return self.state.get(name, default) if found is None else found

    def as_asked(self, options: RunOptions) -> Any:
        """The whole output, a tuple, or the values that `output=` names."""
        if isinstance(options.output, str):
            return self._value(options.output)
        if options.output is not None:
            return {name: self._value(name) for name in options.output}
        # a tuple is unpacked by position: what there is none of keeps its place
        return self if options.return_dict else tuple(self._values.values())

    def _value(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._carrying(name, self.state.get(name))

    def _carrying(self, name: str, value: Any) -> Any:
        """The value; pictures keep their manifest when they are saved by their own means."""
        kind = media_of(name)
        return value if kind is None else media.kind_named(kind).carrying(value, partial(self._describe, kind))

    def _describe(self, kind: str, index: int) -> media.Describe:
        return partial(_record, self.manifest, media.kind_named(kind).place, index)

    def parts(self) -> list[Part]:
        """The pictures or videos, each as what goes into one file."""
        found = [(media_of(name), self._values[name]) for name in self.keys()]
        name, value = next(((kind, value) for kind, value in found if kind is not None), (None, None))
        if name is None:
            raise InputError(f"There is nothing to save in this output; it has: {', '.join(self.keys()) or 'nothing'}.")
        kind = media.kind_named(name)
        options = kind.options_of(self.state.to_dict())
        return [Part(kind, item, self._describe(name, index), options) for index, item in enumerate(kind.items(value))]

    def save(self, path: str | Path, **options: Any) -> list[Path]:
        """Write pictures or videos with their manifests: `cat.png`, or `cat-0.png`, `cat-1.png` … for several.

        The suffix chooses the format (`lockstep.media`); a video takes `fps=`.
        """
        parts = self.parts()
        targets = [part.kind.target_for(Path(path), index, len(parts)) for index, part in enumerate(parts)]
        return [part.write(target, **options) for part, target in zip(parts, targets, strict=True)]

    def __repr__(self) -> str:
        stopped = [f"stopped at {self.stopped_at!r}"] if self.stopped_at else []
        return f"PipelineOutput({', '.join([*self.keys(), *stopped])})"


def _record(manifest: Manifest, place: str, index: int, folder: Path) -> dict[str, Any]:
    """The manifest of one of the batch, for a file in a folder."""
    return {**manifest.to_dict(folder=folder), place: index}

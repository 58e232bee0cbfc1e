"""What a pipeline returns: its result by name, the manifest, and the state of the run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..outputs import Output
from .manifest import Manifest, save_png
from .state import PipelineState


class PipelineOutput(Output):
    """`out.images`, `out["images"]` and `out[0]` are the same; `out.manifest` says what it was made from."""

    def __init__(
        self, values: Mapping[str, Any], manifest: Manifest, state: PipelineState, stopped_at: str | None
    ) -> None:
        self._values = dict(values)
        self.manifest, self.state, self.stopped_at = manifest, state, stopped_at

    def keys(self) -> list[str]:
        return [name for name, value in self._values.items() if value is not None]

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(self._values[name] for name in self.keys())

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"This output has no {name!r}; it has: {', '.join(values) or 'nothing'}.")
        return values[name]

    def as_asked(self, options: Any) -> Any:
        """The whole output, a tuple, or the values that `output=` names."""
        if isinstance(options.output, str):
            return self.state.get(options.output)
        if options.output is not None:
            return {name: self.state.get(name) for name in options.output}
        return self if options.return_dict else self.to_tuple()

    def save(self, path: str | Path) -> list[Path]:
        """Write the pictures as PNG with their manifests: `cat.png`, or `cat-0.png`, `cat-1.png` … for several."""
        images = self._values.get("images")
        if not isinstance(images, list) or not images:
            raise InputError("There are no PIL pictures to save in this output; ask for output_type='pil'.")
        path = Path(path)
        paths = [path] if len(images) == 1 else [path.with_stem(f"{path.stem}-{k}") for k in range(len(images))]
        return [
            save_png(image, where, self.manifest, index)
            for index, (image, where) in enumerate(zip(images, paths, strict=True))
        ]

    def __repr__(self) -> str:
        stopped = [f"stopped at {self.stopped_at!r}"] if self.stopped_at else []
        return f"PipelineOutput({', '.join([*self.keys(), *stopped])})"

"""Where the files of an integration lie: in Lockstep's own repository, or in a package of one's own."""

from __future__ import annotations

import importlib.util
import keyword
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import FileFormatError, InputError

HOUSE, DISTRIBUTION = "lockstep", "lockstep-diffusion"
MANY = 64  # folders above the working one
LISTED = 5  # files of somebody else that are named
EMPTY = ("readme", "license", ".")  # how files begin that a folder may have before there is anything in it

# part -> its place in the house, and in a package
LAYOUT = {
    "model": ("src/lockstep/models/transformers/transformer_{name}.py", "src/{package}/transformer_{name}.py"),
    "map": ("src/lockstep/models/transformers/transformer_{name}_map.py", "src/{package}/transformer_{name}_map.py"),
    "reference": ("tests/reference_{name}.py",) * 2,
    "port": ("tests/port_{name}.py",) * 2,
    "test": ("tests/models/transformers/test_transformer_{name}.py", "tests/test_transformer_{name}.py"),
    "family": ("src/lockstep/pipelines/{name}/__init__.py", "src/{package}/{name}/__init__.py"),
    "encoders": ("src/lockstep/pipelines/{name}/encoders.py", "src/{package}/{name}/encoders.py"),
    "before_denoise": ("src/lockstep/pipelines/{name}/before_denoise.py", "src/{package}/{name}/before_denoise.py"),
    "denoise": ("src/lockstep/pipelines/{name}/denoise.py", "src/{package}/{name}/denoise.py"),
    "decoders": ("src/lockstep/pipelines/{name}/decoders.py", "src/{package}/{name}/decoders.py"),
    "blocks": ("src/lockstep/pipelines/{name}/blocks.py", "src/{package}/{name}/blocks.py"),
    "pipeline": ("src/lockstep/pipelines/{name}/pipeline.py", "src/{package}/{name}/pipeline.py"),
    "reference_pipeline": ("tests/reference_{name}_pipeline.py",) * 2,
    "port_pipeline": ("tests/port_{name}_pipeline.py",) * 2,
    "pipeline_test": ("tests/pipelines/test_{name}.py", "tests/test_{name}_pipeline.py"),
    "page": ("docs/{name}.md",) * 2,
    "scheduler": ("src/lockstep/schedulers/{name}.py", "src/{package}/scheduler_{name}.py"),
    "scheduler_reference": ("tests/reference_{name}_scheduler.py",) * 2,
    "scheduler_test": ("tests/schedulers/test_{name}.py", "tests/test_{name}_scheduler.py"),
    "scheduler_page": ("docs/{name}-scheduler.md",) * 2,
    "guider": ("src/lockstep/guiders/{name}.py", "src/{package}/guider_{name}.py"),
    "guider_reference": ("tests/reference_{name}_guider.py",) * 2,
    "guider_test": ("tests/guiders/test_{name}.py", "tests/test_{name}_guider.py"),
    "guider_page": ("docs/{name}-guider.md",) * 2,
    "result": ("parity/{name}.json",) * 2,
}


@dataclass(frozen=True)
class Home:
    """A repository that integrations are written into."""

    root: Path
    package: str  # the name by which its code is imported
    distribution: str  # the name by which it is installed

    @property
    def is_house(self) -> bool:
        return self.package == HOUSE

    @property
    def option(self) -> str:
        """What commands in the root of a package are told besides."""
        return "" if self.is_house else " --package ."

    def path(self, part: str, name: str) -> str:
        """The place of one part of an integration, from the root on."""
        return LAYOUT[part][0 if self.is_house else 1].format(name=name, package=self.package)

    def file(self, part: str, name: str) -> Path:
        return self.root / self.path(part, name)

    def module(self, part: str, name: str) -> str:
        """The name by which a part is imported."""
        path = Path(self.path(part, name)).with_suffix("")
        parts = path.parts[1:-1] if path.name == "__init__" else path.parts[1:]
        return ".".join(parts)

    def words(self, name: str) -> dict[str, str]:
        """What templates say of places: `${model_file}`, `${model_module}`, `${family_folder}`."""
        files = {f"{part}_file": self.path(part, name) for part in LAYOUT}
        modules = {f"{part}_module": self.module(part, name) for part in LAYOUT}
        family = str(Path(self.path("family", name)).parent)
        own = {"package": self.package, "distribution": self.distribution, "family_folder": family}
        own["option"] = self.option
        return files | modules | own


def house_from(folder: Path) -> Home | None:
    """Lockstep's own repository, if a folder lies in it."""
    for root in [folder.resolve(), *folder.resolve().parents][:MANY]:
        if (root / "src" / HOUSE / "__init__.py").is_file() and _project(root).get("name") == DISTRIBUTION:
            return Home(root, HOUSE, DISTRIBUTION)
    return None


def package_at(folder: Path) -> Home:
    """The package of one's own in a folder, whether there is something already or not."""
    root = folder.resolve()
    if root.is_file():
        raise InputError(f"--package wants a folder, and {folder} is a file.")
    project, is_new = _project(root), not (root / "pyproject.toml").exists()
    if is_new:
        _refuse_files_of_others(root, folder)
    elif not project.get("name"):
        raise InputError(
            f"{folder}/pyproject.toml has no name under [project], where entry points would be added. Write "
            f'`[project]` with `name = "{root.name}"` and a version there, or name another folder.'
        )
    distribution = str(project.get("name") or root.name)
    package = re.sub(r"[-. ]", "_", distribution).lower()
    if not package.isidentifier() or keyword.iskeyword(package) or package == HOUSE:
        raise InputError(
            f"A package is imported by its name, and {package!r} cannot be: name the folder with letters, digits and "
            "dashes, such as sunrise-models."
        )
    if is_new and _is_installed(package):
        raise InputError(
            f"A package called {package!r} is installed already, and `import {package}` would find one of the two. "
            f"Choose another name for the folder, such as {root.name}-models."
        )
    if (root / package / "__init__.py").is_file():
        raise InputError(
            f"{folder} has its code in {package}/, and new code is written to src/{package}/. Move it there first "
            "(and say so in pyproject.toml), or name another folder."
        )
    found = [path.parent.name for path in sorted(root.glob("src/*/__init__.py"))]
    if found and package not in found:
        package = found[0]
    return Home(root, package, distribution)


def _is_installed(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None  # a folder in the path that holds no code has none


def _refuse_files_of_others(root: Path, folder: Path) -> None:
    """A folder that is no package yet is empty, or holds what every repository begins with."""
    held = sorted(path.name + "/" * path.is_dir() for path in root.iterdir()) if root.is_dir() else []
    held = [name for name in held if not name.lower().startswith(EMPTY)]
    if held:
        more = f" and {len(held) - LISTED} more" if len(held) > LISTED else ""
        raise InputError(
            f"{folder} is no package (it has no pyproject.toml) and not empty: {', '.join(held[:LISTED])}{more}. Name "
            "a folder that is new, or make this one a package first: a pyproject.toml with [project], name and version."
        )


def _project(root: Path) -> Mapping[str, object]:
    path = root / "pyproject.toml"
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise FileFormatError(f"{path} cannot be read: {problem}. Repair it.") from problem
    return found if isinstance(found, dict) else {}

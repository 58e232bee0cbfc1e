"""A package that the kit wrote, as if it were installed: on the path, with its entry points, nothing of it cached."""

import importlib
import sys
import tomllib
from contextlib import contextmanager

from lockstep.kit.new import package_at, write_new


def written(folder, *kinds):
    """A package in a folder with these integrations: ("pipeline", "sunrise") …"""
    home = package_at(folder)
    for kind, name, *workflows in kinds:
        write_new(kind, name, home, *workflows)
    install(home)
    return home


def install(home):
    """What `pip install -e` leaves behind: the metadata with the entry points."""
    project = tomllib.loads((home.root / "pyproject.toml").read_text())["project"]
    metadata = home.root / "src" / f"{home.package}-{project['version']}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    groups = project.get("entry-points", {})
    lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in names.items()) for group, names in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines))


@contextmanager
def importable(home):
    """The package can be imported inside, as its files are now."""
    folders = [str(home.root / "src"), str(home.root / "tests")]
    before, written_bytecode = dict(sys.modules), sys.dont_write_bytecode
    sys.path[:0], sys.dont_write_bytecode = folders, True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(folder)
        sys.dont_write_bytecode = written_bytecode
        for name in [name for name in sys.modules if name not in before and _is_of(name, home)]:
            del sys.modules[name]


def _is_of(name, home):
    return name.partition(".")[0] == home.package or name.startswith(
        ("reference_", "port_", "checked_", "parity_target")
    )


@contextmanager
def edited(path, *changes):
    """A file with some of its text replaced, for a while."""
    before = path.read_text()
    text = before
    for old, new in changes:
        assert text.count(old) == 1, f"{path.name} has {old!r} {text.count(old)} times"
        text = text.replace(old, new)
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)


def sides(home, name, part="", build="build_model"):
    """The two sides of a family's proof, as commands take them."""
    return [f"{home.file(f'{side}{part}', name)}:{build}" for side in ("reference", "port")]

"""What a family costs: `python -m benchmarks.family_lines` counts the lines of the shared room and of each family.

The toy family of the tests is counted without its model: what lies behind the line "the family" there, and the imports.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
TOY = ROOT / "tests/pipelines/toy_family.py"
MARKS = ("# ---- the model", "# ---- the family")


def lines(path: Path) -> int:
    """Lines of a Python file, or of those in a folder."""
    files = [path] if path.is_file() else sorted(path.glob("*.py"))
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def toy() -> tuple[int, int]:
    """(all lines of the toy family, those beyond its model)."""
    text = TOY.read_text(encoding="utf-8").splitlines()
    begin, end = (next(k for k, line in enumerate(text) if line.startswith(mark)) for mark in MARKS)
    return len(text), len(text) - (end - begin)


def main() -> None:
    """Print the table."""
    pipelines = ROOT / "src/lockstep/pipelines"
    families = [folder for folder in sorted(pipelines.iterdir()) if (folder / "blocks.py").is_file()]
    print(f"{'common':24}{lines(pipelines / 'common'):5}")
    for folder in families:
        print(f"{folder.name:24}{lines(folder):5}")
    whole, family = toy()
    print(f"{'families together':24}{sum(map(lines, families)):5}")
    print(f"{'toy, model and all':24}{whole:5}")
    print(f"{'toy, beyond its model':24}{family:5}")


if __name__ == "__main__":
    main()

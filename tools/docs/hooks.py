"""What MkDocs calls while it builds the site (`mkdocs.yml`)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pathspec import GitIgnoreSpec

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tools.docs import reference  # noqa: E402
from tools.docs.markdown import repaired  # noqa: E402

LANGUAGES = {".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".rs": "rust", ".toml": "toml", ".json": "json"}
SHIM = "https://unpkg.com/iframe-worker/shim"  # the theme's own way to search from the disk, which wants a network
ELSEWHERE = re.compile(r"\]\((?:\.\./)+(?!docs/)([^)#]+)(#[^)]*)?\)")  # a link out of docs/, into the house


def on_config(config: Any) -> Any:
    """A folder in the navigation stands for its pages."""
    config.nav = [expanded(part) for part in config.nav]
    return config


def expanded(part: Any) -> Any:
    """A part of the navigation with its folders written out."""
    if not isinstance(part, dict):
        return part
    ((title, inside),) = part.items()
    if isinstance(inside, str):
        return part
    pages: list[Any] = []
    for one in inside:
        pages += in_folder(one) if isinstance(one, str) and one.endswith("/") else [expanded(one)]
    return {title: pages}


def in_folder(folder: str) -> list[Any]:
    """The pages of a folder, its own page first; the reference's are made, so they are named by it."""
    if folder == "reference/":
        names = [f"{group.page}.md" for group in reference.GROUPS]
        return [folder + name for name in ("index.md", *names, "errors.md")]
    pages = sorted((ROOT / "docs" / folder).glob("*.md"), key=lambda path: (path.stem != "README", path.name))
    return [folder + path.name for path in pages]


def on_files(files: Files, config: Any) -> Files:
    """Pages that are made: the reference, the changelog, and every file of the house that a page points at."""
    made = {f"reference/{name}": text for name, text in reference.pages().items()}
    made["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").replace("](docs/", "](")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for target, _ in ELSEWHERE.findall(page.read_text(encoding="utf-8")):
            made |= shown(target)
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    config.not_in_nav = GitIgnoreSpec.from_lines(["/source/"])
    return files


def shown(target: str) -> dict[str, str]:
    """A file of the house as a page, or a folder as a page of its files."""
    path = (ROOT / target).resolve()
    if path.is_dir():
        inside = sorted(one for one in path.iterdir() if one.suffix in LANGUAGES)
        here = f"source/{target.rstrip('/')}"
        lines = [f"- [{one.name}]({path.name}/{one.name}.md)" for one in inside]
        pages = {f"{here}.md": "\n".join([f"# {target}", "", *lines, ""])}
        for one in inside:
            pages |= shown(f"{target.rstrip('/')}/{one.name}")
        return pages
    if not path.is_file() or path.suffix not in LANGUAGES:
        return {}
    code = path.read_text(encoding="utf-8")
    return {f"source/{target}.md": f"# {target}\n\n`````{LANGUAGES[path.suffix]}\n{code}`````\n"}


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """GitHub's Markdown as the site reads it; links out of docs/ lead to the pages made of what they point at."""
    up = "../" * page.file.src_uri.count("/")

    def to_page(match: re.Match[str]) -> str:
        made = f"source/{match[1].rstrip('/')}.md"
        return f"]({up}{made})" if files.get_file_from_path(made) else match[0]

    return repaired(ELSEWHERE.sub(to_page, markdown))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Nothing is fetched: the search from the disk runs by our own script."""
    return output.replace(SHIM, "../" * page.url.count("/") + "javascripts/worker.js")


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    return output_content.replace(SHIM, "javascripts/worker.js")

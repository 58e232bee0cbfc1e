"""`lockstep client`: a running server from scripts; needs nothing that the command line does not have."""

from __future__ import annotations

import base64
import json as jsonlib
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, InterruptedRun, NotFoundError, UnsupportedError
from ..files import atomic
from .console import err, out, print_json
from .options import Json, Overwrite
from .targets import Targets

if TYPE_CHECKING:
    from ..media import MediaKind

app = typer.Typer(name="client", help="Use a server that `lockstep serve` runs.", no_args_is_help=True)
Url = Annotated[str, typer.Option(envvar="LOCKSTEP_URL", help="Where the server is.")]
Token = Annotated[str | None, typer.Option(envvar="LOCKSTEP_TOKEN", help="What the server wants to be told.")]
HERE = "http://127.0.0.1:7860"
TRIES = 20  # of a request that a full queue puts off


class Remote:
    """Requests to a server, with its refusals as errors of the library."""

    def __init__(self, url: str, token: str | None) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"--url wants an address that begins with http:// or https://, got {url!r}.")
        self.url, self.token = url.rstrip("/"), token

    def open(self, path: str, body: Any = None, method: str | None = None, **more: str) -> Any:
        headers = more | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", jsonlib.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=600)
        except urllib.error.HTTPError as refused:
            raise self._error(refused) from None
        except (urllib.error.URLError, OSError) as problem:
            reason = getattr(problem, "reason", problem)
            raise NotFoundError(
                f"There is no server at {self.url}: {reason}. Start one with `lockstep serve`."
            ) from None

    def _error(self, refused: urllib.error.HTTPError) -> Exception:
        try:
            message = jsonlib.load(refused)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = f"the server answered {refused.code}"
        if refused.code == 429:
            return Busy(message, float(refused.headers.get("Retry-After", "1")))
        return InputError(message) if refused.code < 500 else UnsupportedError(message)

    def get(self, path: str) -> Any:
        with self.open(path) as answer:
            return jsonlib.load(answer)

    def post(self, path: str, body: Any, **headers: str) -> Any:
        """Send it; where too much waits, again when the server says so."""
        for _ in range(TRIES):
            try:
                with self.open(path, body, "POST", **headers) as answer:
                    return jsonlib.load(answer)
            except Busy as busy:
                err.print(f"[dim]the queue is full; again in {busy.seconds:.0f} s[/]")
                time.sleep(busy.seconds)
        raise UnsupportedError(f"The server is too busy: its queue was full {TRIES} times.")

    def events(self, job: str) -> Iterator[dict[str, Any]]:
        with self.open(f"/api/events?job={job}") as stream:
            for line in stream:
                if line.startswith(b"data: "):
                    yield jsonlib.loads(line[6:])


class Busy(UnsupportedError):
    """The queue is full."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@app.command()
def make(
    prompt: Annotated[str, typer.Argument(help="What the picture has to show.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A .png file, or a folder.")] = None,
    overwrite: Overwrite = False,
    model: Annotated[str | None, typer.Option("--model", "-m", help="One of the server's models.")] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Pictures; number k has seed + k.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Same seed, same picture.")] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", "--sampler", help="euler, dpm++_2m_karras …")] = None,
    lora: Annotated[list[str] | None, typer.Option(help="One of the server's LoRAs: style:0.8")] = None,
    value: Annotated[
        list[str] | None, typer.Option("--set", help="An input by its name: num_inference_steps=20, image=start.png")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Sent twice with one key, it is made once.")] = None,
    url: Url = HERE,
    token: Token = None,
    json: Json = False,
) -> None:
    """Make pictures on a server, and write them here."""
    from ..media import kind_named
    from .pipelines import file_and_strength

    remote = Remote(url, token)
    loras = [dict(zip(("name", "strength"), file_and_strength(text), strict=True)) for text in lora or ()]
    wish = {"model": model, "inputs": {"prompt": prompt, **given_inputs(value or [])}, "count": count, "seed": seed,
            "scheduler": scheduler, "loras": loras}  # fmt: skip
    kind = kind_named(remote.get("/api/schema" + (f"?model={urllib.parse.quote(model)}" if model else ""))["media"])
    targets = Targets(output or Path(kind.default_name), kind, count, overwrite)
    once = {"Idempotency-Key": key} if key else {}
    job = remote.post("/api/jobs", {name: one for name, one in wish.items() if one is not None}, **once)
    ended = followed(remote, job["id"], quiet=json)
    made = []
    for one in ended["outputs"]:
        path = targets.next()
        with remote.open(one["url"]) as answer:
            store(answer.read(), path, kind)
        made.append({"path": str(path), "seed": one["facts"].get("seed"), "sha256": one["sha256"]})
    if json:
        print_json({"job": job["id"], f"{kind.name}s": made})
        return
    for entry in made:
        out.print(f"[bold green]{entry['path']}[/]  [dim]seed {entry['seed']}[/]", highlight=False)


def store(data: bytes, path: Path, kind: MediaKind) -> None:
    """A file as the server made it; under the suffix of another format, in that format with the same manifest."""
    from ..media import read_manifest

    if path.suffix.lower() in kind.formats[0].suffixes:
        with atomic(path) as temporary:
            temporary.write_bytes(data)
        return
    with tempfile.TemporaryDirectory() as folder:
        sent = Path(folder) / f"sent{kind.formats[0].suffixes[0]}"
        sent.write_bytes(data)
        manifest = read_manifest(sent)
        kind.write(kind.load(sent), path, lambda _: manifest)


def given_inputs(words: list[str]) -> dict[str, Any]:
    """`name=value` as JSON says it, a picture by its file, anything else as text."""
    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"--set wants name=value, got {word!r}.")
        path = Path(text)
        if path.suffix.lower() in (".png", ".jpg", ".jpeg", ".webp"):
            if not path.is_file():
                raise NotFoundError(f"There is no picture at {path}.")
            found[name] = {"data": base64.b64encode(path.read_bytes()).decode()}
            continue
        try:
            found[name] = jsonlib.loads(text)
        except ValueError:
            found[name] = text
    return found


def followed(remote: Remote, job: str, quiet: bool) -> dict[str, Any]:
    """The job when it has ended, with its steps on the way; ctrl-C cancels it."""
    from rich.progress import Progress

    try:
        with Progress(console=err, transient=True, disable=quiet) as bar:
            line = bar.add_task("waiting", total=None)
            for event in remote.events(job):
                if event["kind"] == "step":
                    bar.update(line, description="making", completed=event["step"], total=event["steps"])
    except KeyboardInterrupt:
        remote.post(f"/api/jobs/{job}/cancel", {})
        raise
    ended: dict[str, Any] = remote.get(f"/api/jobs/{job}")
    if ended["state"] == "failed":
        raise UnsupportedError(f"The job failed: {ended['error']['message']}")
    if ended["state"] == "cancelled":
        raise InterruptedRun("The job was cancelled.")
    return ended


@app.command()
def show(job: Annotated[str, typer.Argument(help="The id of a job.")], url: Url = HERE, token: Token = None) -> None:
    """Print a job as JSON."""
    print_json(Remote(url, token).get(f"/api/jobs/{job}"))


@app.command()
def cancel(job: Annotated[str, typer.Argument(help="The id of a job.")], url: Url = HERE, token: Token = None) -> None:
    """Cancel a job: at once where it waits, at its next step where it runs."""
    print_json(Remote(url, token).post(f"/api/jobs/{job}/cancel", {}))


@app.command()
def models(url: Url = HERE, token: Token = None, json: Json = False) -> None:
    """List what a server has: models, LoRAs, ControlNets."""
    known = Remote(url, token).get("/api/catalogue")
    if json:
        print_json(known)
        return
    for name, card in known["models"].items():
        size = f"{card['width']}x{card['height']}" if card["width"] else ""
        out.print(f"[bold]{name}[/]  [dim]{card['pipeline']} {size}[/]", highlight=False)
    for what in ("loras", "controlnets"):
        for name in known[what]:
            out.print(f"{name}  [dim]{what[:-1]}[/]", highlight=False)

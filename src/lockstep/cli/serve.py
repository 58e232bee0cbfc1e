"""`lockstep serve`: pictures over HTTP."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, UnsupportedError
from .console import err, out, print_json
from .options import Json
from .pipelines import DEFAULT_MODEL

if TYPE_CHECKING:
    from ..serve.settings import Settings

EXAMPLES = """
Examples:

  lockstep serve

  lockstep serve --model sd15=./stable-diffusion-v1-5 --lora style=./style.safetensors --port 8000

  LOCKSTEP_TOKEN=… lockstep serve --host 0.0.0.0 --allow-host pictures.example
"""
GIGA = 2**30


def serve(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="name=FOLDER, a folder, a file, a hub id; or several."),
    ] = None,
    lora: Annotated[list[str] | None, typer.Option(help="name=FILE that requests may ask for.")] = None,
    controlnet: Annotated[list[str] | None, typer.Option(help="name=FOLDER that requests may ask for.")] = None,
    host: Annotated[str, typer.Option(help="Where to listen; what others can reach needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 7860,
    token: Annotated[
        str | None, typer.Option(envvar="LOCKSTEP_TOKEN", help="What clients have to send; auto makes one.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Where the queue and the pictures are kept.")] = None,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name of this server.")] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may use it.")] = None,
    max_pixels: Annotated[int, typer.Option(min=64, help="Of one picture.")] = 2048 * 2048,
    max_steps: Annotated[int, typer.Option(min=1, help="Of one run.")] = 200,
    max_count: Annotated[int, typer.Option(min=1, help="Pictures of one request.")] = 16,
    max_work: Annotated[float, typer.Option(min=1, help="Pixels x steps x pictures of one request.")] = 2e9,
    max_body: Annotated[int, typer.Option(min=1, help="Megabytes of one request.")] = 64,
    max_queue: Annotated[int, typer.Option(min=1, help="Jobs that wait.")] = 1000,
    max_queue_per_client: Annotated[int, typer.Option(min=1, help="Jobs of one client.")] = 200,
    batch: Annotated[int, typer.Option(min=1, max=64, help="Pictures of equal requests that are made at once.")] = 4,
    memory: Annotated[float, typer.Option(min=0.1, help="Gigabytes of weights that stay loaded.")] = 8.0,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds that a call may wait for its pictures.")] = 600.0,
    stall_seconds: Annotated[
        float, typer.Option(min=1, help="Without a sign of life, the worker is replaced.")
    ] = 300.0,
    attempts: Annotated[int, typer.Option(min=1, help="Workers that a job may lose before it is given up.")] = 2,
    device: Annotated[list[str] | None, typer.Option(help="cpu, cuda:0 …; a worker for each that is named.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    backend: Annotated[
        str, typer.Option(help="local: processes of this machine; ray: replicas of Ray Serve.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; this machine alone where it is left out.")
    ] = None,
    replicas: Annotated[str, typer.Option(help="Of Ray Serve, the fewest and the most: 1:4")] = "1",
    size_policy: Annotated[str, typer.Option(help="A size that is not the model's: reject or fit.")] = "reject",
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    json: Json = False,
) -> None:
    """Serve models over HTTP: OpenAI's images API, A1111's API and a native one, with a queue that survives a crash."""
    try:
        from ..serve import running, settings
    except ModuleNotFoundError as missing:
        raise UnsupportedError(
            f"`lockstep serve` needs {missing.name}: pip install 'lockstep-diffusion[serve]'."
        ) from None
    if backend == "ray":
        require_ray()
    if size_policy not in ("reject", "fit"):
        raise InputError(f"--size-policy wants reject or fit, got {size_policy!r}.")
    limits = settings.Limits(
        pixels=max_pixels, steps=max_steps, count=max_count, work=max_work, body=max_body * settings.MEGA
    )
    made = settings.Settings(
        data=data or settings.default_data(), models=settings.named_sources(model or [DEFAULT_MODEL], "--model"),
        loras=settings.named_sources(lora or [], "--lora"),
        controlnets=settings.named_sources(controlnet or [], "--controlnet"),
        host=host, port=port, token=secrets.token_urlsafe(32) if token == "auto" else token or None,
        allowed_hosts=allow_host or (), allowed_origins=allow_origin or (), limits=limits, queue_jobs=max_queue,
        queue_per_client=max_queue_per_client, batch=batch, memory=int(memory * GIGA), deadline=deadline,
        stall=stall_seconds, attempts=attempts, devices=device or (), dtype=dtype, backend=backend,
        address=address, replicas=fewest_and_most(replicas), size_policy=size_policy,
    )  # fmt: skip

    def began(at: Settings) -> None:
        announce(at, token == "auto", json)
        if open_browser:
            import webbrowser

            webbrowser.open(page_of(at, secret=True))

    running.run(made, began)


def require_ray() -> None:
    """Told before anything is started."""
    try:
        from ray import serve as _  # noqa: F401
    except ImportError as missing:
        raise UnsupportedError(
            f"--backend ray needs {missing.name}: pip install 'lockstep-diffusion[serve,ray-serve]'."
        ) from None


def fewest_and_most(text: str) -> tuple[int, int]:
    """`1:4` as two numbers; one number is both."""
    fewest, _, most = text.partition(":")
    try:
        return int(fewest), int(most or fewest)
    except ValueError:
        raise InputError(f"--replicas wants FEWEST:MOST, as 1:4, got {text!r}.") from None


def page_of(at: Any, secret: bool) -> str:
    """The address of the page; a token goes behind the #, which no log ever sees."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(at.host, at.host)
    return f"http://{host}:{at.port}/" + (f"#token={at.token}" if secret and at.token else "")


def announce(at: Any, made_token: bool, json: bool) -> None:
    """Where the server is; a token that was made here is printed this once."""
    if json:
        print_json(
            {
                "url": page_of(at, False),
                "pid": os.getpid(),
                "models": list(at.models),
                **({"token": at.token} if made_token else {}),
            }
        )
        out.file.flush()
        return
    out.print(f"[bold green]{page_of(at, secret=made_token)}[/]", highlight=False, soft_wrap=True)
    out.print(f"[dim]models: {', '.join(at.models)}; data: {at.data}[/]", highlight=False)
    if at.host in ("0.0.0.0", "::"):
        err.print(
            "[dim]reachable by this machine's addresses and its own name; by any other name: --allow-host NAME[/]"
        )
    err.print("[dim]OpenAI: …/v1   A1111: …/sdapi/v1   native: …/api   ctrl-C ends it[/]")

"""What the owner of a server decides when it starts; no request can change any of it."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import InputError, NotFoundError, UnknownNameError
from ..files import EMBEDDED, looks_like_hub_id

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::", "")
DTYPES = ("auto", "float32", "bfloat16", "float16", "float64", "fp32", "bf16", "fp16", "fp64", "keep")
DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|mlu|privateuseone)(:\d{1,3})?")
HOST_NAME = re.compile(r"\[[0-9a-f:.]+\]|[a-z0-9_.-]+", re.IGNORECASE)
MEGA = 2**20
BACKENDS = ("local", "ray")


@dataclass(frozen=True)
class Limits:
    """The most that one request may ask for."""

    pixels: int = 2048 * 2048  # of one picture that is made
    steps: int = 200
    count: int = 16
    prompt: int = 2000  # characters
    work: float = 2e9  # pixels x calls of the model x pictures
    body: int = 64 * MEGA
    body_seconds: float = 60.0
    picture_bytes: int = 20 * MEGA
    picture_pixels: int = 16_000_000  # of one that comes in
    streams: int = 256
    connections: int = 512


@dataclass(frozen=True)
class Settings:
    """A server: what it serves, where it listens, who may come, and how it works."""

    data: Path
    models: Mapping[str, str]
    loras: Mapping[str, str] = field(default_factory=dict)
    controlnets: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 7860
    token: str | None = None
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    limits: Limits = field(default_factory=Limits)
    queue_jobs: int = 1000
    queue_per_client: int = 200
    attempts: int = 2
    deadline: float = 600.0  # seconds that a call on an open connection waits for its pictures
    stall: float = 300.0  # seconds without a sign of life
    start: float = 300.0  # seconds that a worker may take until it is ready
    batch: int = 4
    gather: float = 0.03  # seconds that an idle server waits for company
    memory: int = 8 * 2**30  # bytes of weights that stay loaded
    devices: Sequence[str] = ()  # a worker for each; one for the best there is where none is named
    dtype: str = "auto"
    backend: str = "local"  # processes of this machine; or "ray"
    address: str | None = None  # of a Ray cluster
    replicas: tuple[int, int] = (1, 1)  # of Ray Serve: the fewest and the most
    upscale: float = 5.0  # seconds that work waits before a further replica is asked for
    downscale: float = 600.0  # seconds without work before one is given back
    size_policy: str = "reject"  # or "fit": another size than the model's is brought near to it

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UnknownNameError("backend", self.backend, BACKENDS)
        if self.backend == "local" and (self.address is not None or self.replicas != (1, 1)):
            raise InputError("--address and --replicas are for a Ray cluster: give --backend ray, or leave them out.")
        if not 1 <= self.replicas[0] <= self.replicas[1]:
            raise InputError(f"--replicas wants FEWEST:MOST, from 1 on, got {self.replicas[0]}:{self.replicas[1]}.")
        if not self.models:
            raise InputError("A server needs a model: --model FOLDER, or --model name=FOLDER.")
        if self.token is None and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host} can be reached from other machines, which needs a token: --token auto makes one."
            )
        if self.token is not None and len(self.token) < 16:
            raise InputError("A token wants 16 characters or more; --token auto makes a good one.")
        if self.dtype not in DTYPES:
            raise UnknownNameError("--dtype", self.dtype, DTYPES)
        for device in self.devices:
            if not DEVICE.fullmatch(device):
                raise InputError(f"--device wants cpu, cuda, cuda:0, mps …, got {device!r}.")
        for origin in self.allowed_origins:
            if origin_of(origin) is None:
                raise InputError(f"--allow-origin wants a site like https://pictures.example, got {origin!r}.")
        for host in self.allowed_hosts:
            if not HOST_NAME.fullmatch(host):
                raise InputError(f"--allow-host wants a name without scheme or port, got {host!r}.")

    @property
    def most_rows(self) -> int:
        """Of one run: twice a batch where the queue is long; a server without batches makes each picture alone."""
        return 2 * self.batch if self.batch > 1 else 1

    @property
    def hosts(self) -> set[str]:
        """The names under which this server may be asked for."""
        machine = socket.gethostname()
        own = (machine, f"{machine}.local") if self.host in EVERYWHERE else (self.host,)
        return {host.lower() for host in (*LOOPBACK, *own, *self.allowed_hosts)}

    def is_own_host(self, name: str) -> bool:
        """Whether a request may call this server so: by one of its names, and where it listens everywhere by any
        address, as only a name can be pointed elsewhere by a stranger."""
        return name in self.hosts or (self.host in EVERYWHERE and _is_address(name))


def _is_address(name: str) -> bool:
    try:
        return bool(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return False


def origin_of(text: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a site; None for `null` and for what is no origin."""
    try:
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.scheme in ("http", "https") and parts.hostname else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def named_sources(words: Sequence[str], what: str) -> dict[str, str]:
    """`name=place`, or a place whose last part is its name: what requests may call it, and where it is."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals:
            name, place = (word if word in EMBEDDED or looks_like_hub_id(word) else Path(word).stem), word
        if not name or not place or name in found:
            raise InputError(f"{what} wants name=FOLDER with a name that is not taken, got {word!r}.")
        if not Path(place).exists() and place not in EMBEDDED and not looks_like_hub_id(place):
            raise NotFoundError(
                f"{what} {name}: there is nothing at {place}, and it is no hub id of the form owner/name."
            )
        found[name] = place
    return found


def default_data() -> Path:
    """Where a server keeps its queue and pictures if nobody says where."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "lockstep" / "serve"

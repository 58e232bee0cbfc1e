"""A server from its settings to its last request."""

from __future__ import annotations

import dataclasses
import logging
import socket
from collections.abc import Callable

import uvicorn

from ..errors import InputError
from .app import create_app
from .settings import Settings

BACKLOG = 512  # connections that wait to be taken
GRACE = 5  # seconds that open requests get when the server is to end


def bound(settings: Settings) -> tuple[socket.socket, Settings]:
    """A socket at the address; port 0 takes a free one, which the settings then name."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host.strip("[]"), settings.port))
        listening.listen(BACKLOG)  # who comes as soon as the address is told waits, and is not turned away
    except OSError as problem:
        listening.close()
        raise InputError(
            f"Cannot listen at {settings.host}:{settings.port}: {problem.strerror}. Choose another --port."
        ) from None
    return listening, dataclasses.replace(settings, port=listening.getsockname()[1])


def run(settings: Settings, began: Callable[[Settings], None]) -> None:
    """Serve until a signal comes; `began` is told the address once it is taken."""
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    listening, settings = bound(settings)
    with listening:
        app = create_app(settings)
        app.state.server.open()
        config = uvicorn.Config(
            app.state.safety, log_level="warning", access_log=False, server_header=False, lifespan="on", ws="none",
            limit_concurrency=settings.limits.connections, timeout_graceful_shutdown=GRACE, proxy_headers=False,
        )  # fmt: skip
        began(settings)
        uvicorn.Server(config).run(sockets=[listening])

"""What is refused before anything is read: a foreign Host or Origin, a missing token, a body too large or too slow."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hmac
import re
import secrets
import time
from collections.abc import MutableMapping
from http.cookies import CookieError, SimpleCookie

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .faces import answer, face_of
from .metrics import Metrics
from .problems import Problem
from .settings import Settings, origin_of

READS = ("GET", "HEAD", "OPTIONS")
OPEN_PATHS = ("/health", "/", "/api/session")
OPEN_FOLDERS = ("/studio/",)
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin", "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}  # fmt: skip
METHODS = "GET, HEAD, POST, PUT, DELETE"
ASKED = ("authorization", "content-type", "idempotency-key", "last-event-id", "x-lockstep-client")
TOLD = "Retry-After, ETag, X-Request-Id, X-Should-Retry"  # of an answer, what a page of an allowed site may read
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:(?P<port>\d{1,5}))?", re.IGNORECASE)


class Safety:
    """The first that a request meets, and the last that an answer passes."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.origins = {origin_of(text) for text in settings.allowed_origins}
        self.sessions: dict[str, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        sender = Sender(scope, send, self.metrics, self._cors(scope))
        try:
            if is_preflight(scope):
                await self.preflight(scope)(scope, receive, sender)
                return
            self.check(scope)
            body = Body(receive, self.settings, _length(scope))
            await self.app(scope, body, sender)
        except Problem as problem:
            if not sender.started:
                await answer(scope["path"], problem)(scope, receive, sender)

    def check(self, scope: Scope) -> None:
        """Raise what a request is refused with; note who it is from."""
        headers, unsafe = _headers(scope), scope["method"] not in READS
        self.check_host(headers)
        origin = headers.get("origin")
        if unsafe and origin is not None:
            ours = {origin_of(f"{scope.get('scheme', 'http')}://{headers['host']}"), *self.origins}
            if origin_of(origin) is None or origin_of(origin) not in ours:
                raise Problem(403, "forbidden_origin", "Pages of other sites may not use this server (--allow-origin).")
        if unsafe and origin is None and headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Problem(403, "forbidden_origin", "Pages of other sites may not use this server (--allow-origin).")
        scope.setdefault("state", {})["client"] = self.client(scope, headers)

    def check_host(self, headers: MutableMapping[str, str]) -> None:
        """Refuse a name that is not this server's: behind it may be a site that points its own name here."""
        host = HOST.fullmatch(headers.get("host", ""))
        if host is None or not self.settings.is_own_host(host["name"].lower()):
            raise Problem(
                403, "forbidden_host", "This server is not known by that name. Its owner can add it: --allow-host."
            )

    def preflight(self, scope: Scope) -> Response:
        """What a browser asks before a page of another site may send something; it carries no token."""
        headers = _headers(scope)
        self.check_host(headers)
        if not self._cors(scope).get("access-control-allow-origin"):
            raise Problem(403, "forbidden_origin", "Pages of other sites may not use this server (--allow-origin).")
        asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
        own = [name for name in asked if re.fullmatch(r"x-[a-z0-9-]{1,60}", name) and name not in ASKED]
        allowed = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Allow-Headers": ", ".join([*ASKED, *own])}
        return Response(status_code=204, headers={**allowed, "Access-Control-Max-Age": "600"})

    def client(self, scope: Scope, headers: MutableMapping[str, str]) -> str:
        """Whose turn a job counts for: the name that a client gives itself, at its address."""
        address = (scope.get("client") or ("local",))[0]
        label = re.sub(r"[^A-Za-z0-9_.-]", "", headers.get("x-lockstep-client", ""))[:40]
        token = self.settings.token
        path = scope["path"]
        is_open = path in OPEN_PATHS or path.startswith(OPEN_FOLDERS)
        given = [one.encode("utf-8", "replace") for one in self.given_tokens(headers)]
        if token is not None and not is_open and not any(hmac.compare_digest(token.encode(), one) for one in given):
            raise Problem(
                401, "invalid_api_key", "A token is needed: Authorization: Bearer …, or the password of Basic."
            )
        return f"{address} {label}".strip()

    def given_tokens(self, headers: MutableMapping[str, str]) -> list[str]:
        """Every token that a request carries; a session's cookie stands for the token that it was given for."""
        found = []
        kind, _, text = headers.get("authorization", "").strip().partition(" ")
        if kind.lower() == "bearer":
            found.append(text.strip())
        elif kind.lower() == "basic":
            with contextlib.suppress(binascii.Error, ValueError):
                found.append(base64.b64decode(text, validate=True).decode("utf-8").partition(":")[2])
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            cookie = None
        if cookie is not None and cookie.value in self.sessions and self.settings.token is not None:
            found.append(self.settings.token)
        return found

    @property
    def cookie(self) -> str:
        """Cookies ignore ports, so the port is in the name."""
        return f"lockstep_{self.settings.port}"

    def new_session(self, token: str) -> str:
        """A cookie's value for a token that is right."""
        wanted = self.settings.token
        if wanted is not None and not hmac.compare_digest(wanted.encode(), token.encode("utf-8", "replace")):
            raise Problem(401, "invalid_api_key", "That is not this server's token.")
        made = secrets.token_urlsafe(32)
        self.sessions[made] = None
        while len(self.sessions) > 1000:
            self.sessions.pop(next(iter(self.sessions)))
        return made

    def _cors(self, scope: Scope) -> dict[str, str]:
        if not self.origins:
            return {}
        origin = _headers(scope).get("origin", "")
        if not origin or origin_of(origin) is None or origin_of(origin) not in self.origins:
            return {"vary": "Origin"}
        return {"access-control-allow-origin": origin, "access-control-expose-headers": TOLD, "vary": "Origin"}


class Sender:
    """Adds the headers of every answer, and counts it."""

    def __init__(self, scope: Scope, send: Send, metrics: Metrics, cors: dict[str, str]) -> None:
        self.scope, self.send, self.metrics, self.cors = scope, send, metrics, cors
        self.started, self.began = False, time.perf_counter()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            present = {name for name, _ in message["headers"]}
            added = {**HEADERS, **self.cors, "x-request-id": secrets.token_hex(8), "cache-control": "no-store"}
            message["headers"] = [
                *message["headers"],
                *((name.encode(), value.encode()) for name, value in added.items() if name.encode() not in present),
            ]
            self.metrics.answered(face_of(self.scope["path"]), message["status"], time.perf_counter() - self.began)
        await self.send(message)


class Body:
    """A request's body, counted and timed while it comes in."""

    def __init__(self, receive: Receive, settings: Settings, length: int | None) -> None:
        self.receive, self.limits, self.got, self.whole = receive, settings.limits, 0, False
        self.until = time.monotonic() + self.limits.body_seconds
        if length is not None and length > self.limits.body:
            raise self._too_large()

    def _too_large(self) -> Problem:
        return Problem(413, "too_large", f"The request is larger than {self.limits.body} bytes.")

    async def __call__(self) -> Message:
        if self.whole:
            return await self.receive()
        try:
            message = await asyncio.wait_for(self.receive(), max(self.until - time.monotonic(), 0.01))
        except TimeoutError:
            raise Problem(408, "timeout", "The request took too long to come in.", again=False) from None
        if message["type"] == "http.request":
            self.got += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self.got > self.limits.body:
                raise self._too_large()
        return message


def is_preflight(scope: Scope) -> bool:
    headers = _headers(scope)
    return scope["method"] == "OPTIONS" and "origin" in headers and "access-control-request-method" in headers


def _headers(scope: Scope) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = f"{found[key]},{value.decode('latin-1')}" if key in found else value.decode("latin-1")
    return found


def _length(scope: Scope) -> int | None:
    text = _headers(scope).get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None

"""The guard: limits and checks that every request passes, refusals, and security headers of every answer."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relens.errors import InputError
from relens.visible import visible_lines

SHOWN = 3
PLAINLY = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such parameter",
    "model_attributes_type": "expected a JSON object",
}
NO_JSON = "the body cannot be read as JSON"
NO_OBJECT = "expected a JSON object, sent with Content-Type: application/json"
# After 408 and 413 the rest of a body may still arrive: nobody reads it.
HEADERS_OF = {503: {"Retry-After": "1"}, 408: {"Connection": "close"}, 413: {"Connection": "close"}}
INTERNAL = "the service failed at this request; its operator finds the reason in its log"


class Problem(BaseModel):
    """The reason of a refusal."""

    error: str = Field(description="What was found, what was expected, what to do.")
    closest: list[str] = Field(default=[], description="Names similar to an unknown one.")


class RefusedError(Exception):
    """A request that the service refuses."""

    def __init__(self, status: int, message: str, closest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.closest = status, message, list(closest)

    def response(self) -> JSONResponse:
        """Return the refusal as a response."""
        content: dict[str, Any] = {"error": visible_lines(self.message), "closest": self.closest}
        return JSONResponse(content, self.status, HEADERS_OF.get(self.status))


def unknown(kind: str, label: str, closest: Sequence[str], where: str = "") -> RefusedError:
    """Return the refusal of an unknown name, with similar names."""
    hint = "did you mean " + " or ".join(map(repr, closest)) + "?" if closest else "no name is similar"
    return RefusedError(404, f"{where}unknown {kind} {_shortened(label)!r}; {hint}", closest)


def ambiguous(kinds: str, labels: Sequence[str], where: str = "") -> RefusedError:
    """Return the refusal of a name that several entities or relations have, with some of their labels."""
    message = f"{where}{len(labels)} {kinds} have this name: give the label of one of them"
    return RefusedError(422, message, labels[:SHOWN])


def _shortened(label: str, limit: int = 80) -> str:
    return label if len(label) <= limit else label[: limit - 1] + "…"


def add_refusals(app: FastAPI) -> None:
    """Turn every kind of error into a response with the same JSON object."""

    async def refused(request: Request, error: Exception) -> JSONResponse:
        del request
        return _refusal(error).response()

    for kind in (RefusedError, RequestValidationError, HTTPException, InputError):
        app.add_exception_handler(kind, refused)


def _refusal(error: Exception) -> RefusedError:
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, RequestValidationError):
        return RefusedError(422, _complaints(error.errors()))
    if isinstance(error, HTTPException):
        if error.status_code == 400:  # FastAPI's status for a body that the JSON parser cannot read
            return RefusedError(422, NO_JSON)
        nothing = "there is nothing here: /docs lists all requests"
        return RefusedError(error.status_code, nothing if error.status_code == 404 else str(error.detail).lower())
    return RefusedError(422, str(error))


def _complaints(errors: Sequence[Any]) -> str:
    """Say which part of a request is wrong and why. The request itself is not repeated: it may be anything."""
    said = "; ".join(_complaint(error) for error in errors[:SHOWN])
    left = len(errors) - SHOWN
    return f"{said}; and {left} more" if left > 0 else said


def _complaint(error: Any) -> str:
    if error["type"] == "json_invalid":
        return NO_JSON
    # FastAPI begins with "query" or "body"; people do not need that.
    place = ".".join(str(part) for part in error["loc"] if part not in ("query", "body"))
    message = PLAINLY.get(error["type"]) or str(error["msg"]).removeprefix("Value error, ")
    if place:
        return f"{_shortened(place)}: {message}"
    return NO_OBJECT if error["type"] in PLAINLY else message


log = logging.getLogger(__name__)

# No inline script or style, and nothing from other origins: a label could do no harm even if it became markup.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True)
class Limits:
    """Limits of a request that do not depend on its content; ``questions`` limits labels, answers and batches.

    Attributes:
        seconds: time of a prediction, including the wait for its turn.
        in_line: predictions that may wait or run at the same time.
        body_bytes: length of the body of a request.
        body_seconds: time for a client to send the body.
        connections: open connections; one more is answered with status 503.
        silent_seconds: time without a whole request after which a connection is closed; four times that while an answer
            is unread.
    """

    seconds: float = 30.0
    in_line: int = 16
    body_bytes: int = 256 * 1024
    body_seconds: float = 10.0
    connections: int = 256
    silent_seconds: int = 5


DEFAULT_LIMITS = Limits()


class Guard:
    """Middleware that checks host name, origin and body length, adds security headers, and hides tracebacks."""

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str] | None) -> None:
        self.app, self.limits, self.hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, then pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            headers = Headers(scope=scope)
            self._check_host(headers.get("host", ""))
            if scope["path"].startswith("/api/"):
                _check_page(headers)
            body = await self._read(headers, receive)
            if body is not None:
                await self.app(scope, _replayed(body, receive), guarded)
        except RefusedError as refusal:
            await refusal.response()(scope, receive, guarded)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if begun:
                raise
            await RefusedError(500, INTERNAL).response()(scope, receive, guarded)

    def _check_host(self, host: str) -> None:
        """Refuse a foreign host name: another site may have pointed it at this machine."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self.hosts is not None and name.strip("[]").lower() not in self.hosts:
            raise RefusedError(421, f"this service answers to {' and '.join(sorted(self.hosts))}, not to another host")

    async def _read(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the whole body; refuse one that is too long or too slow. Return None if the client has left."""
        limit = self.limits.body_bytes
        announced = headers.get("content-length", "0")
        if not announced.isdigit() or int(announced[:20]) > limit:
            raise _too_long(limit)
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise _too_long(limit)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            seconds = self.limits.body_seconds
            raise RefusedError(408, f"the body did not arrive within {seconds:g} s: send it again") from None


def _check_page(headers: Headers) -> None:
    """Refuse requests that a browser sends for a page of another origin."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    # The browser is right about its own page, even if a proxy has changed the host name.
    if site == "same-origin":
        return
    foreign = origin is not None and origin.rpartition("://")[2].lower() != headers.get("host", "").lower()
    if foreign or site in ("cross-site", "same-site"):
        raise RefusedError(403, "a page from elsewhere may not ask: use this service's own page, or a program")


def _too_long(limit: int) -> RefusedError:
    return RefusedError(413, f"the body is longer than {limit:,} bytes: send fewer queries at a time")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that yields a body read before, then everything else that the client sends."""
    waiting = [body]

    async def replay() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return replay

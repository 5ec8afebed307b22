"""The guard: limits and checks that every request passes, and security headers of every answer."""

import asyncio
import logging
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relens.serve.access import Access
from relens.serve.refusals import RefusedError

log = logging.getLogger(__name__)

INTERNAL = "the service failed at this request; its operator finds the reason in its log"
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
REFUSAL = "relens.refusal"
"""The key of the refusal that the server has decided on, in the state of a request."""


@dataclass(frozen=True)
class Limits:
    """Limits of a request that do not depend on its content; ``questions`` limits labels, answers and batches.

    Attributes:
        seconds: time of a prediction, including the wait for its turn.
        in_line: predictions that may wait or run at the same time.
        body_bytes: length of the body of a request.
        body_seconds: time for a client to send the body.
        connections: open connections; one more is answered with status 503, and twice as many are never exceeded.
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
    """Middleware that checks access and body length, adds security headers, answers HEAD, and hides tracebacks."""

    def __init__(self, app: ASGIApp, limits: Limits, access: Access) -> None:
        self.app, self.limits, self.access = app, limits, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request, then pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = _Answer(send, headers, without_body=scope["method"] == "HEAD")
        if answer.without_body:
            scope = {**scope, "method": "GET"}
        try:
            refusal = scope.get("state", {}).get(REFUSAL)
            if refusal is not None:
                answer.closes = True
                raise refusal
            self.access.check(scope["path"], headers)
            body = await self._read(headers, receive)
            if body is not None:
                answer.closes = "transfer-encoding" in headers
                await self.app(scope, _replayed(body, receive), answer)
        except RefusedError as refused:
            await refused.response()(scope, receive, answer)
        except Exception:
            log.exception("%s %s failed", scope["method"], quote(scope["path"], errors="replace"))
            if answer.begun:
                raise
            await RefusedError(500, INTERNAL).response()(scope, receive, answer)

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


class _Answer:
    """The answer to one request, on its way to the client.

    A connection is closed after an answer that comes before the end of the body, because nobody reads the rest. The
    end of a chunked body has several readings, so that connection is closed, too.
    """

    def __init__(self, send: Send, headers: Headers, *, without_body: bool) -> None:
        self._send = send
        self.without_body = without_body
        self.closes = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self.begun = False

    async def __call__(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            self.begun = True
            MutableHeaders(scope=message).update({**HEADERS, "Connection": "close"} if self.closes else HEADERS)
        elif self.without_body:
            message = {**message, "body": b""}
        await self._send(message)


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

"""HTTP read strictly: a request that two programs could read in two ways is refused."""

import re
from collections.abc import Callable
from typing import Any

import h11

HEAD_BYTES = 32 * 1024
"""Limit of the request line and all headers. The longest question, percent-encoded, takes half of it."""
HEADER_LINES = 100
VERSIONS = (b"1.0", b"1.1")

_NOT_A_LINE = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FOLDED = re.compile(rb"\r\n[ \t]")
_LENGTH = re.compile(rb"\r\ncontent-length[ \t]*:([^\r]*)", re.IGNORECASE)

Refuse = Callable[[int, str], None]


class StrictConnection(h11.Connection):
    """A server's side of a connection that hands malformed requests to ``refuse``, with a status and a reason.

    h11 joins folded lines, accepts line ends without CR, any version, repeated equal lengths, and a length beside a
    transfer coding. A proxy may read such a request differently, so that one client's body becomes the next client's
    request. h11 limits heads that are incomplete; here, complete ones are limited, too.
    """

    def __init__(self, refuse: Refuse) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._refuse = refuse
        self._refused = False

    def next_event(self) -> Any:
        """Return the next event; after a refusal there are none."""
        if self._refused:
            return h11.NEED_DATA
        try:
            if self.their_state is h11.IDLE:
                _check_head(self.trailing_data[0])
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_request(event)
        except h11.RemoteProtocolError as error:
            self._refused = True
            self._refuse(error.error_status_hint, str(error))
            return h11.NEED_DATA
        return event


def _check_head(received: bytes) -> None:
    """Raise an error if the beginning of a request is ambiguous or too long. It may be incomplete."""
    head = received.partition(b"\r\n\r\n")[0]
    if _NOT_A_LINE.search(head):
        raise h11.RemoteProtocolError("a line ends without CR LF, or holds a control character")
    if _FOLDED.search(head):
        raise h11.RemoteProtocolError("a header continues on the next line: send it on one line")
    lengths = _LENGTH.findall(head)
    if len(lengths) > 1 or any(b"," in length for length in lengths):
        raise h11.RemoteProtocolError("there are several values of Content-Length: send one")
    if len(head) > HEAD_BYTES:
        raise h11.RemoteProtocolError(f"the headers are longer than {HEAD_BYTES:,} bytes", 431)
    if head.count(b"\r\n") > HEADER_LINES:
        raise h11.RemoteProtocolError(f"there are more than {HEADER_LINES} headers", 431)


def _check_request(request: h11.Request) -> None:
    """Raise an error if the version or the length of the body is ambiguous."""
    names = {name for name, _ in request.headers}
    if request.http_version not in VERSIONS:
        raise h11.RemoteProtocolError("this service speaks HTTP/1.1 and HTTP/1.0 only", 505)
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        raise h11.RemoteProtocolError("Transfer-Encoding stands beside Content-Length, or in HTTP/1.0: send one length")

"""What a request may cost."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits that do not depend on what is asked; those of labels, answers and batches are in ``questions``.

    Attributes:
        seconds: how long a prediction may take, the wait for its turn included.
        in_line: how many predictions may wait or run at once.
        body_bytes: how long the body of a request may be.
        body_seconds: how long a client may take to send it.
        connections: how many connections there may be; one more is answered with status 503.
        silent_seconds: how long a connection may stay with no whole request; four times that with an unread answer.
    """

    seconds: float = 30.0
    in_line: int = 16
    body_bytes: int = 256 * 1024
    body_seconds: float = 10.0
    connections: int = 256
    silent_seconds: int = 5


DEFAULT_LIMITS = Limits()

"""Refusals: every request that is not answered gets the same JSON object, with a sentence that says why."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from relens.errors import InputError, MemberError
from relens.visible import visible_lines

SHOWN = 3
PLAINLY = {
    "missing": "it is missing",
    "extra_forbidden": "there is no such parameter",
    "model_attributes_type": "expected a JSON object",
}
NO_JSON = "the body cannot be read as JSON"
NO_OBJECT = "expected a JSON object, sent with Content-Type: application/json"
HEADERS_OF = {401: {"WWW-Authenticate": 'Bearer realm="relens"'}, 503: {"Retry-After": "1"}}


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
    # A member that fails is no fault of the request.
    return RefusedError(500 if isinstance(error, MemberError) else 422, str(error))


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

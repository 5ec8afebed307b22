"""Who may ask: host names, origins of pages, and a token."""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from starlette.datastructures import Headers

from relens.errors import InputError
from relens.serve.refusals import RefusedError

TOKEN = "RELENS_TOKEN"
"""The environment variable with the token of a service."""
LEAST, MOST = 16, 1024
"""Characters of a token."""

_AUTHORITY = r"(?P<name>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?"
_HOST = re.compile(_AUTHORITY)
_ORIGIN = re.compile(rf"https?://(?P<authority>{_AUTHORITY})")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True)
class Access:
    """The rules of access.

    Attributes:
        hosts: host names that clients may use, in lower case and without port; None for any.
        token: the token that clients must send; None if there is none.
        pages: paths that a link from elsewhere may lead to. They hold nothing of a run.
        open_paths: more paths that need no token.
    """

    hosts: Collection[str] | None
    token: str | None
    pages: Collection[str]
    open_paths: Collection[str]

    def check(self, path: str, headers: Headers) -> None:
        """Refuse a request for a foreign host, of a page from elsewhere, or without the token."""
        host = headers.get("host", "").lower()
        self._check_host(host)
        if path in self.pages:
            return
        _check_page(headers, host)
        if self.token is not None and path not in self.open_paths:
            _check_token(headers.getlist("authorization"), self.token)

    def _check_host(self, host: str) -> None:
        """Refuse a foreign host name: another site may have pointed it at this machine."""
        found = _HOST.fullmatch(host)
        if found is None:
            raise RefusedError(400, "the header Host is malformed: expected a name or an address, and maybe a port")
        if self.hosts is not None and found["name"].strip("[]") not in self.hosts:
            raise RefusedError(421, f"this service answers to {' and '.join(sorted(self.hosts))}, not to another host")


def _check_page(headers: Headers, host: str) -> None:
    """Refuse requests that a browser sends for a page of another origin.

    Browsers write origins in one form only: any other one is foreign.
    """
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    found = [_ORIGIN.fullmatch(origin) for origin in origins]
    foreign = sites not in ([], ["same-origin"], ["none"]) or len(found) > 1 or None in found
    # The browser is right about its own page, even if a proxy has changed the host name.
    if sites != ["same-origin"]:
        foreign = foreign or any(origin["authority"] != host for origin in found if origin)
    if foreign:
        raise RefusedError(403, "a page from elsewhere may not ask: use this service's own page, or a program")


def _check_token(sent: list[str], token: str) -> None:
    """Refuse a request without the token. Digests are compared, so that time says nothing about the token."""
    scheme, _, given = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    if scheme.lower() != "bearer":
        raise RefusedError(401, "this service needs a token: send the header `Authorization: Bearer TOKEN`")
    if not compare_digest(_digest(given.strip()), _digest(token)):
        raise RefusedError(401, "this is not the token of this service: ask its operator for the token")


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def read_token(file: Path | None) -> str | None:
    """Return the token in a file, or else in the environment; None if there is none. The file has one line."""
    if file is None:
        found = os.environ.get(TOKEN)
        return None if found is None else _checked(found, TOKEN)
    try:
        with file.open("rb") as opened:
            content = opened.read(MOST + 2)
    except OSError as error:
        raise InputError(
            f"the token file {file} cannot be read: {error.strerror or error}. Write a token into it, for instance "
            f"with `openssl rand -hex 32 > {file}`, and keep others from reading it."
        ) from error
    return _checked(content.decode("latin-1").rstrip("\r\n"), f"the token file {file}")


def _checked(token: str, where: str) -> str:
    """Return a token if it can be sent in a header and is hard to guess. The error does not repeat it."""
    if not LEAST <= len(token) <= MOST:
        found = f"more than {MOST:,}" if len(token) > MOST else f"{len(token)}"
        raise InputError(
            f"{where} has a token of {found} characters, expected {LEAST} to {MOST:,}: make one with "
            f"`openssl rand -hex 32`"
        )
    if not _TOKEN.fullmatch(token):
        raise InputError(
            f"{where} has a token with characters other than letters, digits and ._~+/-: make one with "
            f"`openssl rand -hex 32`"
        )
    return token

"""The web page: a few files that are read once, so that no path from a client reaches the file system."""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI, Request, Response

PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/static/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/static/combobox.js": ("combobox.js", "text/javascript; charset=utf-8"),
    "/static/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
    "/static/style.css": ("style.css", "text/css; charset=utf-8"),
    "/static/icon.svg": ("icon.svg", "image/svg+xml"),
}


def add_pages(app: FastAPI) -> None:
    """Add the page, its script and style, and the list of endpoints."""
    for path, (name, media_type) in PAGES.items():
        content = files("relens.serve").joinpath("static", name).read_bytes()
        app.add_route(path, _sender(content, media_type), methods=["GET"], include_in_schema=False)


def _sender(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        del request
        return Response(content, media_type=media_type)

    return send

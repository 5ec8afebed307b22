"""A service without models, and a client that talks to it over the network."""

from collections.abc import Iterator

import pytest

from tests.patience import HANG

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
httpx = pytest.importorskip("httpx")


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where a service listens for as long as the tests run."""
    from tests.serve.answers import Alphabetical
    from tests.serve.serving import serving

    with serving(Alphabetical()) as found:
        yield found


@pytest.fixture(scope="session")
def client(address: str) -> "Iterator[httpx.Client]":
    """A client of that service."""
    with httpx.Client(base_url=address, timeout=HANG) as client:
        yield client

"""Host names, origins and tokens: who is answered, and who is refused."""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest

from relens.errors import InputError
from relens.serve.access import read_token
from tests.patience import HANG
from tests.serve.answers import Alphabetical
from tests.serve.serving import raw, serving

ONE = {"head": "ada", "relation": "likes"}
TOKEN = "an-honest+token/of~41._characters-and=="


# ---- hosts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io:8765", "localhost.evil:1",
             "127.1", "0.0.0.0", "2130706433", "[::ffff:127.0.0.1]", "[::2]"],
)  # fmt: skip
def test_a_page_that_pretends_to_be_this_host_is_refused(client, host):
    for path in ("/api/health", "/", "/metrics"):
        response = client.get(path, headers={"Host": host})
        assert response.status_code == 421
        assert "answers to 127.0.0.1 and ::1 and localhost" in response.json()["error"]


@pytest.mark.parametrize(
    "host", ["", "localhost.", "127.0.0.1.", "user@localhost", "evil.example@localhost", "localhost/", "localhost:",
             "localhost:123456", "localhost:1:2", "localhost:x", "[::1", "::1]", "::1", "[[::1]]", "[localhost]",
             "localhost, evil.example", "local host", "localhost:²", "http://localhost"],
)  # fmt: skip
def test_a_malformed_host_is_refused(address, host):
    status, answer = raw(address, f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1"))
    assert status == 400
    assert b"the header Host is malformed: expected a name or an address, and maybe a port" in answer


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:8765", "[::1]:8765", "[::1]"])
def test_names_of_the_loopback_are_accepted(client, host):
    assert client.get("/api/health", headers={"Host": host}).status_code == 200


def test_any_wellformed_host_is_accepted_where_none_is_named():
    with serving(Alphabetical(), hosts=None) as address, httpx.Client(base_url=address, timeout=HANG) as client:
        assert client.get("/api/health", headers={"Host": "my-lab_1.example:80"}).status_code == 200
        assert client.get("/api/health", headers={"Host": "my.lab."}).status_code == 400


# ---- origins -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "CROSS-SITE"},
        {"Sec-Fetch-Site": "Same-Site"},
        {"Sec-Fetch-Site": "SAME-ORIGIN"},
        {"Sec-Fetch-Site": "none, cross-site"},
        {"Sec-Fetch-Site": ""},
        {"Sec-Fetch-Site": "nonsense"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "NULL"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://evil.com://OWN"},
        {"Origin": "http://OWN.evil.com"},
        {"Origin": "http://evil.com/OWN"},
        {"Origin": "http://evil.com#OWN"},
        {"Origin": "http://evil.com\\OWN"},
        {"Origin": "http://user@OWN"},
        {"Origin": "http://OWN@evil.com"},
        {"Origin": "http://user:secret@OWN"},
        {"Origin": "HTTP://OWN"},
        {"Origin": "http://OWN/"},
        {"Origin": "http://OWN, http://evil.com"},
        {"Origin": "http://evil.com http://OWN"},
        {"Origin": "ftp://OWN"},
        {"Origin": "file://OWN"},
        {"Origin": "//OWN"},
        {"Origin": "OWN"},
        {"Origin": "://OWN"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1.:PORT"},
        {"Origin": "http://localhost:PORT"},
        {"Origin": "http://[::1]:PORT"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://evil.com://OWN", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "http://evil.com", "Sec-Fetch-Site": "none"},
    ],
)
def test_a_page_from_elsewhere_may_not_ask(client, address, headers):
    own = urlsplit(address)
    headers = {key: value.replace("OWN", own.netloc).replace("PORT", str(own.port)) for key, value in headers.items()}
    responses = [
        client.get("/api/predict", params=ONE, headers=headers),
        client.post("/api/predict", json={"queries": [ONE]}, headers=headers),
        client.options("/api/predict", headers=headers),
        client.get("/metrics", headers=headers),
        client.get("/openapi.json", headers=headers),
    ]
    for response in responses:
        assert response.status_code == 403
        message = "a page from elsewhere may not ask: use this service's own page, or a program"
        assert response.json() == {"error": message, "closest": []}
    assert client.get("/", headers=headers).status_code == 200  # a link from elsewhere leads to the page


@pytest.mark.parametrize("host", ["LOCALHOST:1234", "localhost:1234"])
@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:1234", 200), ("http://LOCALHOST:1234", 403), ("http://localhost.:1234", 403)],
)
def test_browsers_write_origins_in_lower_case(client, host, origin, status):
    assert client.get("/api/health", headers={"Host": host, "Origin": origin}).status_code == status


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site"])
def test_headers_about_the_page_may_not_be_repeated(address, name):
    own = {"Origin": address.rstrip("/"), "Sec-Fetch-Site": "same-origin"}[name]
    status, _ = raw(
        address,
        f"GET /api/health HTTP/1.1\r\nHost: {urlsplit(address).netloc}\r\nConnection: close\r\n"
        f"{name}: {own}\r\n{name}: {own}\r\n\r\n".encode(),
    )
    assert status == 403


def test_the_own_page_may_ask(client, address):
    own = address.rstrip("/")
    behind_a_proxy = {"Origin": "https://my.lab", "Sec-Fetch-Site": "same-origin"}
    for headers in ({"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                    behind_a_proxy):  # fmt: skip
        assert client.get("/api/health", headers=headers).status_code == 200


# ---- tokens --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def closed() -> Iterator[httpx.Client]:
    """A client of a service with a token, which the client does not send."""
    with serving(Alphabetical(), token=TOKEN) as address, httpx.Client(base_url=address, timeout=HANG) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/api/predict?head=ada&relation=likes", "/api/run", "/api/entities", "/metrics", "/openapi.json", "/none",
             "/api/health/", "//api/health", "/api/health%2f", "/API/HEALTH", "/static/none.js"],
)  # fmt: skip
def test_a_service_with_a_token_refuses_requests_without_it(closed, path):
    for method in ("GET", "HEAD", "POST", "DELETE"):
        response = closed.request(method, path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == 'Bearer realm="relens"'
    assert closed.get(path).json()["error"] == (
        "this service needs a token: send the header `Authorization: Bearer TOKEN`"
    )


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_opens_the_service(closed, scheme):
    headers = {"Authorization": f"{scheme} {TOKEN}"}
    assert closed.get("/api/predict", params=ONE, headers=headers).status_code == 200
    assert closed.post("/api/predict", json={"queries": [ONE]}, headers=headers).status_code == 200
    assert closed.get("/metrics", headers=headers).status_code == 200
    assert closed.get("/nowhere", headers=headers).status_code == 404


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (f"Bearer {TOKEN}x", "this is not the token"),
        (f"Bearer {TOKEN[:-1]}", "this is not the token"),
        (f"Bearer {TOKEN.upper()}", "this is not the token"),
        (f"Bearer {TOKEN} {TOKEN}", "this is not the token"),
        ("Bearer", "this is not the token"),
        ("Bearer é", "this is not the token"),
        (f"Basic {TOKEN}", "this service needs a token"),
        (TOKEN, "this service needs a token"),
        (f"Bearer{TOKEN}", "this service needs a token"),
    ],
)
def test_another_token_does_not(closed, sent, message):
    response = closed.get("/api/run", headers={"Authorization": sent.encode("latin-1")})
    assert (response.status_code, response.json()["error"].startswith(message)) == (401, True)
    assert TOKEN[:10] not in response.text


def test_two_tokens_are_none(closed):
    headers = [("Authorization", f"Bearer {TOKEN}")] * 2
    assert closed.get("/api/run", headers=headers).status_code == 401


def test_pages_and_health_need_no_token_and_say_nothing_about_the_run(closed):
    for path in ("/", "/docs", "/static/page.js", "/static/requests.js", "/api/health"):
        response = closed.get(path)
        assert response.status_code == 200
        assert "tiny" not in response.text
        assert "circle" not in response.text


# ---- where a token comes from --------------------------------------------------------------------------------------


def test_a_token_is_read_from_a_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("RELENS_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("RELENS_TOKEN", TOKEN)
    assert read_token(None) == TOKEN
    file = tmp_path / "token"
    for end in ("", "\n", "\r\n"):
        file.write_bytes(f"from-a-file-{TOKEN}{end}".encode())
        assert read_token(file) == f"from-a-file-{TOKEN}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has a token of 0 characters, expected 16 to 1,024: make one with `openssl rand -hex 32`"),
        (b"secret\n", "has a token of 6 characters"),
        (b"secret" * 1000, "has a token of more than 1,024 characters, expected 16 to 1,024"),
        (b"secret secret secret", "has a token with characters other than letters, digits and ._~+/-: make one"),
        (b"secretsecretsecret\nsecond", "has a token with characters other than"),
        (b"\xff\xfe" * 20, "has a token with characters other than"),
    ],
)
def test_a_poor_token_is_refused_and_not_repeated(tmp_path, monkeypatch, content, message):
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(InputError, match=re.escape(f"the token file {file} has a token")) as caught:
        read_token(file)
    assert message in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_empty_token_in_the_environment_is_not_taken_for_none(monkeypatch):
    monkeypatch.setenv("RELENS_TOKEN", "")
    with pytest.raises(InputError, match="RELENS_TOKEN has a token of 0 characters, expected 16"):
        read_token(None)


def test_a_token_file_that_is_none_is_refused(tmp_path):
    for file in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match=rf"the token file {re.escape(str(file))} cannot be read: .*openssl rand"):
            read_token(file)

"""`repobook serve`: this machine only, nothing outside the site, bad requests answered and survived."""

import http.client
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Repository
from test_site import TREE, build_site

from repobook.config import ConfigError
from repobook.serve import make_server


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / "tree"
    root.mkdir()
    repository = Repository(root, root / "book").write(TREE)
    build_site(repository)
    return repository.output


@pytest.fixture(scope="module")
def port(book: Path) -> Iterator[int]:
    server = make_server(book, 0)
    assert server.server_address[0] == "127.0.0.1"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())
    finally:
        connection.close()


def test_pages_and_live_search(port: int) -> None:
    status, text, headers = ask(port, "/pkg/core.py_docs.html")
    assert status == 200 and b"Engine" in text and headers["X-Content-Type-Options"] == "nosniff"
    status, text, _ = ask(port, "/api/search?q=eng")
    assert status == 200 and json.loads(text)[0]["qualified"] == "Engine"
    assert ask(port, "/assets/search.js")[1].startswith(b"window.repobookLive = true;")
    assert ask(port, "/pkg/core.py_docs.html", "HEAD")[:2] == (200, b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "", "localhost@evil", "0.0.0.0"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_other_names_are_refused(port: int, host: str, method: str) -> None:
    for path in ("/index.html", "/api/search?q=eng"):
        assert ask(port, path, method, Host=host)[0] == 403


def test_pages_of_other_origins_are_refused(port: int) -> None:
    assert ask(port, "/api/search?q=eng", Origin="https://evil.example")[0] == 403
    assert ask(port, "/api/search?q=eng", Origin="null")[0] == 403
    assert ask(port, "/api/search?q=eng", Origin=f"http://127.0.0.1:{port}")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/../.repobook/model.sqlite", "/..%2f.repobook/model.sqlite", "/%2e%2e/%2e%2e/pkg/core.py", "/....//index.md",
        "//etc/passwd", "/..\\..\\x", "/%00", "/pkg/", "/pkg/%ff%fe", "/" + "a" * 3000, "/pkg/core.py_docs.html/",
        "/api/", "/http://evil.example/",
    ],
)  # fmt: skip
def test_nothing_outside_the_site(port: int, path: str) -> None:
    status, text, _ = ask(port, path)
    # A folder that has an index shows it; nothing else is found.
    assert status in (400, 404) or (path == "/pkg/" and status == 200)
    assert b"SQLite format" not in text and b"root:" not in text and b"class Engine" not in text


def test_links_out_of_the_site_are_not_followed(book: Path, port: int) -> None:
    (book.parent / "secret.txt").write_text("secret")
    os.symlink(book.parent / "secret.txt", book / "html/out.html")
    try:
        assert ask(port, "/out.html")[0] == 404
    finally:
        (book / "html/out.html").unlink()


@pytest.mark.parametrize(
    "query",
    ["", "%22", "*", "a%20OR%20b", "%27%3B%20DROP%20TABLE%20symbols", "%00", "%ff", "x" * 5000, "NEAR(a", "-", "^a"],
)
def test_searches_that_are_no_words(port: int, query: str) -> None:
    status, text, _ = ask(port, "/api/search?q=" + query)
    assert status == 200 and isinstance(json.loads(text), list)


def test_other_methods_and_broken_requests(port: int) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(port, "/index.html", method)[0] == 501
    assert ask(port, "/index.html")[0] == 200


def test_a_port_in_use_is_said_plainly(book: Path, port: int) -> None:
    for taken in (port, 70_000):
        with pytest.raises(ConfigError, match="--port chooses another"):
            make_server(book, taken)

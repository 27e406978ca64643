"""`repobook serve`: the site on this machine only, with live search from the model.

It listens on the loopback address and answers only requests that name it, so that no page elsewhere can reach it
through a name that leads here. It reads files of the site and the model; it writes nothing.
"""

import json
import os
import sqlite3
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from repobook import ask
from repobook.build import database
from repobook.config import ConfigError
from repobook.model import store
from repobook.naming import page_base

HOST = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
_QUERY = 200  # characters of a search that are looked at
_LIMIT = 40  # rows of an answer
# Told to the page before its own script: ask the server instead of the shards.
_LIVE = b"window.repobookLive = true;\n"


class Handler(SimpleHTTPRequestHandler):
    """Files of the site, and `/api/search?q=`."""

    server_version = "repobook"
    sys_version = ""

    def __init__(self, *arguments: object, book: Path, **settings: object) -> None:
        self.book = book
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if not self._from_here():
            self.send_error(HTTPStatus.FORBIDDEN, "local only")
            return
        try:
            split = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "not an address")
            return
        if split.path == "/api/search":
            self._search(parse_qs(split.query).get("q", [""])[0][:_QUERY], body)
        elif split.path == "/assets/search.js":
            path = os.path.join(self.directory, "assets", "search.js")
            with open(path, "rb") as file:
                self._send("text/javascript", _LIVE + file.read(), body)
        elif body:
            super().do_GET()
        else:
            super().do_HEAD()

    def _from_here(self) -> bool:
        """True if the request names this machine and comes from no page of another."""
        host = (self.headers.get("Host") or "").rpartition(":")
        if (host[0] or host[2]) not in _NAMES:
            return False
        origin = self.headers.get("Origin")
        return origin is None or urlsplit(origin).netloc == self.headers.get("Host")

    def _search(self, words: str, body: bool) -> None:
        try:
            db: sqlite3.Connection = store.connect(database(self.book), readonly=True)
            try:
                rows = [row.row() | {"page": page_base(row.path)} for row in ask.search(db, words, _LIMIT)]
            finally:
                db.close()
        except sqlite3.Error as error:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, f"the model cannot be read: {error}")
            return
        self._send("application/json", json.dumps(rows).encode(), body)

    def _send(self, kind: str, data: bytes, body: bool) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)

    def end_headers(self) -> None:
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        """A file of the site, or a name that is none: links that lead out of it are not followed."""
        found = super().translate_path(path)
        site = os.path.realpath(self.directory)
        if "\0" not in found and (os.path.realpath(found) + os.sep).startswith(site + os.sep):
            return found
        return os.path.join(site, "no such page")

    def list_directory(self, path: object) -> None:
        self.send_error(HTTPStatus.NOT_FOUND, "no such page")

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: the terminal is for the address."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no error."""


def make_server(output: Path, port: int) -> ThreadingHTTPServer:
    from repobook.site.build import FOLDER

    try:
        return Server((HOST, port), partial(Handler, directory=str(output / FOLDER), book=output))
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"repobook: cannot listen on {HOST}:{port}: {error}; --port chooses another, 0 any that is free"
        ) from None

"""`repobook serve`: the site on this machine only, with live search from the model."""

import json
import sqlite3
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from repobook import ask
from repobook.build import database
from repobook.model import store

_HOST = "127.0.0.1"


class Handler(SimpleHTTPRequestHandler):
    """Files of the site, and `/api/search?q=`. Other hosts' names are refused, so no page elsewhere can read it."""

    def __init__(self, *arguments: object, book: Path, **settings: object) -> None:
        self.book = book
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        host = (self.headers.get("Host") or "").partition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self.send_error(403, "local only")
            return
        split = urlsplit(self.path)
        if split.path == "/api/search":
            self._search(parse_qs(split.query).get("q", [""])[0])
            return
        super().do_GET()

    def _search(self, words: str) -> None:
        db: sqlite3.Connection = store.connect(database(self.book), readonly=True)
        try:
            data = json.dumps([row.row() for row in ask.search(db, words, 30)]).encode()
        finally:
            db.close()
        self.send_response(200)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def list_directory(self, path: object) -> None:
        self.send_error(404, "no such page")

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet: the terminal is for the address."""


def make_server(output: Path, port: int) -> ThreadingHTTPServer:
    from repobook.site.build import FOLDER

    return ThreadingHTTPServer((_HOST, port), partial(Handler, directory=str(output / FOLDER), book=output))

"""A web server inside a test that publishes a key set, well or badly."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class KeyServer:
    """Answers every question with `body` and `status`; with `held`, not before that is set.

    Attributes:
        questions: How many came.
    """

    def __init__(self) -> None:
        self.body = b""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.held: threading.Event | None = None
        self.dripping = False
        self.questions = 0
        self.asked = threading.Event()
        self.url = ""


@contextmanager
def key_server(body: bytes, *, context: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """Serve on a free port of this machine; with a context, by TLS."""
    told = KeyServer()
    told.body = body
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Answers, told))
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    scheme = "http" if context is None else "https"
    told.url = f"{scheme}://127.0.0.1:{server.server_address[1]}/keys.json?of=all"
    try:
        yield told
    finally:
        if told.held is not None:
            told.held.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Answers(BaseHTTPRequestHandler):
    def __init__(self, told: KeyServer, *connection: Any) -> None:
        self._told = told
        with contextlib.suppress(OSError):  # who asked has hung up
            super().__init__(*connection)

    def do_GET(self) -> None:
        told = self._told
        told.questions += 1
        told.asked.set()
        if told.held is not None:
            told.held.wait(30)
        self.send_response(told.status)
        for name, value in told.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(told.body)))
        self.end_headers()
        if told.dripping:
            self._drip()
        else:
            self.wfile.write(told.body)

    def _drip(self) -> None:
        """A byte now and then, so that no single read of the other side takes long."""
        over = threading.Event()
        for each in self._told.body:
            self.wfile.write(bytes([each]))
            self.wfile.flush()
            over.wait(0.05)

    def log_message(self, format: str, *args: object) -> None:
        pass

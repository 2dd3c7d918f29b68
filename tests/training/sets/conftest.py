from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Mirror:
    """A server of files on this machine that may misbehave.

    Args:
        files: Name to content.
        cut: Name to after how many bytes the connection breaks, once.
        resumes: Whether it can send a part of a file.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: dict[str, int] = {}
        self.resumes = True
        self.asked: list[tuple[str, str | None, int]] = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mirror.answer(self)

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path.strip("/"), handler.headers.get("Range")
        content = self.files.get(name)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.resumes else 0
        status = 404 if content is None else 416 if start and start >= len(content) else 206 if start else 200
        self.asked.append((name, wanted, status))
        body = (content or b"")[start:] if status < 400 else b""
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: self.cut.pop(name, len(body))])

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    made = Mirror()
    yield made
    made.close()


@pytest.fixture
def other_mirror() -> Iterator[Mirror]:
    made = Mirror()
    yield made
    made.close()

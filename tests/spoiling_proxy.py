"""A proxy that spoils every JSON reply of a server, to prove that a check of the replies can fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

_OF_THE_CONNECTION = {"connection", "content-length", "date", "host", "server", "transfer-encoding"}


@contextmanager
def spoiled(url: str, spoil: Callable[[Any], None]) -> Iterator[str]:
    """The base URL of a proxy in front of `url`; `spoil` changes a reply's JSON in place."""
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _forward(self) -> None:
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                reply = client.request(
                    self.command, self.path, content=sent, headers=_passed_on(self.headers)
                )
                tree = reply.json()
                spoil(tree)
                body = json.dumps(tree).encode()
                self.send_response(reply.status_code)
                for name, value in _passed_on(reply.headers).items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _forward  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.daemon_threads = True
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}"
            finally:
                server.shutdown()
                thread.join()


def _passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_THE_CONNECTION}

"""A server on the loopback interface that speaks the OpenAI chat protocol and answers from a table."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def server(
    answers: dict[str, list[str]], status: int = 200, *, streams: bool | None = True, pause: float = 0.0
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serves recorded answers by prompt text, picked by the request's seed; gives its URL and what it was sent.

    ``streams`` says whether it streams where it is asked to; None refuses such a request. ``pause`` is the seconds
    between two pieces of a stream."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append({"path": self.path, "key": self.headers["Authorization"], "at": time.monotonic(), **body})
            if status != 200:
                return self.reply(status, {"error": {"message": "refused by the test"}})
            if streams is None and body.get("stream"):
                return self.reply(400, {"error": {"message": "no streams here"}})
            held = answers[body["messages"][0]["content"]]
            text = held[body["seed"] % len(held)]
            if streams and body.get("stream"):
                return self.stream(body["model"], text)
            message = {"role": "assistant", "content": text}
            self.reply(
                200,
                {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": body["model"],
                    "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
                },
            )

        def stream(self, model: str, text: str) -> None:
            """In pieces of ten characters, and the count of tokens last (OpenAI API reference, streaming)."""
            pieces = [text[n : n + 10] for n in range(0, len(text), 10)]
            chunks: list[dict[str, Any]] = [
                {"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces
            ]
            chunks.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # a client may have had enough
                for chunk in chunks:
                    whole = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": model, **chunk}
                    self.wfile.write(f"data: {json.dumps(whole)}\n\n".encode())
                    self.wfile.flush()
                    time.sleep(pause)
                self.wfile.write(b"data: [DONE]\n\n")

        def reply(self, code: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/v1", seen
        finally:
            http.shutdown()
            thread.join()

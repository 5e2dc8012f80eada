"""A language model's API that streams a text token by token, as a process of its own.

python -m tests.clients.llm_process TOKENS_PER_S TEXT
"""

from __future__ import annotations

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


def main(tokens_per_s: str, text: str) -> None:
    tokens = re.findall(r"\s?\w{1,4}|\s?[^\w\s]", text)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for token in tokens:
                time.sleep(1 / float(tokens_per_s))
                choice = {"index": 0, "delta": {"content": token}, "finish_reason": None}
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
                self.wfile.write(f"data: {json.dumps(chunk | {'choices': [choice]})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

    server = HTTPServer(("127.0.0.1", 0), Handler)
    print(f"ready {server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

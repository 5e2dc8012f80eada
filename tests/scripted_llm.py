"""A chat model's API that answers by a script, as a process of its own.

python -m tests.scripted_llm PORT [FIRST_TOKEN_MS [TOKENS_PER_S [NUM_TIMES [REPLY]]]]

The last message decides, line by line:

    say TEXT              answer with this text
    think FIELD TEXT      reason in that field of the stream's deltas
    call NAME ARGUMENTS   call this function
    status CODE           refuse with this status
    break                 end the connection in the middle
    hang                  say nothing more
    wait                  say nothing more until ``/go`` is asked for
    stop REASON           the finish reason, else "stop" or "tool_calls"

A word that is the name of a tool of the request calls it. Anything else is answered by REPLY, or
without one by "You said: ..." and those words, NUM_TIMES over; a tool's result by "It is: ...".

``GET /asked`` shows the bodies so far, ``GET /times`` for each of them, in seconds of
CLOCK_MONOTONIC, when it came and when each token of its answer was sent. ``GET /go`` lets all go on
that wait, now and later. ``GET /reads/N/SERVER``: from now on it reads N tokens, of four characters
of the messages each, and refuses more as that server would; 0: it reads everything.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


def main(
    port: str,
    first_token_ms: str = "0",
    tokens_per_s: str = "0",
    num_times: str = "1",
    reply: str = "",
) -> None:
    Handler.first_token_s = float(first_token_ms) / 1000
    Handler.token_s = 1 / float(tokens_per_s) if float(tokens_per_s) else 0.0
    Handler.num_times, Handler.reply = round(float(num_times)), reply
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    print(f"ready {server.server_address[1]}", flush=True)
    server.serve_forever()


class Handler(BaseHTTPRequestHandler):
    first_token_s: ClassVar[float] = 0.0
    token_s: ClassVar[float] = 0.0
    num_times: ClassVar[int] = 1
    reply: ClassVar[str] = ""
    asked: ClassVar[list[dict[str, Any]]] = []
    times: ClassVar[list[dict[str, Any]]] = []
    may_go_on: ClassVar[threading.Event] = threading.Event()
    reads: ClassVar[int] = 0
    refuses_as: ClassVar[str] = ""

    def do_GET(self) -> None:
        if "/reads/" in self.path:
            reads, Handler.refuses_as = self.path.split("/")[-2:]
            Handler.reads = int(reads)
        if self.path.endswith("/go"):
            Handler.may_go_on.set()
        self._answer(200, Handler.times if self.path.endswith("/times") else Handler.asked)

    def do_POST(self) -> None:
        self._token_times: list[float] = []
        Handler.times.append({"asked_at": time.monotonic(), "tokens_at": self._token_times})
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        Handler.asked.append(body | {"key": self.headers.get("authorization")})
        num_read = sum(len(_text(message)) for message in body["messages"]) // 4
        if 0 < Handler.reads < num_read:
            self._answer(*REFUSALS[Handler.refuses_as](Handler.reads, num_read))
            return
        last, tools = body["messages"][-1], body.get("tools") or []
        script = _script(last) or _named(last, tools) or [("say", self._reply_to(last))]
        for word, rest in script:
            if word == "status":
                message = {"message": "as the script says", "type": "invalid_request_error"}
                self._answer(int(rest), {"error": message})
                return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        time.sleep(Handler.first_token_s)
        with contextlib.suppress(ConnectionError):  # whoever asked has heard enough
            self._stream(script)

    def _reply_to(self, message: dict[str, Any]) -> str:
        repeated = " ".join([f"You said: {_text(message)}"] * Handler.num_times)
        return Handler.reply or repeated

    def _stream(self, script: list[tuple[str, str]]) -> None:
        reason, num_tokens, num_calls = "stop", 0, 0
        self._chunk({"role": "assistant", "content": ""})
        for word, rest in script:
            if word == "say":
                for token in tokens_of(rest):
                    if num_tokens:
                        time.sleep(Handler.token_s)
                    num_tokens += 1
                    self._chunk({"content": token})
                    self._token_times.append(time.monotonic())
            elif word == "think":
                field, _, text = rest.partition(" ")
                self._chunk({"content": None, field: text})
            elif word == "call":
                reason = "tool_calls"
                self._call(num_calls, *rest.split(" ", 1))
                num_calls += 1
            elif word == "break":
                return
            elif word == "hang":
                threading.Event().wait()
            elif word == "wait":
                Handler.may_go_on.wait()
            elif word == "stop":
                reason = rest
        self._chunk({}, finish_reason=reason)
        usage = {"prompt_tokens": 11, "completion_tokens": num_tokens}
        self._send({"choices": [], "usage": usage | {"total_tokens": 11 + num_tokens}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _call(self, index: int, name: str, arguments: str = "{}") -> None:
        function = {"name": name, "arguments": ""}
        start = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        self._chunk({"tool_calls": [start]})
        for part in re.findall(r".{1,5}", arguments):
            self._chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        self._send({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    def _send(self, fields: dict[str, Any]) -> None:
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        self.wfile.write(f"data: {json.dumps(chunk | fields)}\n\n".encode())
        self.wfile.flush()

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


# How servers refuse more tokens than they read: status and body.
REFUSALS: dict[str, Callable[[int, int], tuple[int, Any]]] = {
    "openai": lambda reads, asked: (
        400,
        {
            "error": {
                "message": f"{asked} tokens are too many.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "vllm": lambda reads, asked: (
        400,
        {
            "error": {
                "message": f"This model's maximum context length is {reads} tokens, not {asked}.",
                "type": "BadRequestError",
                "param": "input_tokens",
                "code": 400,
            }
        },
    ),
    "llama.cpp": lambda reads, asked: (
        400,
        {
            "error": {
                "code": 400,
                "message": "too long",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": asked,
                "n_ctx": reads,
            }
        },
    ),
    "ollama": lambda reads, asked: (
        500,
        {"error": json.dumps(REFUSALS["llama.cpp"](reads, asked)[1])},
    ),
}


def tokens_of(text: str) -> list[str]:
    """The tokens in which a text is written."""
    return re.findall(r"\s?\w{1,4}|\s?[^\w\s]|\s", text)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return str(content if isinstance(content, str) else content[0].get("text", ""))


def _script(message: dict[str, Any]) -> list[tuple[str, str]]:
    """What a message tells to do; nothing if it is no script."""
    text = _text(message)
    if message["role"] == "tool":
        return [("say", f"It is: {text}.")]
    words = ("say", "think", "call", "status", "break", "hang", "wait", "stop")
    lines = [line.partition(" ") for line in text.splitlines()]
    script = [(word, rest.encode().decode("unicode_escape")) for word, _, rest in lines]
    if script and all(word in words for word, _ in script):
        return script
    return []


def _named(message: dict[str, Any], tools: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Calls of the tools that a message names."""
    words = re.findall(r"\w+", _text(message).lower())
    return [("call", name) for tool in tools if (name := tool["function"]["name"]) in words]


if __name__ == "__main__":
    main(*sys.argv[1:])

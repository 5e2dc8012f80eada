// The protocol of /v1/audio/speech/stream: one connection, one utterance.

import { openSocket } from "./api.js";

// The server takes 128 Ki characters a message, and JSON may write one as six.
const MAX_MESSAGE_CHARS = 16_384;

/**
 * Speaks one text. `on` holds a function for each of `audio` (ArrayBuffer of int16 LE), `words`,
 * `done`, `cancelled`, `error` (each with the server's event) and `closed` (a reason; only if nobody
 * called `close`).
 */
export class SpeechSocket {
  #socket;
  #on;

  constructor(url, key, on) {
    this.#on = on;
    this.#socket = openSocket(url, "voxloom", key);
    this.#socket.binaryType = "arraybuffer";
    this.#socket.onmessage = (message) => this.#receive(message.data);
    this.#socket.onclose = (event) => this.#on.closed(event.reason);
  }

  speak(config, text) {
    this.#socket.onopen = () => {
      this.#send("session.config", config);
      for (const part of parts(text)) this.#send("input.text", { text: part });
      this.#send("input.done");
    };
  }

  /** Stop; `playedMs` is what the listener has heard. False if nobody is there to answer. */
  cancel(playedMs) {
    if (this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#send("input.cancel", { played_ms: playedMs });
    return true;
  }

  close() {
    this.#socket.onclose = this.#socket.onmessage = this.#socket.onopen = null;
    this.#socket.close();
  }

  #send(type, fields = {}) {
    this.#socket.send(JSON.stringify({ type, ...fields }));
  }

  #receive(data) {
    if (data instanceof ArrayBuffer) {
      this.#on.audio(data);
      return;
    }
    const event = JSON.parse(data);
    const names = {
      "audio.words": "words",
      "session.done": "done",
      "input.cancelled": "cancelled",
      error: "error",
    };
    const name = names[event.type];
    if (name) this.#on[name](event);
  }
}

/** The text in pieces that fit into a message, none of which splits a character. */
function* parts(text) {
  for (let start = 0; start < text.length; ) {
    let end = Math.min(text.length, start + MAX_MESSAGE_CHARS);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    yield text.slice(start, end);
    start = end;
  }
}

const isHighSurrogate = (unit) => unit >= 0xd800 && unit < 0xdc00;

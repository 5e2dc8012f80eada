// The protocol of /v1/realtime: one connection, one conversation.

import { openSocket } from "./api.js";

// Twenty seconds of sound in base64. Whoever is so far behind is not in a conversation any more.
const MAX_WAITING_BYTES = 1_300_000;

/** `on.event` gets each of the server's events, `on.closed` a reason if nobody called `close`. */
export class RealtimeSocket {
  #socket;
  #on;

  constructor(url, key, on) {
    this.#on = on;
    this.#socket = openSocket(url, "realtime", key);
    this.#socket.onmessage = (message) => on.event(JSON.parse(message.data));
    this.#socket.onclose = (event) => on.closed(event.reason);
  }

  /** Events for a server that is not there any more are dropped. */
  send(event) {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify(event));
    if (this.#socket.bufferedAmount <= MAX_WAITING_BYTES) return;
    this.close();
    this.#on.closed("The connection is too slow for a conversation");
  }

  close() {
    this.#socket.onclose = this.#socket.onmessage = null;
    this.#socket.close();
  }
}

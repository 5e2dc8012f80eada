// The server's HTTP routes, and its errors in plain words.

/** The server's root: the page works behind any path prefix. */
const ROOT = new URL("..", import.meta.url);
// A browser cannot set headers on a WebSocket.
const KEY_SUBPROTOCOL = "openai-insecure-api-key.";

/** An error whose message can be shown as it is. */
export class PlainError extends Error {}

/** The server answered 401. */
export class KeyError extends PlainError {}

export class Api {
  key = "";

  url(path) {
    return new URL(path, ROOT);
  }

  socketUrl(path) {
    const url = this.url(path);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url;
  }

  /** The voices, the default one first. */
  async voices() {
    return (await (await this.#ask("v1/audio/voices")).json()).voices;
  }

  /** The model's name. Throws `KeyError` if the server wants a key that it did not get. */
  async model() {
    return (await (await this.#ask("v1/models")).json()).data[0].id;
  }

  /** Whether the server holds conversations (`talks`), and in which `voices`. */
  async talk() {
    return (await this.#ask("page/talk")).json();
  }

  /** A file of speech, as a Blob. `body` is that of `POST /v1/audio/speech`. */
  async speech(body) {
    return (await this.#ask("v1/audio/speech", body)).blob();
  }

  async subtitles(body) {
    return (await this.#ask("v1/audio/speech/subtitles", body)).blob();
  }

  async #ask(path, body) {
    const headers = this.key ? { Authorization: `Bearer ${this.key}` } : {};
    const options = { headers };
    if (body) {
      headers["Content-Type"] = "application/json";
      Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    }
    const response = await fetch(this.url(path), options).catch(() => {
      throw new PlainError("The server cannot be reached. Is it running?");
    });
    if (!response.ok) throw await toPlainError(response, this.key);
    return response;
  }
}

/** A WebSocket that shows the key, if there is one. */
export function openSocket(url, protocol, key) {
  return new WebSocket(url, key ? [protocol, KEY_SUBPROTOCOL + key] : [protocol]);
}

async function toPlainError(response, key) {
  if (response.status === 401) {
    return new KeyError(key ? "The server does not know this API key." : "The server needs an API key.");
  }
  const detail = await response.json().catch(() => ({}));
  return new PlainError(inPlainWords(detail.error ?? {}, response.headers.get("Retry-After")));
}

/** What an error object of the API says to a person. */
export function inPlainWords(error, retryAfterS = error.retry_after_s) {
  const message = error.message || "The server failed without saying why";
  const sentence = message.charAt(0).toUpperCase() + message.slice(1).replace(/[.\s]*$/, ".");
  return retryAfterS ? `${sentence} Try again in ${Math.ceil(retryAfterS)} s.` : sentence;
}

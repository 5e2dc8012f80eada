// The form: what is to be said and how, and the command that does the same.

import { KeyError, PlainError } from "./api.js";
import { curlCommand } from "./curl.js";
import { recall, remember } from "./memory.js";
import { SAMPLES } from "./samples.js";
import { VoiceList } from "./voices.js";

const SPEECH_PATH = "v1/audio/speech";

/** Reads the form. `onChange` is called after each change. */
export class Studio {
  #api;
  #parts;
  #voices;
  #onChange;

  constructor(api, parts, onChange) {
    this.#api = api;
    this.#parts = parts;
    this.#voices = new VoiceList(parts.voices);
    this.#onChange = onChange;
    parts.text.value = recall("text", SAMPLES.greeting);
    parts.speed.value = recall("speed", "0");
    parts.key.value = api.key = recall("key", "");
    parts.form.addEventListener("input", () => this.#changed());
    parts.key.addEventListener("change", () => remember("key", this.#readKey()));
    for (const chip of document.querySelectorAll("[data-sample]")) {
      chip.addEventListener("click", () => this.use(SAMPLES[chip.dataset.sample]));
    }
    this.#show();
  }

  get text() {
    return this.#parts.text.value;
  }

  /** What the API calls `voice` and `speed`. */
  get choices() {
    const voice = this.#voices.chosen;
    const speed = this.#speed();
    return { ...(voice && { voice }), ...(speed !== 1 && { speed }) };
  }

  use(text) {
    this.#parts.text.value = text;
    this.#parts.text.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /** `voices` as /v1/audio/voices lists them. */
  offerVoices(voices) {
    this.#voices.fill(voices, recall("voice", ""));
    this.#show();
  }

  fixVoice(isFixed) {
    this.#voices.fix(isFixed);
  }

  /** Throws `KeyError` if the server wants another key: a WebSocket cannot say so to a page. */
  async checkKey() {
    if (!this.#parts.keyPanel.hidden) await this.#api.model();
  }

  /** What went wrong, as a sentence; if it was the key, the page asks for one. */
  explain(error) {
    if (error instanceof KeyError) this.askForKey();
    if (error instanceof PlainError) return error.message;
    console.error(error);
    return `Something went wrong: ${error.message}`;
  }

  askForKey() {
    this.#parts.keyPanel.hidden = false;
    this.#show();
    this.#parts.key.focus();
  }

  #changed() {
    this.#readKey();
    remember("text", this.text);
    remember("speed", this.#parts.speed.value);
    if (this.#voices.chosen) remember("voice", this.#voices.chosen);
    this.#show();
    this.#onChange();
  }

  #readKey() {
    this.#api.key = this.#parts.key.value.trim();
    return this.#api.key;
  }

  /** The slider is logarithmic, so that half and double are equally far from normal. */
  #speed() {
    return Math.round(2 ** Number(this.#parts.speed.value) * 100) / 100;
  }

  #show() {
    const speed = `${this.#speed()}×`;
    this.#parts.speedValue.value = speed;
    this.#parts.speed.setAttribute("aria-valuetext", `${this.#speed()} times the normal speed`);
    const numChars = [...this.text].length;
    this.#parts.count.textContent = `${numChars.toLocaleString("en")} character${numChars === 1 ? "" : "s"}`;
    const body = { model: "tts-1", input: this.text, ...this.choices };
    const url = this.#api.url(SPEECH_PATH);
    this.#parts.curl.textContent = curlCommand(url, body, !this.#parts.keyPanel.hidden);
  }
}

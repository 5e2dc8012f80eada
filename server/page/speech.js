// One utterance from the button to its last sound: connection, tape and player together.

import { inPlainWords } from "./api.js";
import { Player } from "./player.js";
import { SpeechSocket } from "./socket.js";
import { SAMPLE_RATE } from "./sound.js";
import { Tape } from "./tape.js";

const SOCKET_PATH = "v1/audio/speech/stream";

/**
 * Phases: `waiting` (for the first audio), `speaking`, then one of `done`, `stopped` and `failed`.
 * `onChange(speech)` is called when the phase or anything else but the position has changed,
 * `onWords(words)` with words whose audio is coming.
 */
export class Speech {
  phase = "waiting";
  tape = new Tape(SAMPLE_RATE);
  warnings = [];
  /** In characters of the text and in ms: what the listener heard of a stopped speech. */
  heard = null;
  error = "";
  #socket;
  #player;
  #changed;
  #hasAllAudio = false;
  #startedAt = performance.now();
  #firstAt = 0;
  #lastAt = 0;

  /** `request`: text, voice, speed, seed. */
  constructor(api, context, request, { onChange, onWords }) {
    this.request = request;
    this.#changed = () => onChange(this);
    this.#player = new Player(context, this.tape, () => this.#finishPlaying());
    const { text, ...choices } = request;
    this.#socket = new SpeechSocket(api.socketUrl(SOCKET_PATH), api.key, {
      words: (event) => onWords(event.words),
      audio: (buffer) => this.#hear(buffer),
      done: (event) => this.#endAudio(event.warnings ?? []),
      cancelled: (event) => this.#stopped(event),
      error: (event) => this.#fail(inPlainWords(event)),
      closed: (reason) => this.#fail(reason ? inPlainWords({ message: reason }) : LOST),
    });
    this.#socket.speak({ ...choices, ...STREAM }, text);
  }

  get isLive() {
    return this.phase === "waiting" || this.phase === "speaking";
  }

  get isPlaying() {
    return this.#player.isPlaying;
  }

  /** In samples. */
  get position() {
    return this.#player.position;
  }

  get positionMs() {
    return (this.position / SAMPLE_RATE) * 1000;
  }

  /** Milliseconds to the first audio; seconds of audio; seconds of work for each of them. */
  get figures() {
    const audioS = this.tape.seconds;
    const ttfaMs = this.#firstAt ? this.#firstAt - this.#startedAt : null;
    const rtf = audioS ? (this.#lastAt - this.#startedAt) / 1000 / audioS : null;
    return { ttfaMs, audioS, rtf };
  }

  /** Play what there is from a sample on. */
  playFrom(sample) {
    this.#player.play(sample);
    this.#changed();
  }

  /** The listener has heard enough. */
  stop() {
    this.#player.halt();
    if (!this.isLive) {
      this.#changed();
      return;
    }
    const playedMs = Math.max(0, this.positionMs);
    if (!this.#socket.cancel(playedMs)) this.#stopped({ heard_ms: playedMs, heard_chars: 0 });
  }

  #hear(buffer) {
    if (!buffer.byteLength) return;
    this.#lastAt = performance.now();
    this.tape.append(buffer);
    if (this.phase === "waiting") {
      this.#firstAt = this.#lastAt;
      this.phase = "speaking";
      this.#player.play();
    }
    this.#player.pump();
    this.#changed();
  }

  #endAudio(warnings) {
    if (!this.isLive) return;
    this.warnings = warnings;
    this.#hasAllAudio = true;
    this.tape.isComplete = true;
    if (this.tape.numSamples) this.#changed();
    else this.#fail(NOTHING_TO_SAY);
  }

  #finishPlaying() {
    if (this.isLive) this.#end("done");
    else this.#changed();
  }

  #stopped(event) {
    this.heard = { ms: event.heard_ms, chars: event.heard_chars };
    this.#end("stopped");
  }

  #fail(message) {
    // Once all of the audio is here, a connection that goes away takes nothing with it.
    if (!this.isLive || this.#hasAllAudio && this.tape.numSamples) return;
    this.error = message;
    this.#player.halt();
    this.#end("failed");
  }

  #end(phase) {
    this.phase = phase;
    this.tape.isComplete = true;
    this.#socket.close();
    this.#changed();
  }
}

const STREAM = {
  response_format: "pcm",
  sample_rate: SAMPLE_RATE,
  stream_audio: true,
  word_timestamps: true,
  audio_transport: "binary",
};
const LOST = "The connection to the server was lost.";
const NOTHING_TO_SAY = "There is nothing in this text that can be spoken.";

// A conversation from its first to its last sound: connection, microphone and player together.

import { inPlainWords, PlainError } from "./api.js";
import { Conversation } from "./conversation.js";
import { Microphone } from "./microphone.js";
import { fromBase64, loudness, toBase64 } from "./pcm.js";
import { Player } from "./player.js";
import { RealtimeSocket } from "./realtime_socket.js";
import { SAMPLE_RATE } from "./sound.js";
import { Tape } from "./tape.js";

const SOCKET_PATH = "v1/realtime";
const INSTRUCTIONS =
  "You are in a conversation by voice. Answer as people talk: briefly, in plain sentences, without " +
  "lists or headings.";
const REFUSED = "The server did not take the connection. Is it running?";
const LOST = "The connection to the server was lost.";

/**
 * Phases: `connecting`, `asking` (for the microphone), `on`, then `ended` or `failed` (with `error`).
 * What a call tells, it tells through `on`: `changed()` (the phase or the turn), `entry(entry)` and
 * `dropped(entry)` of the transcript, `sound(mine, theirs)` (how loud both sides are, 0 to 1, every
 * 40 ms), and `complain(sentence)` for what went wrong and did not end it.
 */
export class Call {
  phase = "connecting";
  error = "";
  #on;
  #context;
  #socket;
  #microphone = null;
  #isMuted = false;
  #conversation = new Conversation();
  // What plays now: {id, tape, player}.
  #voice = null;

  /** `context` plays at 24 kHz. */
  constructor(api, context, choices, on) {
    this.#context = context;
    this.#on = on;
    this.#socket = new RealtimeSocket(api.socketUrl(SOCKET_PATH), api.key, {
      event: (event) => this.#receive(event, choices),
      closed: (reason) => this.#finish("failed", this.#whyClosed(reason)),
    });
  }

  get isLive() {
    return this.phase !== "ended" && this.phase !== "failed";
  }

  get turn() {
    return this.phase === "on" ? this.#conversation.turn : this.phase;
  }

  get isMuted() {
    return this.#isMuted;
  }

  set isMuted(isMuted) {
    this.#isMuted = isMuted;
    this.#microphone?.mute(isMuted);
    this.#on.changed();
  }

  /** No more of this answer; the conversation goes on. */
  stopAnswer() {
    this.#follow(this.#conversation.stop(this.#playedMs));
  }

  end() {
    this.#finish("ended", "");
  }

  #receive(event, choices) {
    if (event.type === "session.created") this.#begin(choices);
    this.#follow(this.#conversation.receive(event, this.#playedMs));
  }

  async #begin({ voice }) {
    this.#socket.send({ type: "session.update", session: session(voice) });
    this.phase = "asking";
    this.#on.changed();
    try {
      await this.#listen(await Microphone.open());
    } catch (error) {
      if (!(error instanceof PlainError)) console.error(error);
      this.#finish("failed", error.message);
    }
  }

  async #listen(microphone) {
    if (!this.isLive) {
      microphone.close();
      return;
    }
    this.#microphone = microphone;
    microphone.mute(this.#isMuted);
    await microphone.listen(
      (piece) => this.#say(piece),
      (reason) => this.#finish("failed", reason),
    );
    if (!this.isLive) return;
    this.phase = "on";
    this.#on.changed();
  }

  #say(piece) {
    if (!this.isLive) return;
    this.#socket.send({ type: "input_audio_buffer.append", audio: toBase64(piece) });
    this.#on.sound(loudness(new Int16Array(piece)), this.#voice?.tape.peakAt(this.#voice.player.position) ?? 0);
  }

  // --- what the conversation wants ---------------------------------------------------------------

  #follow(orders) {
    for (const order of orders) this.#obey(order);
    if (this.isLive) this.#on.changed();
  }

  #obey(order) {
    const ways = {
      send: () => this.#socket.send(order.event),
      play: () => this.#play(order.id, fromBase64(order.audio)),
      finish: () => this.#endTape(order.id),
      halt: () => this.#halt(),
      show: () => this.#on.entry(order.entry),
      drop: () => this.#on.dropped(order.entry),
      complain: () => this.#on.complain(inPlainWords(order.error)),
    };
    ways[order.do]();
  }

  /** In ms: what has been heard of the answer that plays. */
  get #playedMs() {
    return this.#voice ? (Math.max(0, this.#voice.player.position) / SAMPLE_RATE) * 1000 : 0;
  }

  #play(id, audio) {
    const isNew = this.#voice?.id !== id;
    if (isNew) {
      this.#halt();
      const tape = new Tape(SAMPLE_RATE);
      const player = new Player(this.#context, tape, () => this.#endVoice(id));
      this.#voice = { id, tape, player };
    }
    this.#voice.tape.append(audio);
    if (isNew) this.#voice.player.play();
    else this.#voice.player.pump();
  }

  #endTape(id) {
    if (this.#voice?.id === id) this.#voice.tape.isComplete = true;
  }

  #endVoice(id) {
    this.#voice = null;
    this.#follow(this.#conversation.played(id));
  }

  #halt() {
    this.#voice?.player.halt();
    this.#voice = null;
  }

  #whyClosed(reason) {
    if (reason) return inPlainWords({ message: reason });
    return this.phase === "connecting" ? REFUSED : LOST;
  }

  #finish(phase, error) {
    if (!this.isLive) return;
    this.phase = phase;
    this.error = error;
    this.#halt();
    this.#socket.close();
    this.#microphone?.close();
    this.#on.changed();
  }
}

function session(voice) {
  const input = { transcription: { model: "whisper-1" }, turn_detection: { type: "server_vad" } };
  const output = voice ? { voice } : {};
  return { type: "realtime", instructions: INSTRUCTIONS, audio: { input, output } };
}

// The talk side of the page: one conversation at a time, and what is shown of it.

import { Call } from "./call.js";
import { Levels } from "./levels.js";
import { soundContext } from "./sound.js";
import { Transcript } from "./transcript.js";

const SAID = {
  none: "Not started.",
  connecting: "Connecting.",
  asking: "Waiting for the microphone.",
  listening: "Listening.",
  hearing: "Hearing you.",
  thinking: "Thinking.",
  speaking: "Speaking.",
  ended: "Ended.",
  failed: "Not connected.",
};
const MUTED = "Muted. Nothing you say is heard.";

export class TalkDesk {
  #api;
  #studio;
  #parts;
  #transcript;
  #levels;
  #call = null;

  /** `parts`: startLabel, mute, hush, status, error, log, levels. */
  constructor(api, studio, parts) {
    this.#api = api;
    this.#studio = studio;
    this.#parts = parts;
    this.#transcript = new Transcript(parts.log);
    this.#levels = new Levels(parts.levels);
    parts.mute.addEventListener("click", () => this.#toggleMute());
    parts.hush.addEventListener("click", () => this.stopAnswer());
    new ResizeObserver(() => this.draw()).observe(parts.levels);
    this.#show();
  }

  /** Begin a conversation, or end the one that goes on. */
  toggle() {
    if (this.#call?.isLive) this.end();
    else this.#start();
  }

  end() {
    this.#call?.end();
  }

  stopAnswer() {
    if (this.#call?.isLive) this.#call.stopAnswer();
  }

  draw() {
    this.#levels.draw();
  }

  async #start() {
    this.#complain("");
    const context = soundContext();
    const running = context.resume();
    try {
      await this.#studio.checkKey();
      await running;
    } catch (error) {
      this.#complain(this.#studio.explain(error));
      return;
    }
    if (this.#call?.isLive) return;
    this.#transcript.clear();
    this.#levels.clear();
    const { voice } = this.#studio.choices;
    this.#call = new Call(this.#api, context, { voice }, this.#listener());
    this.#show();
  }

  #listener() {
    return {
      changed: () => this.#show(),
      entry: (entry) => this.#transcript.show(entry),
      dropped: (entry) => this.#transcript.drop(entry),
      sound: (mine, theirs) => this.#levels.add(mine, theirs),
      complain: (sentence) => this.#complain(sentence),
    };
  }

  #toggleMute() {
    this.#call.isMuted = !this.#call.isMuted;
  }

  #show() {
    const { startLabel, mute, hush, status } = this.#parts;
    const isLive = Boolean(this.#call?.isLive);
    const turn = this.#call?.turn ?? "none";
    const isMuted = Boolean(isLive && this.#call.isMuted);
    document.body.classList.toggle("calling", isLive);
    document.body.dataset.turn = turn;
    setText(startLabel, isLive ? "End" : "Start talking");
    mute.disabled = !isLive;
    mute.ariaPressed = String(isMuted);
    hush.disabled = turn !== "speaking" && turn !== "thinking";
    setText(status, isMuted && turn === "listening" ? MUTED : SAID[turn]);
    this.#studio.fixVoice(isLive);
    if (this.#call && !isLive) this.#close();
  }

  #close() {
    this.#transcript.close();
    this.#levels.clear();
    if (this.#call.error) this.#complain(this.#call.error);
  }

  #complain(sentence) {
    setText(this.#parts.error, sentence);
    this.#parts.error.hidden = !sentence;
  }
}

/** A screen reader reads a text aloud that has changed, even into itself. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

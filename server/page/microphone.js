// The microphone, as pieces of sound.

import { PlainError } from "./api.js";

const WISHES = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
const REASONS = {
  NotAllowedError:
    "The microphone is not allowed. Allow it for this page in the browser, then start again.",
  NotFoundError: "There is no microphone. Connect one, then start again.",
  NotReadableError: "The microphone cannot be opened. Does another program use it?",
};
const NO_ACCESS =
  "Browsers lend a microphone only to pages that come over https, or from this machine.";
const LOST = "The microphone is gone.";

export class Microphone {
  #stream;
  #context;

  /** Asks the person. Throws `PlainError` if there is none to be had. */
  static async open() {
    if (!navigator.mediaDevices) throw new PlainError(NO_ACCESS);
    const stream = await navigator.mediaDevices.getUserMedia({ audio: WISHES }).catch((error) => {
      throw new PlainError(REASONS[error.name] ?? `The microphone failed: ${error.message}`);
    });
    return new Microphone(stream);
  }

  constructor(stream) {
    this.#stream = stream;
    // At the microphone's own rate: not every browser converts it.
    this.#context = new AudioContext();
  }

  /** `onPiece` gets an ArrayBuffer of int16 at 24 kHz every 40 ms; `onLost` a sentence, at most once. */
  async listen(onPiece, onLost) {
    this.#stream.getAudioTracks()[0].onended = () => onLost(LOST);
    await this.#context.audioWorklet.addModule(new URL("capture.js", import.meta.url));
    const capture = new AudioWorkletNode(this.#context, "capture", { channelCount: 1, channelCountMode: "explicit" });
    capture.port.onmessage = (message) => onPiece(message.data);
    this.#context.createMediaStreamSource(this.#stream).connect(capture);
    // It gives out silence; what leads nowhere need not be run.
    capture.connect(this.#context.destination);
    await this.#context.resume();
  }

  /** A muted microphone gives silence. */
  mute(isMuted) {
    for (const track of this.#stream.getAudioTracks()) track.enabled = !isMuted;
  }

  close() {
    for (const track of this.#stream.getTracks()) {
      track.onended = null;
      track.stop();
    }
    this.#context.close();
  }
}

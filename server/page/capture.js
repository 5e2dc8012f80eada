// Runs on the audio thread: the microphone's samples, at the rate and in the pieces that go out.

import { toInt16 } from "./pcm.js";
import { Resampler } from "./resampler.js";

const RATE = 24_000;
// Voice activity is looked for in steps of 32 ms; smaller pieces would only be more messages.
const PIECE_SAMPLES = RATE * 0.04;

class Capture extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate, RATE);
  #piece = new Float32Array(PIECE_SAMPLES);
  #filled = 0;

  /** `inputs[0]` has no channel while the microphone gives nothing. */
  process(inputs) {
    const samples = this.#resampler.push(inputs[0][0] ?? new Float32Array(128));
    for (const sample of samples) {
      this.#piece[this.#filled] = sample;
      this.#filled += 1;
      if (this.#filled === PIECE_SAMPLES) this.#hand();
    }
    return true;
  }

  #hand() {
    const { buffer } = toInt16(this.#piece);
    this.port.postMessage(buffer, [buffer]);
    this.#filled = 0;
  }
}

registerProcessor("capture", Capture);

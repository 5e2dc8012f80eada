// Draws a tape as threads, one beside the other: the heard ones in colour.

const PITCH_PX = 5;
const THREAD_PX = 3;
const MIN_THREAD_PX = 3;
// Speech at a usual level peaks at about a third of full scale.
const GAIN = 1.9;
// The share of the way to its new scale that the picture takes in one frame.
const EASE = 0.14;

export class Waveform {
  #canvas;
  #shownSamples = 0;

  constructor(canvas) {
    this.#canvas = canvas;
  }

  /** The sample under an x of the page. */
  sampleAt(clientX) {
    const box = this.#canvas.getBoundingClientRect();
    return ((clientX - box.left) / box.width) * this.#shownSamples;
  }

  /**
   * `tape` may be null: threads at rest. `position` in samples; `expected` is how many samples the
   * whole speech may come to. True while the scale is still moving.
   */
  draw(tape, position, expected, { isNew = false } = {}) {
    const target = Math.max(1, tape ? Math.max(expected, tape.numSamples) : 1);
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isNew || isStill) this.#shownSamples = target;
    this.#shownSamples += (target - this.#shownSamples) * EASE;
    if (Math.abs(target - this.#shownSamples) < target / 2000) this.#shownSamples = target;
    this.#paint(tape, position);
    return this.#shownSamples !== target;
  }

  #paint(tape, position) {
    const pen = this.#fit();
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const colours = getComputedStyle(this.#canvas);
    const [heard, waiting, head] = ["--thread-heard", "--thread", "--playhead"].map((name) =>
      colours.getPropertyValue(name),
    );
    const headX = (position / this.#shownSamples) * width;
    const numThreads = Math.floor(width / PITCH_PX);
    for (let i = 0; i < numThreads; i += 1) {
      const x = i * PITCH_PX;
      pen.fillStyle = x + THREAD_PX <= headX ? heard : waiting;
      const level = tape ? this.#level(tape, i / numThreads, (i + 1) / numThreads) : 0;
      const length = Math.max(MIN_THREAD_PX, Math.min(1, level * GAIN) * height);
      pen.beginPath();
      pen.roundRect(x, (height - length) / 2, THREAD_PX, length, THREAD_PX / 2);
      pen.fill();
    }
    if (!tape || position <= 0) return;
    pen.fillStyle = head;
    pen.fillRect(Math.min(width - 2, headX), 0, 2, height);
  }

  /** The highest peak between two shares of the picture. */
  #level(tape, from, to) {
    const scale = this.#shownSamples / tape.samplesPerPeak;
    const first = Math.floor(from * scale);
    const last = Math.max(first + 1, Math.floor(to * scale));
    let highest = 0;
    for (let at = first; at < last && at < tape.peaks.length; at += 1) {
      highest = Math.max(highest, tape.peaks[at]);
    }
    return highest;
  }

  /** An empty canvas with a pixel for each of the screen's, and a pen that counts in CSS pixels. */
  #fit() {
    const ratio = devicePixelRatio || 1;
    const canvas = this.#canvas;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((px) => Math.round(px * ratio));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    return pen;
  }
}

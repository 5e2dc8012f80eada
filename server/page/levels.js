// Draws how loud both sides are: threads that wander to the left, the user's up, the answer's down.

const PITCH_PX = 5;
const THREAD_PX = 3;
const MIN_THREAD_PX = 1.5;
// A voice close to a microphone has a root mean square of a tenth; a spoken answer peaks at a third.
const MY_GAIN = 6;
const THEIR_GAIN = 1.9;

export class Levels {
  #canvas;
  #threads = [];

  constructor(canvas) {
    this.#canvas = canvas;
  }

  /** The newest loudness of both, from 0 to 1. */
  add(mine, theirs) {
    // Loudness is heard by its ratios: the root makes quiet speech visible.
    this.#threads.push([mine * MY_GAIN, theirs * THEIR_GAIN].map((x) => Math.sqrt(Math.min(1, x))));
    this.draw();
  }

  clear() {
    this.#threads = [];
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const num = Math.ceil(width / PITCH_PX);
    this.#threads = this.#threads.slice(-num);
    const pen = this.#fit(width, height);
    const colours = getComputedStyle(this.#canvas);
    const [mine, theirs, rest] = ["--playhead", "--thread-heard", "--thread"].map((name) =>
      colours.getPropertyValue(name),
    );
    // Those who want no moving pictures see one loudness, over the whole width, change its height.
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    for (let i = 0; i < num; i += 1) {
      const [up, down] = this.#threads.at(isStill ? -1 : -1 - i) ?? [0, 0];
      const x = width - (i + 1) * PITCH_PX + (PITCH_PX - THREAD_PX) / 2;
      thread(pen, up > 0.05 ? mine : rest, x, height / 2 - 1, -up * (height / 2 - 2));
      thread(pen, down > 0.05 ? theirs : rest, x, height / 2 + 1, down * (height / 2 - 2));
    }
  }

  #fit(width, height) {
    const ratio = devicePixelRatio || 1;
    Object.assign(this.#canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const pen = this.#canvas.getContext("2d");
    pen.scale(ratio, ratio);
    return pen;
  }
}

function thread(pen, colour, x, from, length) {
  const long = Math.max(MIN_THREAD_PX, Math.abs(length));
  pen.fillStyle = colour;
  pen.beginPath();
  pen.roundRect(x, length < 0 ? from - long : from, THREAD_PX, long, THREAD_PX / 2);
  pen.fill();
}

// Changes the rate of a stream of samples: a polyphase filter with a windowed sinc.

// Zero crossings of the sinc on either side: 80 dB are gone within a tenth of the band.
const NUM_ZEROS = 24;
// The band ends a little below half of the lower rate, so that the filter has room to fall.
const BAND = 0.92;

/** Gives the same samples however its input is cut into pieces. Rates are whole numbers, in Hz. */
export class Resampler {
  #up;
  #down;
  #taps;
  #half;
  #held;
  // Where the next output sample is: an index into what is held, and a phase beyond it.
  #at;
  #phase = 0;

  constructor(from, to) {
    const common = divisor(from, to);
    [this.#up, this.#down] = [to / common, from / common];
    const band = Math.min(1, to / from) * BAND;
    this.#half = Math.ceil(NUM_ZEROS / band);
    this.#taps = Array.from({ length: this.#up }, (_, phase) => taps(phase / this.#up, this.#half, band));
    this.#held = new Float32Array(this.#half - 1);
    this.#at = this.#half - 1;
  }

  /** More input; the output that can be known by now. Both are Float32Arrays. */
  push(input) {
    const held = new Float32Array(this.#held.length + input.length);
    held.set(this.#held);
    held.set(input, this.#held.length);
    const output = [];
    while (this.#at + this.#half < held.length) {
      output.push(this.#sum(held));
      this.#phase += this.#down;
      this.#at += Math.floor(this.#phase / this.#up);
      this.#phase %= this.#up;
    }
    const first = Math.min(held.length, this.#at - this.#half + 1);
    this.#held = held.slice(first);
    this.#at -= first;
    return Float32Array.from(output);
  }

  #sum(held) {
    const weights = this.#taps[this.#phase];
    const first = this.#at - this.#half + 1;
    let sum = 0;
    for (let i = 0; i < weights.length; i += 1) sum += weights[i] * held[first + i];
    return sum;
  }
}

/** The weights of the samples around a moment that lies `offset` of a sample behind the middle one. */
function taps(offset, half, band) {
  const weights = new Float64Array(2 * half);
  for (let i = 0; i < weights.length; i += 1) {
    const distance = i - (half - 1) - offset;
    weights[i] = sinc(distance * band) * window(distance / half);
  }
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map((weight) => weight / total);
}

const sinc = (x) => (x === 0 ? 1 : Math.sin(Math.PI * x) / (Math.PI * x));

/** Blackman's window over -1 to 1. */
function window(x) {
  return 0.42 + 0.5 * Math.cos(Math.PI * x) + 0.08 * Math.cos(2 * Math.PI * x);
}

function divisor(a, b) {
  return b ? divisor(b, a % b) : a;
}

// The audio of an utterance as it came: samples, peaks for drawing, and a WAV file of it.

/** Peaks are kept for spans of this many seconds. */
export const PEAK_S = 0.01;
const WAV_HEADER_BYTES = 44;
const BYTES_PER_SAMPLE = 2;

/** Mono, int16. `isComplete`: nothing more will come. */
export class Tape {
  #parts = [];
  #starts = [];
  numSamples = 0;
  isComplete = false;
  peaks = [];

  constructor(sampleRate) {
    this.sampleRate = sampleRate;
    this.samplesPerPeak = Math.round(sampleRate * PEAK_S);
  }

  get seconds() {
    return this.numSamples / this.sampleRate;
  }

  /** How loud it is at a sample, from 0 to 1. */
  peakAt(sample) {
    return this.peaks[Math.floor(sample / this.samplesPerPeak)] ?? 0;
  }

  append(buffer) {
    const samples = new Int16Array(buffer);
    this.#notePeaks(samples);
    this.#starts.push(this.numSamples);
    this.#parts.push(samples);
    this.numSamples += samples.length;
  }

  /** Samples `first` up to `first + target.length` as floats from -1 to 1. */
  read(first, target) {
    let done = 0;
    for (let index = this.#partAt(first); done < target.length; index += 1) {
      const part = this.#parts[index];
      const skipped = first + done - this.#starts[index];
      const count = Math.min(part.length - skipped, target.length - done);
      for (let i = 0; i < count; i += 1) target[done + i] = part[skipped + i] / 32768;
      done += count;
    }
    return target;
  }

  /** A WAV file of the first `numSamples` samples, as a Blob. */
  toWav(numSamples = this.numSamples) {
    const size = Math.min(numSamples, this.numSamples) * BYTES_PER_SAMPLE;
    const audio = new Blob(this.#parts).slice(0, size);
    return new Blob([wavHeader(this.sampleRate, size), audio], { type: "audio/wav" });
  }

  #notePeaks(samples) {
    for (let i = 0; i < samples.length; i += 1) {
      const at = Math.floor((this.numSamples + i) / this.samplesPerPeak);
      const level = Math.abs(samples[i]) / 32768;
      if (!(this.peaks[at] >= level)) this.peaks[at] = level;
    }
  }

  #partAt(sample) {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#starts[middle] <= sample) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** RIFF, WAVE, fmt (PCM, mono, 16 bits), data. */
function wavHeader(sampleRate, size) {
  const view = new DataView(new ArrayBuffer(WAV_HEADER_BYTES));
  const tag = (at, text) => [...text].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  tag(0, "RIFF");
  view.setUint32(4, WAV_HEADER_BYTES - 8 + size, true);
  tag(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, sampleRate * BYTES_PER_SAMPLE, true);
  view.setUint16(32, BYTES_PER_SAMPLE, true);
  view.setUint16(34, 16, true);
  tag(36, "data");
  view.setUint32(40, size, true);
  return view.buffer;
}

// Plays a tape while it is still being written.
//
// Samples go out in blocks that are placed end to end on the audio clock, a few seconds ahead. The
// context runs at the tape's own rate, so blocks meet sample by sample. Unlike a worklet this works
// on pages that came over plain http, too.

const AHEAD_S = 4;
const BLOCK_S = 0.5;
// From the first audio, or from audio that came late, to its sound: time to hand a block over.
const LEAD_S = 0.04;
const TICK_MS = 100;
const FADE_S = 0.015;

export class Player {
  #context;
  #tape;
  #onEnd;
  #output;
  #sources = new Set();
  // Where the clock and the tape meet: {time, sample}, one more for each time that it ran dry.
  #anchors = [];
  #next = 0;
  #nextTime = 0;
  #timer = 0;
  #heard = 0;

  /** `context` has the tape's sample rate. `onEnd`: the whole tape has been heard. */
  constructor(context, tape, onEnd) {
    this.#context = context;
    this.#tape = tape;
    this.#onEnd = onEnd;
  }

  get isPlaying() {
    return this.#timer !== 0;
  }

  /** Samples of the tape that have sounded: what a listener has heard. */
  get position() {
    return this.isPlaying ? this.#positionNow() : this.#heard;
  }

  play(sample = 0) {
    this.halt();
    this.#output = new GainNode(this.#context);
    this.#output.connect(this.#context.destination);
    this.#anchors = [];
    this.#next = this.#heard = Math.min(Math.max(0, Math.round(sample)), this.#tape.numSamples);
    this.#nextTime = 0;
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
    this.pump();
  }

  /** Place what the tape holds by now; call it after each `append`. */
  pump() {
    if (!this.isPlaying) return;
    const now = this.#context.currentTime;
    const isDry = !this.#anchors.length || this.#nextTime < now;
    if (isDry && this.#next < this.#tape.numSamples) this.#anchor(now + LEAD_S);
    while (this.#next < this.#tape.numSamples && this.#nextTime < now + AHEAD_S) this.#place();
  }

  /** Stop without a click; `position` stays where it was. */
  halt() {
    if (!this.isPlaying) return;
    this.#heard = this.#positionNow();
    clearInterval(this.#timer);
    this.#timer = 0;
    const end = this.#context.currentTime + FADE_S;
    this.#output.gain.setTargetAtTime(0, this.#context.currentTime, FADE_S / 3);
    for (const source of this.#sources) source.stop(end);
    this.#sources.clear();
  }

  #anchor(time) {
    // On a whole sample of the clock, as is every block that follows.
    const rate = this.#tape.sampleRate;
    this.#nextTime = Math.ceil(time * rate) / rate;
    this.#anchors.push({ time: this.#nextTime, sample: this.#next });
  }

  #place() {
    const rate = this.#tape.sampleRate;
    const count = Math.min(Math.round(BLOCK_S * rate), this.#tape.numSamples - this.#next);
    const buffer = new AudioBuffer({ length: count, sampleRate: rate });
    this.#tape.read(this.#next, buffer.getChannelData(0));
    const source = new AudioBufferSourceNode(this.#context, { buffer });
    source.connect(this.#output);
    source.onended = () => this.#sources.delete(source);
    source.start(this.#nextTime);
    this.#sources.add(source);
    this.#next += count;
    const { time, sample } = this.#anchors.at(-1);
    this.#nextTime = time + (this.#next - sample) / rate;
  }

  #tick() {
    this.pump();
    const isAtEnd = this.#tape.isComplete && this.#next === this.#tape.numSamples;
    if (!isAtEnd || this.#positionNow() < this.#next) return;
    this.halt();
    this.#onEnd();
  }

  #positionNow() {
    const now = this.#context.currentTime - (this.#context.outputLatency || 0);
    const index = this.#anchors.findLastIndex((anchor) => anchor.time <= now);
    if (index < 0) return this.#heard;
    const { time, sample } = this.#anchors[index];
    const end = this.#anchors[index + 1]?.sample ?? this.#next;
    return Math.min(end, Math.floor(sample + (now - time) * this.#tape.sampleRate));
  }
}

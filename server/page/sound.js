// The one way out for sound. Browsers let a page sound only after a click or a key.

export const SAMPLE_RATE = 24_000;
let context = null;

/** The output's context; call it first in answer to a click or a key. */
export function soundContext() {
  context ??= new AudioContext({ sampleRate: SAMPLE_RATE });
  return context;
}

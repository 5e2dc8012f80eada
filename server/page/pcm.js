// Samples and the forms they travel in: 16-bit integers, little end first, and base64.

/** Floats from -1 to 1 as an Int16Array; what is louder is clipped. */
export function toInt16(floats) {
  return Int16Array.from(floats, (x) => Math.max(-32768, Math.min(32767, Math.round(x * 32768))));
}

/** How loud an Int16Array is: its root mean square, from 0 to 1. */
export function loudness(samples) {
  const sum = samples.reduce((total, x) => total + x * x, 0);
  return samples.length ? Math.sqrt(sum / samples.length) / 32768 : 0;
}

/** An ArrayBuffer of some thousand bytes at most: they become the arguments of one call. */
export function toBase64(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer)));
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer;
}

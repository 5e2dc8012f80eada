// Numbers as people read them.

export const NONE = "–";

export function milliseconds(ms) {
  return ms === null ? NONE : `${Math.round(ms)} ms`;
}

export function seconds(s) {
  return s ? `${s.toFixed(1)} s` : NONE;
}

export function ratio(value) {
  return value === null ? NONE : value.toFixed(value < 0.1 ? 3 : 2);
}

/** How many times faster than it plays; from the real-time factor. */
export function pace(rtf) {
  if (!rtf) return NONE;
  const times = 1 / rtf;
  return `${times.toFixed(times < 10 ? 1 : 0)}×`;
}

/** Minutes, seconds and tenths. */
export function clock(s) {
  const tenths = Math.floor(s * 10);
  const minutes = Math.floor(tenths / 600);
  return `${minutes}:${((tenths % 600) / 10).toFixed(1).padStart(4, "0")}`;
}

// Shows in the text itself which word is being spoken.
//
// A sheet behind the text area holds the same text in the same place, in three parts: what has been
// said, the word of the moment, the rest. While it reads, the text area's own letters are invisible.

export class Reader {
  #area;
  #said;
  #word;
  #rest;
  #text = "";
  #place = (index) => index;
  #words = [];
  #shown = -1;

  constructor(area, sheet) {
    this.#area = area;
    [this.#said, this.#word, this.#rest] = sheet.children;
    area.addEventListener("scroll", () => {
      sheet.scrollTop = area.scrollTop;
    });
    area.addEventListener("input", () => this.reset());
    this.reset();
  }

  /** Nothing is being read: the text as it is now. */
  reset() {
    this.#words = [];
    this.#area.parentElement.classList.remove("reading");
    this.#fill(this.#area.value, 0, 0);
  }

  /** Words of this text are coming. */
  begin(text) {
    this.reset();
    this.#text = text;
    this.#place = codeUnits(text);
    this.#area.parentElement.classList.add("reading");
    this.#fill(text, 0, 0);
  }

  /** Words as the server tells them: start_ms, and start_char and end_char in code points. */
  add(words) {
    for (const { start_ms, start_char, end_char } of words) {
      const [first, last] = [this.#place(start_char), this.#place(end_char)];
      this.#words.push({ ms: start_ms, first, last });
    }
  }

  /** Mark the word that sounds at `ms`; the word stays marked until the next one begins. */
  showAt(ms) {
    const index = this.#words.findLastIndex((word) => word.ms <= ms);
    if (index === this.#shown || index < 0) return;
    this.#shown = index;
    this.#fill(this.#text, this.#words[index].first, this.#words[index].last);
    this.#keepInView();
  }

  /** The first `numChars` characters were heard, or all of them; no word sounds now. */
  rest(numChars = Infinity) {
    if (!this.#words.length) return;
    const last = numChars === Infinity ? this.#text.length : this.#place(numChars);
    this.#fill(this.#text, last, last);
  }

  #fill(text, first, last) {
    if (first === last) this.#shown = -1;
    this.#said.textContent = text.slice(0, first);
    this.#word.textContent = text.slice(first, last);
    // A line break at the very end takes no room of its own.
    this.#rest.textContent = `${text.slice(last)}\n`;
  }

  #keepInView() {
    const top = this.#word.offsetTop;
    const bottom = top + this.#word.offsetHeight;
    const { scrollTop, clientHeight } = this.#area;
    if (top < scrollTop || bottom > scrollTop + clientHeight) {
      this.#area.scrollTop = top - clientHeight / 3;
    }
  }
}

/** From an index in code points to one in code units, the units of JavaScript's strings. */
export function codeUnits(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (index) => index;
  const places = [];
  let unit = 0;
  for (const char of text) {
    places.push(unit);
    unit += char.length;
  }
  return (index) => places[index] ?? text.length;
}

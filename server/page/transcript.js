// What both sides have said, as it comes.

const NAMES = { user: "You", assistant: "Answer" };
// Whoever has scrolled up to read is left alone; this near to the end counts as being there.
const NEAR_END_PX = 60;

export class Transcript {
  #log;
  #rows = new Map();

  constructor(log) {
    this.#log = log;
  }

  clear() {
    this.#rows.clear();
    this.#log.replaceChildren();
  }

  /** An entry as `Conversation` has it, new or changed. */
  show(entry) {
    const isAtEnd = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR_END_PX;
    const row = this.#rows.get(entry.id) ?? this.#add(entry);
    const heard = entry.heard ?? entry.text.length;
    row.heard.textContent = entry.text.slice(0, heard);
    row.unheard.textContent = entry.text.slice(heard);
    row.unheard.hidden = heard >= entry.text.length;
    row.box.classList.toggle("waiting", entry.isOpen && !entry.text);
    row.box.classList.toggle("open", entry.isOpen);
    if (isAtEnd) this.#log.scrollTop = this.#log.scrollHeight;
  }

  drop(entry) {
    this.#rows.get(entry.id)?.box.remove();
    this.#rows.delete(entry.id);
  }

  /** Nothing more comes: what is still open stays as it is. */
  close() {
    for (const { box, heard } of this.#rows.values()) {
      box.classList.remove("open", "waiting");
      if (!heard.textContent && !box.querySelector("del").textContent) box.remove();
    }
  }

  #add(entry) {
    const [box, who, words] = ["div", "span", "p"].map((tag) => document.createElement(tag));
    const [heard, unheard] = ["span", "del"].map((tag) => document.createElement(tag));
    box.className = `entry ${entry.who}`;
    who.className = "who";
    who.textContent = NAMES[entry.who];
    unheard.title = "Not heard: the answer was interrupted before";
    words.append(heard, unheard);
    // An answer is heard; a screen reader that read it, too, would talk into the microphone.
    if (entry.who === "assistant") box.setAttribute("aria-live", "off");
    box.append(who, words);
    this.#log.append(box);
    this.#rows.set(entry.id, { box, heard, unheard });
    return { box, heard, unheard };
  }
}

// Typing or talking: which of the two the page shows. The address keeps it, so it can be linked.

export class Modes {
  #links;
  #onChange;
  #talks = true;

  /** `links` lead to "#type" and "#talk"; `onChange` gets the mode whenever it changes. */
  constructor(links, onChange) {
    this.#links = [...links.children];
    this.#onChange = onChange;
    addEventListener("hashchange", () => this.#change());
  }

  get mode() {
    return location.hash === "#talk" ? "talk" : "type";
  }

  /** Elements with `data-for` belong to a mode; those for "no-talk" say how a server learns it. */
  show(talks = this.#talks) {
    this.#talks = talks;
    const shown = this.mode === "talk" && !talks ? "no-talk" : this.mode;
    for (const element of document.querySelectorAll("[data-for]")) {
      element.hidden = !element.dataset.for.split(" ").includes(shown);
    }
    for (const link of this.#links) {
      if (link.hash === `#${this.mode}`) link.ariaCurrent = "page";
      else link.ariaCurrent = null;
    }
  }

  #change() {
    this.show();
    this.#onChange(this.mode);
  }
}

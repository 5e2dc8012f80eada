// The list of voices, as radio buttons: arrow keys move through them.

// Golden angle: neighbours in the list get colours far apart.
const HUE_STEP = 137.5;

export class VoiceList {
  #list;

  constructor(list) {
    this.#list = list;
  }

  /** `voices` as /v1/audio/voices lists them; `chosen` is an id, the first one if there is none. */
  fill(voices, chosen) {
    const ids = voices.map((voice) => voice.id);
    const checked = ids.includes(chosen) ? chosen : ids[0];
    this.#list.replaceChildren(
      ...voices.map((voice, index) => row(voice, index * HUE_STEP, voice.id === checked)),
    );
    this.#list.querySelector(":checked")?.closest("label").scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** A voice that is fixed cannot be changed for now. */
  fix(isFixed) {
    for (const input of this.#list.querySelectorAll("input")) input.disabled = isFixed;
  }

  /** The chosen id, or undefined: the server then takes its own. */
  get chosen() {
    return this.#list.querySelector(":checked")?.value;
  }
}

function row(voice, hue, isChecked) {
  const label = element("label", "voice");
  const input = element("input");
  Object.assign(input, { type: "radio", name: "voice", value: voice.id, checked: isChecked });
  const face = element("span", "face", voice.name.charAt(0));
  face.setAttribute("aria-hidden", "true");
  face.style.setProperty("--hue", String(Math.round(hue % 360)));
  const words = element("span", "voice-words");
  const head = element("span", "voice-name", voice.name);
  head.append(element("small", "", [voice.language, voice.gender].join(" · ")));
  words.append(head, element("span", "voice-about", voice.description));
  label.append(input, face, words);
  return label;
}

function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

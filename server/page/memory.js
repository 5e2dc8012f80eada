// What the page remembers between visits, where the browser lets it.

const PREFIX = "voxloom.";

/** Choices stay in this browser; the API key only in this tab. */
const storageFor = (name) => (name === "key" ? sessionStorage : localStorage);

export function recall(name, otherwise) {
  try {
    return storageFor(name).getItem(PREFIX + name) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    storageFor(name).setItem(PREFIX + name, value);
  } catch {
    // Storage is switched off or full: the choice lasts as long as the page.
  }
}

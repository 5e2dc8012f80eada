// Gives things out of the page: files, and text for the clipboard.

/** Save a Blob as a file. */
export function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser has taken the blob by the next turn of its loop.
  setTimeout(() => URL.revokeObjectURL(link.href));
}

/** Copy an element's text; where that is forbidden it is selected, and the answer is false. */
export async function copy(element) {
  try {
    // Only pages that came over https, or from this machine, have a clipboard.
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}

// Light, dark, or as the system has it.

import { recall, remember } from "./memory.js";

const NEXT = { auto: "light", light: "dark", dark: "auto" };

/** The button shows the theme in its last child. `onChange` is called when the colours have changed, by the button or by the system. */
export function setUpTheme(button, onChange) {
  let theme = recall("theme", "auto") in NEXT ? recall("theme", "auto") : "auto";
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.lastElementChild.textContent = theme;
    onChange();
  };
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    remember("theme", theme);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

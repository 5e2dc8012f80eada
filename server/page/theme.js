// Runs before the page is drawn, so that a chosen theme does not flash up late.
"use strict";
try {
  const chosen = localStorage.getItem("voxloom.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is switched off: the system's theme it is.
}

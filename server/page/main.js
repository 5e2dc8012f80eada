// Puts the page together: the form, one speech at a time and what is shown of it, and the talk side.

import { Api, KeyError } from "./api.js";
import { clock, milliseconds, pace, ratio, seconds } from "./figures.js";
import { copy, offer } from "./handover.js";
import { Modes } from "./modes.js";
import { Reader } from "./reader.js";
import { SAMPLE_RATE, soundContext } from "./sound.js";
import { Speech } from "./speech.js";
import { Studio } from "./studio.js";
import { TalkDesk } from "./talk.js";
import { setUpTheme } from "./theme_button.js";
import { Waveform } from "./waveform.js";

// English speech at normal speed; only the first guess of the waveform's width.
const CHARS_PER_S = 15;
const SEEK_S = { ArrowLeft: -1, ArrowRight: 1, PageDown: -5, PageUp: 5 };
const MAX_SEED = 2 ** 31;

const at = (id) => document.getElementById(id);
const api = new Api();
const reader = new Reader(at("text"), at("mirror"));
const waveform = new Waveform(at("waveform"));
const studio = new Studio(
  api,
  {
    form: at("form"),
    text: at("text"),
    voices: at("voices"),
    speed: at("speed"),
    speedValue: at("speed-value"),
    count: at("count"),
    key: at("key"),
    keyPanel: at("key-panel"),
    curl: at("curl"),
  },
  () => {},
);
const talk = new TalkDesk(api, studio, {
  startLabel: at("talk-label"),
  mute: at("mute"),
  hush: at("hush"),
  status: at("talk-status"),
  error: at("talk-error"),
  log: at("log"),
  levels: at("levels"),
});
const modes = new Modes(at("modes"), enterMode);

// Both sides may have voices of their own.
const voices = { type: [], talk: [] };
let speech = null;
let isDrawing = false;

// --- speaking ------------------------------------------------------------------------------------

async function speak() {
  showError("");
  if (!studio.text.trim()) {
    showError("There is no text yet. Type or paste one first.");
    at("text").focus();
    return;
  }
  speech?.stop();
  const context = soundContext();
  const running = context.resume();
  try {
    await studio.checkKey();
    await running;
    begin(context, { text: studio.text, seed: Math.floor(Math.random() * MAX_SEED), ...studio.choices });
  } catch (error) {
    complain(error);
  }
}

function begin(context, request) {
  showError("");
  reader.begin(request.text);
  const isCurrent = (other) => other === speech;
  const mine = new Speech(api, context, request, {
    onChange: (changed) => isCurrent(changed) && show(),
    onWords: (words) => isCurrent(mine) && reader.add(words),
  });
  speech = mine;
  show();
}

function stop() {
  speech?.stop();
}

function complain(error) {
  showError(studio.explain(error));
}

// --- showing -------------------------------------------------------------------------------------

function show() {
  const isBusy = Boolean(speech?.isLive || speech?.isPlaying);
  const hasAudio = Boolean(speech?.tape.numSamples);
  document.body.classList.toggle("speaking", isBusy);
  at("speak-label").textContent = isBusy ? "Stop" : "Speak";
  at("text").readOnly = isBusy;
  at("replay").disabled = !hasAudio || isBusy;
  for (const id of ["save-wav", "save-mp3", "save-vtt"]) at(id).disabled = !hasAudio || speech.isLive;
  showFigures();
  showEnding();
  if (!isBusy) reader.rest(speech?.heard?.chars);
  if (!isDrawing) requestAnimationFrame(draw);
  isDrawing = true;
}

function showFigures() {
  const { ttfaMs, audioS, rtf } = speech?.figures ?? { ttfaMs: null, audioS: 0, rtf: null };
  at("ttfa").textContent = milliseconds(ttfaMs);
  at("rtf").textContent = ratio(rtf);
  at("pace").textContent = pace(rtf);
  at("audio").textContent = seconds(audioS);
}

/** In words where the speech is. */
function showEnding() {
  const { audioS } = speech.figures;
  const said = {
    waiting: () => "Waiting for the first sound.",
    speaking: () => "Speaking.",
    done: () => `Done: ${seconds(audioS)} of speech.`,
    stopped: () => heardInWords(speech.heard.ms),
    failed: () => "Not spoken.",
  };
  const notes = speech.phase === "failed" ? [] : speech.warnings.map((note) => `Note: ${note}.`);
  setText("status", [said[speech.phase](), ...notes].join(" "));
  if (speech.phase !== document.body.dataset.phase) enter(speech.phase);
}

/** What a phase brings once, when it begins. */
function enter(phase) {
  document.body.dataset.phase = phase;
  if (phase !== "failed") return;
  reader.reset();
  showError(speech.error);
}

function heardInWords(ms) {
  const text = heardText();
  const end = text.length > 60 ? `… ${text.slice(-56).replace(/^\S*\s/, "")}` : text;
  const words = text ? `up to “${end}”` : "before the first word was complete";
  return `Stopped after ${seconds(ms / 1000)}, ${words}.`;
}

/** A screen reader reads a text aloud that has changed, even into itself. */
function setText(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function showError(message) {
  setText("error", message);
  at("error").hidden = !message;
}

function draw() {
  const position = Math.max(0, speech.position);
  const isMoving = waveform.draw(speech.tape, position, expectedSamples(), { isNew: !isDrawing });
  if (speech.isPlaying) reader.showAt(speech.positionMs);
  showPosition(position);
  isDrawing = speech.isLive || speech.isPlaying || isMoving;
  if (isDrawing) requestAnimationFrame(draw);
}

function expectedSamples() {
  if (speech.tape.isComplete) return 0;
  const { text, speed = 1 } = speech.request;
  return Math.max((text.length / CHARS_PER_S / speed) * SAMPLE_RATE, speech.tape.numSamples * 1.03);
}

function showPosition(position) {
  const [now, end] = [position / SAMPLE_RATE, speech.tape.seconds];
  at("clock").value = `${clock(now)} / ${clock(end)}`;
  const slider = at("waveform");
  slider.ariaDisabled = String(!end);
  slider.ariaValueMax = end.toFixed(1);
  slider.ariaValueNow = now.toFixed(1);
  slider.ariaValueText = `${now.toFixed(1)} of ${end.toFixed(1)} seconds`;
}

// --- the listener's hands ------------------------------------------------------------------------

function seek(sample) {
  if (!speech?.tape.numSamples) return;
  speech.playFrom(Math.min(Math.max(0, sample), speech.tape.numSamples));
}

function onWaveKey(event) {
  const steps = { Home: -Infinity, End: Infinity, ...SEEK_S };
  if (!(event.key in steps) || !speech) return;
  event.preventDefault();
  seek(speech.position + steps[event.key] * SAMPLE_RATE);
}

function onKey(event) {
  const isTalk = modes.mode === "talk";
  if (event.key === "Escape") isTalk ? talk.stopAnswer() : stop();
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    isTalk ? talk.toggle() : speak();
  }
}

function onSubmit(event) {
  event.preventDefault();
  if (modes.mode === "talk") talk.toggle();
  else if (document.body.classList.contains("speaking")) stop();
  else speak();
}

/** One side at a time: nothing sounds, and nobody listens, where it cannot be seen. */
function enterMode(mode) {
  if (mode === "talk") stop();
  else talk.end();
  studio.offerVoices(voices[mode]);
}

/** What was heard of a stopped speech, else all of it. */
function heardText() {
  const { text } = speech.request;
  return speech.heard ? [...text].slice(0, speech.heard.chars).join("") : text;
}

function saveWav() {
  const ms = speech.heard?.ms ?? Infinity;
  offer(speech.tape.toWav(Math.round((ms / 1000) * SAMPLE_RATE)), "speech.wav");
}

async function save(button, name, ask) {
  showError("");
  button.disabled = true;
  try {
    const { text: _, ...choices } = speech.request;
    offer(await ask({ input: heardText(), ...choices }), name);
  } catch (error) {
    complain(error);
  }
  button.disabled = false;
}

async function copyCurl() {
  const done = await copy(at("curl"));
  at("copy").textContent = done ? "Copied" : "Press Ctrl C";
  at("copy").addEventListener("blur", () => (at("copy").textContent = "Copy"), { once: true });
}

function wire() {
  at("form").addEventListener("submit", onSubmit);
  at("replay").addEventListener("click", () => seek(0));
  at("waveform").addEventListener("click", (event) => seek(waveform.sampleAt(event.clientX)));
  at("waveform").addEventListener("keydown", onWaveKey);
  at("save-wav").addEventListener("click", saveWav);
  at("save-mp3").addEventListener("click", (event) =>
    save(event.target, "speech.mp3", (body) => api.speech({ ...body, response_format: "mp3" })),
  );
  at("save-vtt").addEventListener("click", (event) =>
    save(event.target, "speech.vtt", (body) => api.subtitles(body)),
  );
  at("copy").addEventListener("click", copyCurl);
  document.addEventListener("keydown", onKey);
  if (!/Mac|iPhone|iPad/.test(navigator.platform)) return;
  for (const key of document.querySelectorAll(".modifier")) key.textContent = "⌘";
}

async function load() {
  try {
    await loadSides();
    at("model").textContent = await api.model();
    at("model-dot").classList.add("good");
  } catch (error) {
    at("model").textContent = error instanceof KeyError ? "Needs a key" : "Not reachable";
    if (error instanceof KeyError && !api.key) studio.askForKey();
    else complain(error);
  }
}

async function loadSides() {
  const [spoken, talking] = await Promise.all([api.voices(), api.talk()]);
  Object.assign(voices, { type: spoken, talk: talking.voices });
  modes.show(talking.talks);
  studio.offerVoices(voices[modes.mode]);
}

const drawAtRest = () => (isDrawing ? null : waveform.draw(speech?.tape ?? null, speech?.position ?? 0, 0, { isNew: true }));
setUpTheme(at("theme"), () => {
  drawAtRest();
  talk.draw();
});
new ResizeObserver(drawAtRest).observe(at("waveform"));
wire();
modes.show();
reader.reset();
load();

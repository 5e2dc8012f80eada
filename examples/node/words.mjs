// Speak over a WebSocket, and print each word when it is heard.
//
//     npm install && node words.mjs "Good morning." | aplay -t raw -f S16_LE -r 24000
//
// Speech goes to standard output, words to standard error. VOXLOOM_URL chooses the server.

import WebSocket from "ws";

const [text = "Hello! It is good to hear you."] = process.argv.slice(2);
const address = process.env.VOXLOOM_URL ?? "ws://127.0.0.1:8000";
const socket = new WebSocket(`${address}/v1/audio/speech/stream`);
const say = (type, fields = {}) => socket.send(JSON.stringify({ type, ...fields }));
const config = { voice: "alloy", response_format: "pcm", stream_audio: true };
let startedAt;

const onEvent = {
  "audio.words": ({ words }) => {
    startedAt ??= performance.now();
    for (const { word, start_ms } of words) {
      const wait = startedAt + start_ms - performance.now();
      setTimeout(() => console.error(word), wait);
    }
  },
  "session.done": () => say("session.close"),
  error: ({ message }) => {
    console.error(message);
    process.exitCode = 1;
    socket.close();
  },
};

socket.on("open", () => {
  say("session.config", { ...config, word_timestamps: true, audio_transport: "binary" });
  say("input.text", { text });
  say("input.done");
});
socket.on("message", (data, isBinary) => {
  if (isBinary) process.stdout.write(data);
  else {
    const event = JSON.parse(data);
    onEvent[event.type]?.(event);
  }
});
socket.on("error", (error) => onEvent.error(error));

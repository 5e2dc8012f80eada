// Speak a text into a file with the openai package, as it is made.
//
//     npm install && node speak.mjs "Good morning." morning.mp3
//
// OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one.

import { createWriteStream } from "node:fs";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: process.env.OPENAI_BASE_URL ?? "http://127.0.0.1:8000/v1",
  apiKey: process.env.OPENAI_API_KEY || "none",
});

const [text = "Hello! It is good to hear you.", path = "hello.mp3"] = process.argv.slice(2);
const speech = await client.audio.speech.create({
  model: "gpt-4o-mini-tts",
  voice: "alloy",
  input: text,
});
const file = createWriteStream(path);
await pipeline(Readable.fromWeb(speech.body), file);
console.log(`${path}: ${file.bytesWritten} bytes`);

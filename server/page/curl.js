// The command that asks for the same speech in a shell.

/** A text as one word of any POSIX shell. */
export function shellWord(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** `body` is that of `POST /v1/audio/speech`. The key itself is never shown. */
export function curlCommand(url, body, needsKey) {
  const lines = [`curl ${shellWord(String(url))}`];
  if (needsKey) lines.push('-H "Authorization: Bearer $OPENAI_API_KEY"');
  lines.push(`-H 'Content-Type: application/json'`);
  lines.push(`-d ${shellWord(JSON.stringify(body))}`);
  lines.push(`-o speech.${body.response_format ?? "mp3"}`);
  return lines.join(" \\\n  ");
}

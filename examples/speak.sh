#!/usr/bin/env bash
# Speaks a text with curl, in three ways: into a file, to a player, and as events.
#
#   examples/speak.sh "Good morning."
#
# OPENAI_BASE_URL chooses the server, OPENAI_API_KEY the key, if it wants one.
set -euo pipefail

text=${1:-Hello! It is good to hear you.}

# ask FIELDS [CURL OPTIONS]: -N passes each piece on as it comes.
ask() {
    curl -sS -N --fail-with-body "${OPENAI_BASE_URL:-http://127.0.0.1:8000/v1}/audio/speech" \
        -H "Authorization: Bearer ${OPENAI_API_KEY:-none}" -H 'Content-Type: application/json' \
        -d "{\"model\": \"gpt-4o-mini-tts\", \"input\": \"$(escape "$text")\", $1}" "${@:2}"
}

# A text as the inside of a JSON string.
escape() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"}
    tr '\n\r\t' '   ' <<<"$text"
}

# Raw 16-bit samples, one channel at 24 kHz, from standard input.
play() {
    if command -v aplay >/dev/null; then
        aplay -q -t raw -f S16_LE -c 1 -r 24000
    elif command -v ffplay >/dev/null; then
        ffplay -loglevel error -nodisp -autoexit -f s16le -ar 24000 -
    else
        echo "Neither aplay nor ffplay is here: writing hello.pcm." >&2
        cat >hello.pcm
    fi
}

ask '"voice": "alloy", "response_format": "mp3"' -o hello.mp3
ask '"voice": "alloy", "response_format": "pcm"' | play
ask '"voice": "alloy", "stream_format": "sse"' | cut -c 1-100

// A conversation as the server's events tell it: whose turn it is and what was said. No I/O.
//
//   turn        while
//   hearing     the user speaks
//   speaking    sound of the answer has come and has not been played to its end
//   thinking    the words of a turn, or an answer, are on their way
//   listening   otherwise
//
// The first one that is true counts. Each call answers with what is to be done, in order:
//
//   {do: "send", event}      tell the server
//   {do: "play", id, audio}  more sound of an answer, in base64
//   {do: "finish", id}       all of its sound has come
//   {do: "halt", id}         play no more of it
//   {do: "show", entry}      an entry of the transcript is new, or has changed
//   {do: "drop", entry}      one is gone
//   {do: "complain", error}  an error object of the API is to be shown

/** Event types and what they do. Others do nothing. */
const HANDLERS = {
  "input_audio_buffer.speech_started": "hearStart",
  "input_audio_buffer.speech_stopped": "hearEnd",
  "input_audio_buffer.committed": "awaitWords",
  "conversation.item.input_audio_transcription.delta": "addWords",
  "conversation.item.input_audio_transcription.completed": "setWords",
  "conversation.item.input_audio_transcription.failed": "loseWords",
  "response.created": "expectAnswer",
  "response.output_item.added": "beginAnswer",
  "response.output_audio_transcript.delta": "addText",
  "response.output_audio.delta": "addSound",
  "response.done": "endAnswer",
  "conversation.item.truncated": "askWhatIsLeft",
  "conversation.item.retrieved": "keepHeard",
  error: "complain",
};

/**
 * An entry of the transcript: `id`, `who` ("user" or "assistant"), `text`, `isOpen` while more may
 * come, and for an answer that was cut short `heard`: how many code units of its text were heard.
 */
export class Conversation {
  #entries = new Map();
  #isHearing = false;
  // Turns whose words are not known, and whether the conversation has them: sound can be lost.
  #unwritten = new Map();
  #isAnswering = false;
  // The answer that sounds, or is about to.
  #current = null;
  #hasSound = false;

  get turn() {
    if (this.#isHearing) return "hearing";
    if (this.#hasSound) return "speaking";
    return this.#unwritten.size || this.#isAnswering ? "thinking" : "listening";
  }

  /** An event of the server's. `playedMs`: how much of the current answer's sound was heard. */
  receive(event, playedMs) {
    const name = HANDLERS[event.type];
    return name ? this[`_${name}`](event, playedMs) : [];
  }

  /** An answer has been played to its end. */
  played(id) {
    if (id === this.#current?.id) this.#leave();
    return [];
  }

  /** The user wants no more of this answer. */
  stop(playedMs) {
    const cancel = { do: "send", event: { type: "response.cancel" } };
    return [...(this.#isAnswering ? [cancel] : []), ...this.#cut(playedMs)];
  }

  // --- the user's turn ---------------------------------------------------------------------------

  _hearStart(event, playedMs) {
    this.#isHearing = true;
    const entry = { id: event.item_id, who: "user", text: "", isOpen: true };
    this.#entries.set(entry.id, entry);
    return [...this.#cut(playedMs), ...this.#dropLost(), { do: "show", entry }];
  }

  _hearEnd(event) {
    this.#isHearing = false;
    this.#unwritten.set(event.item_id, false);
    return [];
  }

  _awaitWords(event) {
    this.#unwritten.set(event.item_id, true);
    return [];
  }

  _addWords(event) {
    return this.#change(event.item_id, (entry) => (entry.text += event.delta));
  }

  /** What nobody could understand (a cough, a door) was no turn. */
  _setWords(event) {
    this.#unwritten.delete(event.item_id);
    if (!event.transcript) return this.#drop(event.item_id);
    this.#isAnswering = true; // or will be, in the next moment
    return this.#change(event.item_id, (entry) => {
      Object.assign(entry, { text: event.transcript, isOpen: false });
    });
  }

  _loseWords(event) {
    this.#unwritten.delete(event.item_id);
    return [...this.#drop(event.item_id), { do: "complain", error: event.error }];
  }

  // --- the answer --------------------------------------------------------------------------------

  _expectAnswer() {
    this.#isAnswering = true;
    return [];
  }

  _beginAnswer({ item }) {
    if (item.type !== "message") return [];
    const entry = { id: item.id, who: "assistant", text: "", isOpen: true };
    this.#entries.set(entry.id, entry);
    this.#current = entry;
    this.#hasSound = false;
    return [{ do: "show", entry }];
  }

  _addText(event) {
    return this.#change(event.item_id, (entry) => (entry.text += event.delta));
  }

  _addSound(event) {
    if (event.item_id !== this.#current?.id) return [];
    this.#hasSound = true;
    return [{ do: "play", id: event.item_id, audio: event.delta }];
  }

  _endAnswer({ response }) {
    this.#isAnswering = false;
    const orders = response.output.flatMap((item) =>
      this.#change(item.id, (entry) => (entry.isOpen = false)),
    );
    if (this.#hasSound) orders.push({ do: "finish", id: this.#current.id });
    else this.#leave();
    if (response.status !== "failed") return orders;
    return [...orders, { do: "complain", error: response.status_details?.error ?? {} }];
  }

  // --- cut short ---------------------------------------------------------------------------------

  /** Of what the server has made, this much was heard: the rest was never said. */
  #cut(playedMs) {
    const entry = this.#current;
    if (!entry) return [];
    this.#leave();
    const place = { item_id: entry.id, content_index: 0, audio_end_ms: Math.floor(playedMs) };
    return [
      { do: "halt", id: entry.id },
      { do: "send", event: { type: "conversation.item.truncate", ...place } },
    ];
  }

  _askWhatIsLeft(event) {
    return [{ do: "send", event: { type: "conversation.item.retrieve", item_id: event.item_id } }];
  }

  _keepHeard({ item }) {
    return this.#change(item.id, (entry) => (entry.heard = item.content[0].transcript.length));
  }

  // --- small things ------------------------------------------------------------------------------

  _complain(event) {
    // The answer came to its end while the wish to stop it was on its way.
    if (event.error.code === "response_cancel_not_active") return [];
    return [...this.#dropLost(), { do: "complain", error: event.error }];
  }

  /** A stream that broke takes the turn with it whose sound it held. */
  #dropLost() {
    const lost = [...this.#unwritten.keys()].filter((id) => !this.#unwritten.get(id));
    for (const id of lost) this.#unwritten.delete(id);
    return lost.flatMap((id) => this.#drop(id));
  }

  #leave() {
    this.#current = null;
    this.#hasSound = false;
  }

  #change(id, change) {
    const entry = this.#entries.get(id);
    if (!entry) return [];
    change(entry);
    return [{ do: "show", entry }];
  }

  #drop(id) {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    return entry ? [{ do: "drop", entry }] : [];
  }
}

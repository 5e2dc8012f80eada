// Texts to begin with.

export const SAMPLES = {
  greeting: "Hello! You hear me while I am still being made. Pick another voice, and I am someone else.",
  numbers:
    "On 3 May 2024 the train left at 7:45 a.m. with 1,204 people on board. A ticket cost $3.50, " +
    "and 20% of them had none.",
  story:
    "The weaver worked at night, when the house was quiet. Thread by thread the cloth grew, and " +
    "with every row she told it a word. In the morning, when the first wind came through the " +
    "window, the cloth began to speak.\n\nIt spoke softly at first. Then it would not stop.",
};

"""Sentences on which the decoder's activations are measured (see ``calibrate.py``)."""

LOAD_TIME_TEXTS = (
    "Whether the judge would measure the treasure or azure beige garage was unusual.",
    "Oh boy, the noise of joy!",
    "Could you tell me where the nearest station is, and how long it takes?",
    "Three thin thieves thought a thousand thoughts on Thursday.",
    "No!",
    "Zebras zigzagged zealously through the zoo; nobody knew why.",
    "Every evening the old keeper climbed the narrow stairs to light the lamp above the harbour.",
)
"""One for each of the conditions."""

TEXTS = (
    *LOAD_TIME_TEXTS,
    "Hello there.",
    "Stop! Don't touch that button.",
    "The price rose by nine hundred and forty seven thousand, two hundred and six dollars.",
    "Physics, chemistry and mathematics are taught in huge modern rooms.",
    "I can't believe it, that's absolutely wonderful news!",
    "Please hold the line while I look for your order.",
    "Rain fell softly on the tin roof, and the dog slept.",
    "Why do birds sing so early in the morning, mother?",
    "Six slippery snails slid slowly seaward.",
    "You, too, could choose the blue room by the pool.",
    "Her first word was bird; her third was world.",
    "Go now, or we will never get home before dark.",
    "Big black bugs bit a big black bear, which bled badly.",
    "Vivian vowed never to leave the valley's five vineyards.",
    "Ugh, what an awful, raucous, thoroughly ugly hawk!",
    "Young Hugh yearned for a yellow yacht.",
    "Ship eight hundred crates to dock twelve by noon on the fourteenth of May.",
    "Yes.",
)

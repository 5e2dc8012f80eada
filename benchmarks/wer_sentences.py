"""Fifty sentences to be read aloud and written down again.

The first spelling of each is the one that is spoken. The others are equally right ways to write it
down; a recogniser's choice among them says nothing about the voice.
"""

from __future__ import annotations

SENTENCES: tuple[tuple[str, ...], ...] = (
    ("Please close the front door.",),
    ("Good morning, everyone.",),
    ("Where did you put the car keys?",),
    ("I can't believe it's already over!",),
    ("The train leaves at half past nine.",),
    (
        "There are 24 students in the class.",
        "There are twenty four students in the class.",
    ),
    (
        "She paid $45 for the old lamp.",
        "She paid 45 dollars for the old lamp.",
        "She paid forty five dollars for the old lamp.",
    ),
    ("He was born in 1987.", "He was born in nineteen eighty seven."),
    (
        "The meeting is on March 5th at three o'clock.",
        "The meeting is on March fifth at three o'clock.",
        "The meeting is on March 5th at 3 o'clock.",
    ),
    ("About 75% of the voters agreed.", "About 75 percent of the voters agreed."),
    ("My sister Emma lives in Boston.",),
    ("Doctor Smith will see you now.", "Dr. Smith will see you now."),
    ("Michael and Susan are moving to Chicago next summer.",),
    (
        "We flew from London to New York in seven hours.",
        "We flew from London to New York in 7 hours.",
    ),
    ("Could you tell me how to get to the station?",),
    ("What time does the museum open on Sundays?",),
    ("Why are the lights still on in the kitchen?",),
    ("Who wrote the letter that arrived this morning?",),
    ("The weather will be cold and windy tomorrow, with some rain in the afternoon.",),
    ("If you see my brother, tell him that dinner is ready.",),
    (
        "The old man walked slowly along the beach, looking for shells and thinking about "
        "the summers of his childhood.",
    ),
    (
        "Although the road was closed because of the snow, we managed to reach the village "
        "before it was completely dark.",
    ),
    (
        "Scientists have discovered a new kind of frog in the rain forest, and they believe "
        "that many more are waiting to be found.",
        "Scientists have discovered a new kind of frog in the rainforest, and they believe "
        "that many more are waiting to be found.",
    ),
    (
        "When the music stopped, nobody said a word, and for a long moment the only sound in "
        "the hall was the rain on the roof.",
    ),
    ("Thank you very much for your help.",),
    ("The quick brown fox jumps over the lazy dog.",),
    (
        "Bread, butter, cheese and two bottles of milk, please.",
        "Bread, butter, cheese and 2 bottles of milk, please.",
    ),
    ("Turn left at the next corner and then go straight ahead.",),
    (
        "The company sold three million phones last year.",
        "The company sold 3 million phones last year.",
    ),
    ("Water boils at one hundred degrees.", "Water boils at 100 degrees."),
    ("It takes about twenty minutes to walk there.", "It takes about 20 minutes to walk there."),
    ("The river is almost two thousand miles long.", "The river is almost 2,000 miles long."),
    ("Her birthday is on the twelfth of October.", "Her birthday is on the 12th of October."),
    ("Call me tomorrow evening, after dinner.",),
    ("The children were playing in the garden behind the house.",),
    ("I would like a cup of coffee without sugar.",),
    ("He opened the window because the room was too warm.",),
    ("The president will speak to the nation tonight.",),
    ("Nobody knows what happened to the missing ship.",),
    (
        "She has been working in this hospital for eleven years.",
        "She has been working in this hospital for 11 years.",
    ),
    ("Remember to water the plants while I am away.",),
    ("The library is closed on Monday and Tuesday.",),
    ("A small bird was sitting on the branch outside my window.",),
    ("The judge asked the witness to answer the question.",),
    ("Most people prefer to travel by train.",),
    ("The price of oil has fallen for the third week in a row.",),
    ("They built the bridge more than a century ago.",),
    ("Our teacher told us a story about a brave young sailor.",),
    ("You should drink more water when it is hot outside.",),
    ("The doctor said that he needs to rest for at least a week before he can go back to work.",),
)

"""Reading numbers: money, dates, phones, units and long runs are read as numbers."""

import re

import pytest

from worker.models.hibari.text.clean import clean_text
from worker.models.hibari.text.numbers import MAX_NUMBER_DIGITS

CASES = [
    ("3,497", "3,497"),
    ("3497 people", "3,497 people"),
    ("1999", "1999"),
    ("in 1999", "in 1999"),
    ("1999 people", "1,999 people"),
    ("since 2005 we", "since 2005 we"),
    ("$1,234.56", "1,234 dollars and 56 cents"),
    ("$99,070.01", "99,070 dollars and 1 cent"),
    ("€29.99", "29 euros and 99 cents"),
    ("€29,99", "29 euros and 99 cents"),
    ("29,99 €", "29 euros and 99 cents"),
    ("£5", "5 pounds"),
    ("£1", "1 pound"),
    ("$1", "1 dollar"),
    ("$0.50", "50 cents"),
    ("$0.01", "1 cent"),
    ("¥500", "500 yen"),
    ("₹1,000", "1,000 rupees"),
    ("5$", "5 dollars"),
    ("-$5", "minus 5 dollars"),
    ("$-5", "minus 5 dollars"),
    ("$1.2M", "1.2 million dollars"),
    ("$5k", "5 thousand dollars"),
    ("$3 million", "3 million dollars"),
    ("$5-10", "5 to 10 dollars"),
    ("$5–$10", "5 to 10 dollars"),
    ("US$5", "5 dollars"),
    ("$2000", "2,000 dollars"),
    ("$1,234.567", "1,234.567 dollars"),
    ("5¢", "5 cents"),
    ("$HOME", "dollar HOME"),
    ("$", "dollar"),
    ("1234567890123456", "1 2 3 4, 5 6 7 8, 9 0 1 2, 3 4 5 6"),
    (
        "1111111111111111111111111111111111111111",
        "1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1",
    ),
    ("1,2,3", "1, 2, 3"),
    ("1,234,567,890,123,456,789", "1,234,567,890,123,456,789"),
    ("123,45,678", "123, 45, 678"),
    ("(555) 123-4567", "5 5 5, 1 2 3, 4 5 6 7"),
    ("555-123-4567", "5 5 5, 1 2 3, 4 5 6 7"),
    ("+1 555 123 4567", "plus 1, 5 5 5, 1 2 3, 4 5 6 7"),
    ("+44 20 7946 0958", "plus 4 4, 2 0, 7 9 4 6, 0 9 5 8"),
    ("192.168.0.1", "1 9 2 dot 1 6 8 dot 0 dot 1"),
    ("10.0.0.0/8", "1 0 dot 0 dot 0 dot 0 slash 8"),
    ("999.1.1.1", "999 dot 1 dot 1 dot 1"),
    ("24.12.2024", "2024-12-24"),
    ("31.13.2024", "31 dot 13 dot 2024"),
    ("12/25/2024", "12/25/2024"),
    ("2024-03-05", "2024-03-05"),
    ("v1.2.3", "v 1 dot 2 dot 3"),
    ("version 3.12.1", "version 3 dot 12 dot 1"),
    ("v2 release", "version 2 release"),
    ("10:30am", "10:30am"),
    ("10:30-11:30", "10:30 to 11:30"),
    ("14:05", "14:05"),
    ("½ cup", "one half cup"),
    ("2½ cups", "2 and a half cups"),
    ("1 ½ cups", "1 and a half cups"),
    ("¾", "three quarters"),
    ("x²", "x squared"),
    ("10⁶", "10 to the power of 6"),
    ("5 m²", "5 square meters"),
    ("m³", "m cubed"),
    ("20 °C", "20 °C"),
    ("-5°C", "-5°C"),
    ("°F", "degrees Fahrenheit"),
    ("90°", "90 degrees"),
    ("300 °K", "300 degrees Kelvin"),
    ("5 m/s", "5 meters per second"),
    ("5 km", "5 km"),
    ("1 m", "1 meter"),
    ("3.5 g", "3.5 grams"),
    ("5'10\"", "5 feet 10 inches"),
    ("50%", "50%"),
    ("50 %", "50%"),
    ("100% sure", "100% sure"),
    ("#5", "number 5"),
    ("№5", "number 5"),
    ("No. 5", "No. 5"),
    ("1/2", "1/2"),
    ("1990s", "1990s"),
    ("the '90s", "the '90s"),
    ("21st", "21st"),
    ("0042", "0042"),
    ("007", "007"),
    ("-5", "-5"),
    ("3-2", "3-2"),
    ("1e10", "1e10"),
    ("0xFF", "0xFF"),
    ("pages 10-20", "pages 10-20"),
    ("4K and 1080p", "4K and 1080p"),
    ("1.5", "1.5"),
    ("1.50", "1.50"),
    (".5", ".5"),
    ("1..2", "1…2"),
    ("1,000,000.5", "1,000,000.5"),
    ("5 - 3 = 2", "5 minus 3 equals 2"),
    ("2+2=4", "2 plus 2 equals 4"),
    ("£1.50", "1 pound and 50 pence"),
    ("10–15 %", "10 to 15%"),
    ("1.000.000", "1,000,000"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_numbers_are_rewritten_only_where_the_g2p_misreads_them(text: str, expected: str) -> None:
    assert clean_text(text).text == expected


def test_a_run_of_digits_is_told_in_groups_and_bounded() -> None:
    clean = clean_text("7" * 100_000)
    assert clean.text.startswith("7 7 7 7, 7 7 7 7, ")
    assert len(clean.text) < 100_000
    assert clean.warnings[0].startswith("shortened")


def test_no_number_is_longer_than_the_g2p_can_read() -> None:
    for length in range(1, 60):
        runs = re.findall(r"\d+", clean_text("9" * length).text)
        assert max(map(len, runs)) <= MAX_NUMBER_DIGITS

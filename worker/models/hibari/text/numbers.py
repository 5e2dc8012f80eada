"""Numbers that the G2P would misread or choke on: money, dates, phones, long runs, units."""

import re

from worker.models.hibari.text.draft import Draft
from worker.models.hibari.text.notices import Notices
from worker.models.hibari.text.symbols import CURRENCIES, FRACTIONS, SUPERSCRIPTS

# The G2P has names for powers of a thousand up to 10^33 and fails beyond 36 digits; nobody follows
# a number beyond the trillions, so longer ones are told digit by digit.
MAX_NUMBER_DIGITS = 15
# About six minutes of digits.
MAX_RUN_DIGITS = 1000

_NUM = r"\d{1,3}(?:,\d{3}){1,8}(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?"
_SIGNS = re.escape("".join(CURRENCIES))
_SCALE = r"(?:\s?(hundred|thousand|million|billion|trillion)\b|\s?([kKmMbBtT]|bn|mn)\b)?"
_MONEY = re.compile(
    rf"(?<![\w.])(-?)(?:US|CA?|AU?|NZ|HK|S|R)?([{_SIGNS}])\s?(-?)(\d+,\d{{2}}(?![\d,])|{_NUM})"
    rf"(?:\s?[-–]\s?[{_SIGNS}]?({_NUM})(?!\w|,\d))?{_SCALE}(?![\d])"
)
_MONEY_AFTER = re.compile(
    rf"(?<![\w.,{_SIGNS}])(-?)(\d+,\d{{2}}(?![\d,])|{_NUM}){_SCALE}\s?([{_SIGNS}])(?!\s?\d)"
)
_SCALES = {
    "k": "thousand",
    "m": "million",
    "mn": "million",
    "b": "billion",
    "bn": "billion",
    "t": "trillion",
}

_DIGIT = re.compile(r"\d|[⁰¹²³]")
_LONG_RUN = re.compile(r"\d(?:,?\d){15,}+")
_PHONE = re.compile(
    r"(?<![\w.-])(?:\+?(\d{1,3})[ .-]?)?(?:\((\d{3})\)[ .-]?|(\d{3})[ .-])(\d{3})[ .-](\d{4})"
    r"(?![\w-]|\.\d)"
)
_INTERNATIONAL = re.compile(r"(?<![\w+])\+(\d{1,3}(?:[ .-]?\d{2,4}){2,5})(?![\w-])")
_IP = re.compile(
    r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?:/(\d{1,2}))?(?![\w]|\.\d)"
)
_DATE_DOTTED = re.compile(r"(?<![\w.])(\d{1,2})\.(\d{1,2})\.(\d{4})(?![\w]|\.\d)")
_VERSION = re.compile(
    r"(?<![\w.])([vV]?)(\d{1,9}(?:\.\d{1,9}){2,6})(?=[^\w.]|\.\W|\.?$|[a-z])", re.MULTILINE
)
_DOTTED_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3}){2,}")
_LISTED = re.compile(r"(?<![\d.,])\d+(?:,\d+)++(?![\d])")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_MINUS = re.compile(r"(?<=\d) ?- ?(?=\d+(?:\.\d+)? ?=)")
_V_NUMBER = re.compile(r"(?<![\w.])[vV](?=\d)")
_YEAR_LIKE = re.compile(r"(?<![\w.,:/$-])(\d{4})(?![\w,:/-]|\.\d)(?=(\s(?:[a-z]+))?)")
_YEAR_BEFORE = re.compile(
    r"(?:\b(?:in|since|until|till|by|from|of|to|year|and|the|through|before|after|circa|late|early|mid|"
    r"summer|spring|fall|autumn|winter|January|February|March|April|May|June|July|August|September|"
    r"October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec)\.?|,)\s$",
    re.IGNORECASE,
)
# A plural counts, but "1999 was" and "1984 sales" do not.
_COUNTED = re.compile(
    r"^ (?:people|men|women|children|feet|percent|(?!(?:was|is|has|as|this|its|his|does|us|plus|"
    r"across|always|perhaps|besides|towards|sales|elections|olympics|games)$)[a-z]{2,40}[^s\W]s)$"
)

_MIXED = re.compile(rf"(\d)\s?([{''.join(FRACTIONS)}])")
_FRACTION = re.compile(rf"[{''.join(FRACTIONS)}]")
_POWER = re.compile(rf"(?<=[\w)])(⁻?[{''.join(SUPERSCRIPTS)}]+)")
_SUPERSCRIPT = re.compile(rf"[{''.join(SUPERSCRIPTS)}]+")
_FEET = re.compile(r"(?<![\w.])(\d{1,2})'\s?(\d{1,2})(?:\"|'')(?!\w)")
_METRIC = re.compile(
    r"(?<![\w.,])(\d+(?:,\d{3})*(?:\.\d+)?)\s?"
    r"(km²|km2|m²|m2|m³|m3|cm²|cm2|cm³|cm3|m/s|km/s|mi/h|kg/m3|kg/m³|L|l|g|m|V|W|°)(?![\w²³°/'’])(?!\s?[CFK]\b)"
)
_UNITS = {
    "km²": "square kilometer", "km2": "square kilometer", "m²": "square meter",
    "m2": "square meter", "cm²": "square centimeter", "cm2": "square centimeter",
    "m³": "cubic meter", "m3": "cubic meter", "cm³": "cubic centimeter",
    "cm3": "cubic centimeter", "m/s": "meter", "km/s": "kilometer", "mi/h": "mile",
    "kg/m3": "kilogram", "kg/m³": "kilogram", "L": "liter", "l": "liter", "g": "gram",
    "m": "meter", "V": "volt", "W": "watt", "°": "degree",
}  # fmt: skip
_PER = {
    "m/s": " per second",
    "km/s": " per second",
    "mi/h": " per hour",
    "kg/m3": " per cubic meter",
    "kg/m³": " per cubic meter",
}
_DEGREES = re.compile(r"(?<!\d)(?<!\d )°\s?([CFK])(?!\w)")
_DEGREES_KELVIN = re.compile(r"(?<=\d)\s?°\s?K(?!\w)")
_SCALES_OF_HEAT = {"C": " degrees Celsius", "F": " degrees Fahrenheit", "K": " degrees Kelvin"}
_RANGE = re.compile(r"(?<=[\dmM%])\s?–\s?(?=[\d$€£])")
_TIME_RANGE = re.compile(r"(\d{1,2}:\d{2}(?:\s?[AaPp]\.?[Mm]\.?)?)\s?[-–]\s?(?=\d{1,2}:\d{2})")
_NUMBER_SIGN = re.compile(r"(?<![\w&])#(?=\d)")
_ALWAYS = re.compile(r"(?<![\w/])24/7(?![\w/])")


def read_numbers(draft: Draft, notices: Notices) -> None:
    """Rewrite the number forms in `draft`; texts without a digit cost one search."""
    draft.sub(_MIXED, _read_fraction, FRACTIONS)
    draft.sub(_FRACTION, _read_fraction, FRACTIONS)
    draft.sub(_DEGREES, lambda m: _SCALES_OF_HEAT[m.group(1)], "°")
    if not _DIGIT.search(draft.text):
        return
    draft.sub(_LONG_RUN, lambda m: _read_run(m.group(), notices))
    _read_codes(draft)
    draft.sub(_TIME_RANGE, lambda m: m.group(1) + " to ")
    draft.sub(_MONEY, _read_money, CURRENCIES)
    draft.sub(_MONEY_AFTER, _read_money_after, CURRENCIES)
    draft.sub(_RANGE, " to ", "–")
    draft.sub(_MINUS, " minus ", "=")
    draft.sub(_LISTED, _read_list, ",")
    _read_measures(draft)
    draft.sub(_YEAR_LIKE, _read_four_digits)


def _read_codes(draft: Draft) -> None:
    draft.sub(_IP, _read_ip, ".")
    draft.sub(_PHONE, _read_phone)
    draft.sub(_INTERNATIONAL, lambda m: "plus " + _spell_groups(re.split(r"[ .-]", m.group(1))))
    draft.sub(_DATE_DOTTED, _read_dotted_date)
    draft.sub(_VERSION, _read_version)
    draft.sub(_V_NUMBER, "version ")
    draft.sub(_ALWAYS, "24 7")
    draft.sub(_NUMBER_SIGN, "number ")


def _read_measures(draft: Draft) -> None:
    draft.sub(_FEET, lambda m: f"{m.group(1)} feet {m.group(2)} inches")
    draft.sub(_DEGREES_KELVIN, " degrees Kelvin")
    draft.sub(_METRIC, _read_unit)
    draft.sub(_POWER, _read_power)
    draft.sub(_SUPERSCRIPT, lambda m: " " + _plain(m.group()) + " ")


def _read_fraction(match: re.Match[str]) -> str:
    if len(match.group()) == 1:
        return f" {FRACTIONS[match.group()]} "
    words = FRACTIONS[match.group(2)]
    return f"{match.group(1)} and {words.replace('one ', 'a ', 1)} "


def _read_run(run: str, notices: Notices) -> str | None:
    """Digit by digit in groups of four; None for a number with proper thousands commas."""
    digits = run.replace(",", "")
    groups = run.split(",")
    if (
        len(groups) > 1
        and len(digits) <= 36
        and all(len(g) == 3 for g in groups[1:])
        and len(groups[0]) < 4
    ):
        return None
    if len(digits) > MAX_RUN_DIGITS:
        notices.add("shortened", "run{} of digits")
        digits = digits[:MAX_RUN_DIGITS]
    return _spell_groups([digits[i : i + 4] for i in range(0, len(digits), 4)])


def _spell_groups(groups: list[str]) -> str:
    return ", ".join(" ".join(group) for group in groups if group)


def _read_ip(match: re.Match[str]) -> str | None:
    octets = match.groups()[:4]
    if any(int(octet) > 255 for octet in octets):
        return None
    prefix = f" slash {match.group(5)}" if match.group(5) else ""
    return " dot ".join(" ".join(octet) for octet in octets) + prefix


def _read_phone(match: re.Match[str]) -> str:
    country, area, bare_area, exchange, line = match.groups()
    plus = "plus " if match.group().startswith("+") else ""
    groups = [country or "", area or bare_area, exchange, line]
    return plus + _spell_groups(groups)


def _read_dotted_date(match: re.Match[str]) -> str | None:
    """Day.Month.Year, in the form whose reading the G2P knows."""
    day, month, year = match.groups()
    if not (1 <= int(day) <= 31 and 1 <= int(month) <= 12):
        return None
    return f"{year}-{int(month):02d}-{int(day):02d}"


def _read_version(match: re.Match[str]) -> str:
    """Dots said between the parts; "1.000.000" is how half the world writes a million."""
    letter, parts = match.groups()
    if not letter and _DOTTED_THOUSANDS.fullmatch(parts):
        return parts.replace(".", ",")
    return ("v " if letter else "") + parts.replace(".", " dot ")


def _read_list(match: re.Match[str]) -> str | None:
    """Numbers joined by commas that are no thousands: "1,2,3" is three of them."""
    return None if _THOUSANDS.fullmatch(match.group()) else match.group().replace(",", ", ")


def _read_money(match: re.Match[str]) -> str:
    before, sign, after, amount, upper, word, letter = match.groups()
    minus = "minus " if before or after else ""
    scale = word or _SCALES.get((letter or "").lower(), "")
    if upper:
        amount, minus = upper, f"{minus}{_commas(amount)} to "
    return minus + _amount(amount, sign, scale)


def _read_money_after(match: re.Match[str]) -> str:
    minus, amount, word, letter, sign = match.groups()
    scale = word or _SCALES.get((letter or "").lower(), "")
    return ("minus " if minus else "") + _amount(amount, sign, scale)


def _amount(amount: str, sign: str, scale: str) -> str:
    one, many, cent, cents = CURRENCIES[sign]
    if re.fullmatch(r"\d+,\d{2}", amount):
        amount = amount.replace(",", ".")
    whole, _, fraction = amount.partition(".")
    if scale:
        return f"{_commas(amount)} {scale} {many}"
    if len(fraction) > 2 or not cent:
        return f"{_commas(amount)} {many if amount != '1' else one}"
    parts = []
    num_cents = int(fraction.ljust(2, "0")) if fraction else 0
    if int(whole.replace(",", "")) or not num_cents:
        parts.append(f"{_commas(whole)} {one if whole == '1' else many}")
    if num_cents:
        parts.append(f"{num_cents} {cent if num_cents == 1 else cents}")
    return " and ".join(parts)


def _commas(number: str) -> str:
    """Thousands commas, so that four digits are no year."""
    whole, dot, fraction = number.partition(".")
    if "," in whole or len(whole) < 4 or len(whole) > MAX_NUMBER_DIGITS:
        return number
    return f"{int(whole):,}{dot}{fraction}"


def _read_four_digits(match: re.Match[str]) -> str | None:
    """1100 to 2099 is a year unless it counts something; anything else is a number."""
    digits, following = match.group(1), match.group(2) or ""
    if digits[0] == "0":
        return None
    if 1100 <= int(digits) <= 2099:
        before = match.string[max(0, match.start() - 12) : match.start()]
        if not _COUNTED.match(following) or _YEAR_BEFORE.search(before):
            return None
    return f"{int(digits):,}"


def _read_unit(match: re.Match[str]) -> str:
    amount, unit = match.groups()
    plural = "" if amount == "1" else "s"
    return f"{_commas(amount)} {_UNITS[unit]}{plural}{_PER.get(unit, '')}"


def _read_power(match: re.Match[str]) -> str:
    power = _plain(match.group(1))
    named = {"2": " squared", "3": " cubed"}.get(power)
    return named or f" to the power of {power}"


def _plain(superscripts: str) -> str:
    return "".join(SUPERSCRIPTS.get(c, "minus ") for c in superscripts)

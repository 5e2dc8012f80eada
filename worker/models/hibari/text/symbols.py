"""Readings of single characters that are neither letters nor plain punctuation."""

QUOTES = {
    **dict.fromkeys("“”„‟«»「」『』〝〞〟＂❝❞″", '"'),
    **dict.fromkeys("‘’‚‛‹›′`´ʼʹˈ＇❛❜ʻ", "'"),
}

# A bullet stays a bullet until the lines are read; elsewhere it is a pause.
BULLET = "•"

PUNCTUATION = {
    **QUOTES,
    "`": "`",
    "–": "–",
    "—": "—",
    **dict.fromkeys("‐‑⁃﹣－", "-"),
    **dict.fromkeys("‒−", "–"),
    **dict.fromkeys("―⸺⸻﹘", "—"),
    "…": "…",
    "⋯": "…",
    "‥": "…",
    **dict.fromkeys("。｡।॥۔።．", "."),
    **dict.fromkeys("、，､،፣︐", ","),
    **dict.fromkeys("؛；፤", ";"),
    **dict.fromkeys("：፥", ":"),
    **dict.fromkeys("؟？⁇", "?"),
    "！": "!",
    "‼": "!",
    **dict.fromkeys("⁉⁈", "?!"),
    **dict.fromkeys("¿¡", ""),
    **dict.fromkeys("•‣◦▪▫●○■□◆◇∙", BULLET),
    **dict.fromkeys("·・‧", " "),
    **dict.fromkeys("【〔〖〈《⟨｟（［｛", "("),
    **dict.fromkeys("】〕〗〉》⟩｠）］｝", ")"),
    **dict.fromkeys("〜～˜∼", "~"),
    "⁄": "/",
    "∕": "/",
    "¦": "|",
    "‖": "|",
    **dict.fromkeys("†‡‽※", ""),
}

WORDS = {
    "©": " copyright ",
    "®": "",
    "™": "",
    "℠": "",
    "ª": "",
    "№": " number ",
    "§": " section ",
    "¶": " paragraph ",
    "±": " plus or minus ",
    "×": " times ",
    "÷": " divided by ",
    "≈": " about ",
    "≅": " about ",
    "≃": " about ",
    "≠": " is not ",
    "≤": " at most ",
    "≥": " at least ",
    "≡": " equals ",
    "≪": " less than ",
    "≫": " greater than ",
    "∞": " infinity ",
    "√": " root of ",
    "∑": " sum ",
    "∏": " product ",
    "∫": " integral ",
    "∂": " partial ",
    "∆": " delta ",
    "∇": " nabla ",
    "∈": " in ",
    "∩": " and ",
    "∪": " or ",
    "∧": " and ",
    "∨": " or ",
    "¬": " not ",
    "∴": " therefore ",
    "∵": " because ",
    "‰": " per mille ",
    "℃": "°C",
    "℉": "°F",
    **dict.fromkeys("→⇒⟶⟹➔➜➡", " to "),
    **dict.fromkeys("←⇐↑↓↔⇔↗↘↵⏎", " "),
    **dict.fromkeys("✓✔☑", " "),
    **dict.fromkeys("^¨¯˘˙˚¸˝˛ˇ", " "),
    "^": "^",
    "♀": " female ",
    "♂": " male ",
}

SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))

FRACTIONS = {
    "½": "one half",
    "⅓": "one third",
    "⅔": "two thirds",
    "¼": "one quarter",
    "¾": "three quarters",
    "⅕": "one fifth",
    "⅖": "two fifths",
    "⅗": "three fifths",
    "⅘": "four fifths",
    "⅙": "one sixth",
    "⅚": "five sixths",
    "⅛": "one eighth",
    "⅜": "three eighths",
    "⅝": "five eighths",
    "⅞": "seven eighths",
}

# sign -> (one, many, one hundredth, many hundredths)
CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "", ""),
    "₴": ("hryvnia", "hryvnias", "", ""),
    "₪": ("shekel", "shekels", "", ""),
    "₫": ("dong", "dong", "", ""),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "₿": ("bitcoin", "bitcoins", "", ""),
    "¢": ("cent", "cents", "", ""),
}

# Whole words with a Greek letter that are units of measure.
GREEK_UNITS = {
    "μm": "micrometers", "μg": "micrograms", "μs": "microseconds", "μl": "microliters",
    "μL": "microliters", "μA": "microamps", "μV": "microvolts", "μF": "microfarads",
    "Ω": "ohms", "kΩ": "kiloohms", "MΩ": "megaohms",
}  # fmt: skip

# Letter names, for a Greek letter that stands alone in English text.
GREEK_NAMES = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta",
    "η": "eta", "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu",
    "ξ": "xi", "ο": "omicron", "π": "pi", "ρ": "rho", "σ": "sigma", "ς": "sigma", "τ": "tau",
    "υ": "upsilon", "φ": "phi", "ϕ": "phi", "χ": "chi", "ψ": "psi", "ω": "omega",
}  # fmt: skip

# Accented words that a reader without the accents would say differently. Their readings, in the
# lexicon's alphabet, are in `phonemes.py`.
ACCENTED_WORDS = frozenset(
    ("résumé", "résumés", "exposé", "exposés", "pâté", "pâtés", "rosé", "rosés", "lamé", "maté")
)

"""Readings that the G2P's lexicon lacks, in its own alphabet (misaki's)."""

# Accented words that `symbols.ACCENTED_WORDS` keeps, and the name of the letter that the clean
# text cannot write as "a".
US = {
    "eigh": "ˈA",
    "résumé": "ɹˈɛzəmˌA",
    "résumés": "ɹˈɛzəmˌAz",
    "exposé": "ˌɛkspOzˈA",
    "exposés": "ˌɛkspOzˈAz",
    "pâté": "pɑtˈA",
    "pâtés": "pɑtˈAz",
    "rosé": "ɹOzˈA",
    "rosés": "ɹOzˈAz",
    "lamé": "læmˈA",
    "maté": "mˈɑtA",
}
GB = {
    **US,
    "résumé": "ɹˈɛzjʊmˌA",
    "résumés": "ɹˈɛzjʊmˌAz",
    "exposé": "ɛkspˈQzA",
    "exposés": "ɛkspˈQzAz",
    "pâté": "pˈatA",
    "pâtés": "pˈatAz",
    "rosé": "ɹˈQzA",
    "rosés": "ɹˈQzAz",
    "lamé": "lˈɑːmA",
    "maté": "mˈɑːtA",
}

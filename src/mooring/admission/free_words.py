"""Which words of a new object are free: whatever they say, nothing else about it is judged or written otherwise.

    check = strategy.free_word(("metadata", "name"))

A word is a text or a whole number at a place in the JSON of an object. Where a strategy gives a check for it, an object
in which only that word is another, and passes the check, comes to the same but for the word. Used by the API server,
which does not judge again what it has judged before (``like_objects.py``).
"""

from collections.abc import Callable

from mooring.api import names

Place = tuple[str | int, ...]
"""The fields and indices that lead to a value in an object."""
WordCheck = Callable[[str], bool]
"""Whether nothing is wrong with a short word as it stands in JSON, without quotation marks and with escapes, if any."""


def anything(_: str) -> bool:
    return True


def in_metadata(place: Place) -> WordCheck | None:
    """The check of a word in the metadata of kinds whose names are subdomains, and whose labels have no meaning."""
    match place:
        case ("metadata", "name"):
            return _is_name
        case ("metadata", "labels", _):
            return _is_label
        case ("metadata", "annotations", _):
            return anything  # all of them together are too long only in long texts
    return None


def _is_name(word: str) -> bool:
    return names.is_dns1123_subdomain(word)


def _is_label(word: str) -> bool:
    return not names.label_value(word)

"""The texts of objects with gaps for words: how such a text is made of one that came and of what it came to.

    parts = parts_of(b'{"metadata":{"name":"a"},"data":{"k":"1"}}')
    gaps = gaps_of(parts, stored, strategy.free_word)
    gaps.filled(parts_of(b'{"metadata":{"name":"b"},"data":{"k":"2"}}'), uid, now, "b")

Called by ``like_objects.py``, which says what that is good for and when it is true.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from mooring.admission.free_words import Place, WordCheck, anything

_PLAIN = bytes(byte for byte in range(0x20, 0x7F) if byte != ord("\\"))
"""In a text of these alone, a quotation mark begins or ends a text in it, and all are written as they are read."""
_OTHERS = bytes((ord("\\"), *range(0x80, 0x100)))
_QUOTED, _BACKSLASH = b"\x01", b"\x02"
"""What stands for a quotation mark and a backslash within a text, which JSON has a backslash before."""
_RARE_ESCAPE = re.compile(rb"\\[^bfnrt]")
"""Which may be read and written in different ways, as no others are."""
_INTEGER = rb"(0|-?[1-9][0-9]{0,14})"
_WITH_NUMBER = re.compile(rb"(: ?)%b([]},][][{}, ]*)" % _INTEGER)
_DIGITS = b"-0123456789"
_KEPT, _SHORT = 16, 64
"""How many words are remembered of each place, for some say the same again and again, and how long they may be."""
_MOST_CHECKED = 64
_MARK = re.compile(rb'"\x7f#([0-9]+)\x7f"|\x7f([0-9]+)\x7f')
"""What stands for a number, or a text, in a text that is looked at: a character that no plain text has."""
_NAME = ("metadata", "name")
Picked = Callable[[Sequence[bytes]], tuple[bytes, ...]]
FreeWord = Callable[[Place], WordCheck | None]


class Gaps(msgspec.Struct, frozen=True):
    """A text with gaps, and where in other texts the words are that fill them."""

    text: bytes
    """With `%b` for each gap."""
    words: Picked
    """What goes there, of the parts of a text with a uid, a time and a name behind them."""
    name: int
    """Where the name is among these."""
    made_of: str
    """What the name is made up of; empty where it is one of the parts."""
    checks: tuple[tuple[int, set[bytes], WordCheck], ...]
    """For words of which not all are sound, with some that are."""
    numbers: tuple[tuple[int, dict[bytes, bytes], re.Pattern[bytes]], ...]
    """For words that are numbers, and have no quotation marks around them: some parts by which such are known."""
    fixed: tuple[int, ...]
    """The parts that are no words, and have to be the same."""

    def sound_words(self, parts: list[bytes]) -> list[bytes] | None:
        """The parts, of which those with numbers are nothing else any more; None where something is wrong with one."""
        if self.numbers:
            parts = parts.copy()
        for index, known, pattern in self.numbers:
            number = known.get(parts[index])
            if number is None:
                found = pattern.fullmatch(parts[index])
                if found is None:
                    return None
                number = found[1]
                if len(known) < _KEPT:
                    known[parts[index]] = number
            parts[index] = number
        for index, sound, check in self.checks:
            word = parts[index]
            if word not in sound:
                if not check(word.decode()):
                    return None
                if len(sound) < _KEPT and len(word) <= _SHORT:
                    sound.add(word)
        return parts

    def filled(self, words: list[bytes], uid: str, now: str, name: str) -> bytes:
        """The text with words, of which one may be the name."""
        return _restored(self.text % self.words([*words, uid.encode(), now.encode(), name.encode()]))


def parts_of(text: bytes) -> list[bytes] | None:
    """What is between quotation marks, every second part, and what is around that; None for a text not of one line."""
    text = text.rstrip()
    odd = text.translate(None, _PLAIN)
    if odd:
        text = text.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTED)
        if odd.translate(None, _OTHERS) or _RARE_ESCAPE.search(text) or not _is_utf8(text):
            return None
    return text.split(b'"')


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _restored(text: bytes) -> bytes:
    """A text as it was before it was divided."""
    return text.replace(_QUOTED, b'\\"').replace(_BACKSLASH, b"\\\\")


def sort_of(parts: list[bytes]) -> tuple[bytes, ...]:
    """What texts have in common that may differ in their words: their form, and their fields."""
    form = b'"'.join(parts[::2]).translate(None, _DIGITS)
    return form, *(part for part, behind in zip(parts[1::2], parts[2::2], strict=True) if behind.startswith(b":"))


def picked(indices: Sequence[int]) -> Picked:
    """Takes some of many, always as a tuple."""
    if len(indices) == 1:
        (only,) = indices
        return lambda parts: (parts[only],)
    found: Picked = itemgetter(*indices)
    return found


def gaps_of(parts: list[bytes], value: bytes, free_word: FreeWord) -> Gaps | None:
    """The text `value` with gaps, where one with these parts came to it; None where that is not so easily told."""
    tree = msgspec.json.decode(value)
    places = _places(parts)
    if places is None or b"managedFields" in parts or msgspec.json.encode(tree) != value:
        return None  # who owned what before is the client's affair
    free = {
        index: check
        for index, place in places.items()
        if (check := free_word(place)) is not None and _put(tree, place, _mark(index), _word(parts, index))
    }
    metadata, behind = tree["metadata"], len(parts)
    name = next((index for index in free if places[index] == _NAME), behind + 2)
    if name == behind + 2 and (_NAME in places.values() or not metadata.get("generateName")):
        return None
    metadata["uid"], now = f"\x7f{behind}\x7f", f"\x7f{behind + 1}\x7f"
    metadata["name"], metadata["creationTimestamp"] = f"\x7f{name}\x7f", now
    for entry in metadata.get("managedFields", ()):
        entry["time"] = now
    text = msgspec.json.encode(tree).replace(b"%", b"%%")
    checked = {index: check for index, check in free.items() if check is not anything}
    if len(checked) > _MOST_CHECKED:
        return None
    return Gaps(
        text=_MARK.sub(b"%b", text),
        words=picked([int(number or word) for number, word in _MARK.findall(text)]),
        name=name,
        made_of=metadata["generateName"] if name == behind + 2 else "",
        checks=tuple((index, set(), check) for index, check in checked.items()),
        numbers=tuple((index, {}, _around(parts[index])) for index in free if index % 2 == 0),
        fixed=tuple(index for index in range(len(parts)) if index not in free),
    )


def _places(parts: list[bytes]) -> dict[int, Place] | None:
    """Where in the object the words of a text are, by the indices of their parts; None where one is no value."""
    marked, indices = parts.copy(), []
    for index, part in enumerate(parts):
        if index % 2:
            if parts[index + 1].lstrip().startswith(b":"):
                continue  # a field
            marked[index] = _mark(index).encode()
        elif found := _WITH_NUMBER.fullmatch(part):
            marked[index] = b'%b"%b"%b' % (found[1], _mark(index).encode(), found[3])
        else:
            continue
        indices.append(index)
    found_at = dict(_texts(msgspec.json.decode(_restored(b'"'.join(marked))), ()))
    marks = {index: _mark(index) for index in indices}
    return {index: found_at[mark] for index, mark in marks.items()} if found_at.keys() >= {*marks.values()} else None


def _texts(value: Any, place: Place) -> Iterator[tuple[str, Place]]:
    if isinstance(value, str):
        yield value, place
    elif isinstance(value, dict | list):
        for step, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(each, (*place, step))


def _mark(index: int) -> str:
    """What stands for a part in a text."""
    return f"\x7f{index}\x7f" if index % 2 else f"\x7f#{index}\x7f"


def _word(parts: list[bytes], index: int) -> str | int:
    """What a part says."""
    if index % 2:
        return msgspec.json.decode(_restored(b'"%b"' % parts[index]), type=str)
    found = _WITH_NUMBER.fullmatch(parts[index])
    return int(found[2]) if found else ""


def _around(part: bytes) -> re.Pattern[bytes]:
    """What parts look like that differ from this one in the number in it."""
    found = _WITH_NUMBER.fullmatch(part)
    before, behind = (found[1], found[3]) if found else (part, b"")
    return re.compile(b"".join((re.escape(before), _INTEGER, re.escape(behind))))


def _put(tree: Any, place: Place, mark: str, word: str | int) -> bool:
    """Put a mark in the place of a word, if that is what is there."""
    *way, last = place
    try:
        for step in way:
            tree = tree[step]
        found = tree[last]
    except (KeyError, IndexError, TypeError):
        return False
    if found != word or type(found) is not type(word):
        return False
    tree[last] = mark
    return True

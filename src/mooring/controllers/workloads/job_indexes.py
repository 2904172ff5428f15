"""Sets of completion indexes as Jobs write them: `1,3-5`."""

from collections.abc import Iterable, Iterator


def parse(text: str, completions: int) -> set[int]:
    """The indexes below `completions` that a text lists; what cannot be read is left out.

    >>> sorted(parse("1,3-5", 5))
    [1, 3, 4]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first) + 1, completions)))
    return found


def text_of(indexes: Iterable[int]) -> str:
    """The shortest text; runs of three and more are ranges.

    >>> text_of([5, 1, 3, 4, 7, 8])
    '1,3-5,7,8'
    """
    return ",".join(_parts(sorted(set(indexes))))


def _parts(ordered: list[int]) -> Iterator[str]:
    begin = 0
    for position, index in enumerate(ordered):
        if position + 1 < len(ordered) and ordered[position + 1] == index + 1:
            continue
        length = position + 1 - begin
        if length > 2:
            yield f"{ordered[begin]}-{index}"
        else:
            yield from map(str, ordered[begin : position + 1])
        begin = position + 1

"""A small part of PromQL, enough to ask pages of metrics what docs and proposals ask: for tests, and for nothing else.

    evaluate('sum by (code) (rate(apiserver_request_total{code=~"5.."}[5m]))', [(0.0, first), (60.0, second)])

It knows selectors with `=`, `!=`, `=~` and `!~`, `rate` and `increase` over all scrapes there are, `sum`, `min`, `max`
and `count` with `by`, `histogram_quantile`, comparison with a number, and `/` between two numbers or vectors with equal
labels. Like Prometheus it gives an empty vector where nothing matches; what it does not know is an error.
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from prometheus_client.parser import text_string_to_metric_families

Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Scrapes: TypeAlias = Sequence[tuple[float, str]]
"""Pages, each with the second at which it was read."""
_TOKEN = re.compile(r'\s*(?:(\d+(?:\.\d+)?)|([A-Za-z_:][\w:]*)|("[^"]*")|(=~|!~|==|!=|>=|<=|[(){}\[\],=<>/]))')
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda found, wanted: found == wanted,
    "!=": lambda found, wanted: found != wanted,
    "=~": lambda found, wanted: re.fullmatch(wanted, found) is not None,
    "!~": lambda found, wanted: re.fullmatch(wanted, found) is None,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
}
_GATHERED: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "count": lambda values: float(len(values)),
}


class _Series(NamedTuple):
    """A range of one series: its value in the first and in the last scrape, and the time between."""

    first: float
    last: float
    seconds: float


def evaluate(query: str, scrapes: Scrapes) -> Vector:
    """Return the vector that a query gives at the last scrape; a name stands in no label."""
    found = _Evaluation(query, scrapes)
    value = found.comparison()
    found.expect("")
    assert isinstance(value, dict), f"{query} is a number"
    return value


class _Evaluation:
    def __init__(self, query: str, scrapes: Scrapes) -> None:
        self._query = query
        self._tokens: list[str] = [next(filter(None, each.groups())) for each in _TOKEN.finditer(query)]
        assert "".join(self._tokens) == re.sub(r"\s", "", query), f"not understood: {query}"
        self._position = 0
        self._scrapes = scrapes
        self._pages = [_samples(page) for _, page in scrapes]

    # -- words

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]

    def expect(self, word: str) -> None:
        assert self._peek() == word, f"{word or 'the end'} expected instead of {self._peek()!r} in {self._query}"
        self._position += 1

    # -- expressions

    def comparison(self) -> Vector | float:
        left = self._quotient()
        if self._peek() not in _COMPARISONS:
            return left
        holds = _COMPARISONS[self._take()]
        right = self._quotient()
        assert isinstance(left, dict), "a number is compared"
        assert isinstance(right, float), "a vector is compared with"
        return {labels: value for labels, value in left.items() if holds(value, right)}

    def _quotient(self) -> Vector | float:
        left = self._one()
        while self._peek() == "/":
            self._take()
            right = self._one()
            if isinstance(left, float):
                assert isinstance(right, float), "a number is divided by a vector"
                left /= right
            elif isinstance(right, float):
                left = {labels: value / right for labels, value in left.items()}
            else:
                left = {labels: value / right[labels] for labels, value in left.items() if right.get(labels)}
        return left

    def _one(self) -> Vector | float:
        word = self._take()
        if word[0].isdigit():
            return float(word)
        if word == "(":
            value = self.comparison()
            self.expect(")")
            return value
        if word in _GATHERED:
            return self._gathered(_GATHERED[word])
        if word == "histogram_quantile":
            return self._quantile()
        if word in ("rate", "increase"):
            return self._growth(per_second=word == "rate")
        return {labels: found.last for labels, found in self._selected(word).items()}

    def _gathered(self, gather: Callable[[list[float]], float]) -> Vector:
        by: list[str] = []
        if self._peek() == "by":
            self._take()
            self.expect("(")
            while (word := self._take()) != ")":
                by += [word] if word != "," else []
        self.expect("(")
        vector = self.comparison()
        self.expect(")")
        assert isinstance(vector, dict), "a number is gathered"
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            groups.setdefault(frozenset(each for each in labels if each[0] in by), []).append(value)
        return {labels: gather(values) for labels, values in groups.items()}

    def _growth(self, *, per_second: bool) -> Vector:
        self.expect("(")
        found = self._selected(self._take(), over_time=True)
        self.expect(")")
        return {
            labels: (each.last - each.first) / (each.seconds if per_second else 1) for labels, each in found.items()
        }

    def _quantile(self) -> Vector:
        self.expect("(")
        wanted = float(self._take())
        self.expect(",")
        buckets = self.comparison()
        self.expect(")")
        assert isinstance(buckets, dict), "a number has no quantiles"
        histograms: dict[Labels, list[tuple[float, float]]] = {}
        for labels, value in buckets.items():
            (limit,) = (text for name, text in labels if name == "le")
            rest = frozenset(each for each in labels if each[0] != "le")
            histograms.setdefault(rest, []).append((float(limit), value))
        found = {labels: _quantile(sorted(each), wanted) for labels, each in histograms.items()}
        return {labels: value for labels, value in found.items() if value is not None}

    # -- series

    def _selected(self, name: str, *, over_time: bool = False) -> dict[Labels, _Series]:
        tests: list[tuple[str, str, str]] = []
        if self._peek() == "{":
            self._take()
            while (label := self._take()) != "}":
                if label != ",":
                    tests.append((label, self._take(), self._take().strip('"')))
        if over_time:
            self.expect("[")
            while self._take() != "]":
                pass
        assert all(how in _TESTS for _, how, _ in tests), f"not understood: {self._query}"
        seconds = self._scrapes[-1][0] - self._scrapes[0][0]
        found: dict[Labels, _Series] = {}
        for (sample, labels), value in self._pages[-1].items():
            given = dict(labels)
            if sample == name and all(_TESTS[how](given.get(label, ""), wanted) for label, how, wanted in tests):
                # A series that was not there at first began with nothing.
                found[labels] = _Series(self._pages[0].get((sample, labels), 0.0), value, seconds)
        return found


@functools.lru_cache(maxsize=4)  # many questions are asked about one page
def _samples(page: str) -> dict[tuple[str, Labels], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def _quantile(buckets: list[tuple[float, float]], wanted: float) -> float | None:
    """As Prometheus: by the straight line through the bucket in which it lies; None without any observation."""
    total = buckets[-1][1]
    if not total:
        return None
    rank, below, low = wanted * total, 0.0, 0.0
    for limit, count in buckets:
        if count >= rank:
            if limit == float("inf"):
                return low
            return low + (limit - low) * ((rank - below) / (count - below) if count > below else 1.0)
        below, low = count, limit
    return low

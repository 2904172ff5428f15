"""Replay recorded values: versions and ranges, quantities, label and field selectors.

A file is a JSON object with a list of cases for each section; `--only` selects sections. Errors match any error, except
for versions: there the kind of error and the component must match, and what is quoted must be the user's own text.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from typing import Any

from mooring.api import field_selector, label_selector, quantity
from mooring.constraints import semver
from mooring.testing.replay import Result, read_json, report_wrong_form

Compared = Iterator[tuple[str, str | None]]
"""The name of each case, and its difference from the recording or None."""

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), help=f"among {','.join(SECTIONS)}")


def run(args: argparse.Namespace) -> Result:
    result = Result()
    for file in args.files:
        recorded = read_json(file, dict, "an object of recorded values")
        for section in args.only:
            with report_wrong_form(f"{file}: {section}"):
                for name, problem in SECTIONS[section](recorded):
                    result.count(f"{section} {name}", problem)
    return result


def _sections(text: str) -> list[str]:
    chosen = text.split(",")
    for section in chosen:
        if section not in SECTIONS:
            raise argparse.ArgumentTypeError(f"{section} is none of {','.join(SECTIONS)}")
    return chosen


def _versions(recorded: dict[str, Any]) -> Compared:
    for case in recorded.get("parse", []):
        text = case["in"]
        try:
            ours = str(semver.parse_tolerant(text))
        except semver.SemverError as error:
            yield repr(text), _version_error(str(error), case, text)
        else:
            yield repr(text), _difference(ours, case.get("canonical", "an error"))


def _version_error(message: str, case: dict[str, Any], text: str) -> str | None:
    kind = _QUOTED.sub('""', message)
    expected = _QUOTED.sub('""', case.get("error", "no error"))
    if kind != expected:
        return f"got the error {message!r}, recorded {case.get('error', case.get('canonical'))!r}"
    foreign = [quoted for quoted in _QUOTED.findall(message) if quoted not in text]
    return f"the error quotes {foreign[0]!r}, which is not in the input" if foreign else None


def _comparisons(recorded: dict[str, Any]) -> Compared:
    for a, b, expected in recorded.get("compare", []):
        try:
            left, right = semver.parse_tolerant(a), semver.parse_tolerant(b)
        except semver.SemverError as error:
            yield f"{a!r} {b!r}", f"got the error {str(error)!r}"
        else:
            yield f"{a!r} {b!r}", _difference((left > right) - (left < right), expected)


def _ranges(recorded: dict[str, Any]) -> Compared:
    for case in recorded.get("ranges", []):
        text = case["range"]
        try:
            found = semver.parse_range(text)
        except semver.SemverError as error:
            yield repr(text), None if "error" in case else f"got the error {str(error)!r}"
            continue
        if "error" in case:
            yield repr(text), f"accepted, but recorded is the error {case['error']!r}"
            continue
        ours = {version: found.matches(semver.parse_tolerant(version)) for version in case["matches"]}
        yield repr(text), _difference(ours, case["matches"])


def _quantities(recorded: dict[str, Any]) -> Compared:
    for case in recorded.get("quantities", []):
        try:
            ours: dict[str, Any] = _measures(quantity.parse(case["in"]))
        except quantity.QuantityError:
            ours = {}
        yield repr(case["in"]), _outcome(ours, case)


def _measures(parsed: quantity.Quantity) -> dict[str, Any]:
    return {
        "canonical": str(parsed),
        "format": parsed.format.value,
        "milli": str(parsed.milli_value()),
        "sign": parsed.sign(),
        "value": str(parsed.value()),
    }


def _label_selectors(recorded: dict[str, Any]) -> Compared:
    for case in recorded.get("labelSelectors", []):
        try:
            selector = label_selector.parse(case["in"])
        except label_selector.SelectorError:
            ours: dict[str, Any] = {}
        else:
            matches = [selector.matches(labels) for labels in recorded["sets"]]
            ours = {"canonical": str(selector), "matches": matches}
        yield repr(case["in"]), _outcome(ours, case)


def _field_selectors(recorded: dict[str, Any]) -> Compared:
    for case in recorded.get("fieldSelectors", []):
        try:
            ours = {"canonical": str(field_selector.parse(case["in"]))}
        except label_selector.SelectorError:
            ours = {}
        yield repr(case["in"]), _outcome(ours, case)


def _outcome(ours: dict[str, Any], case: dict[str, Any]) -> str | None:
    """Compare values by name; ours are empty for an error."""
    if "error" in case:
        return f"got {ours}, recorded is the error {case['error']!r}" if ours else None
    if not ours:
        return "got an error"
    return _difference(ours, {name: case.get(name) for name in ours})


def _difference(ours: Any, expected: Any) -> str | None:
    if isinstance(ours, dict) and isinstance(expected, dict):
        differing = [key for key in ours if ours[key] != expected.get(key)]
        ours, expected = {key: ours[key] for key in differing}, {key: expected.get(key) for key in differing}
    return None if ours == expected else f"got {ours!r}, recorded {expected!r}"


SECTIONS: dict[str, Callable[[dict[str, Any]], Compared]] = {
    "parse": _versions,
    "compare": _comparisons,
    "ranges": _ranges,
    "quantities": _quantities,
    "labelSelectors": _label_selectors,
    "fieldSelectors": _field_selectors,
}

"""Resource versions: parsing, order, and what a list or watch may ask for."""

from dataclasses import dataclass

import pytest

from mooring.api import resource_version
from mooring.api.resource_version import ListVersion, ResourceVersionError


@pytest.mark.parametrize(
    ("text", "version"), [("", 0), ("0", 0), ("12", 12), (str(2**64 - 1), 2**64 - 1), ("0" * 30 + "7", 7)]
)
def test_versions_are_numbers(text: str, version: int) -> None:
    assert resource_version.parse(text) == version


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abc", "invalid syntax"),
        ("-1", "invalid syntax"),
        ("٣", "invalid syntax"),
        (str(2**64), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
    ids=["letters", "negative", "other digits", "one too many", "very many digits"],
)
def test_what_is_no_version_is_reported_as_recorded(text: str, why: str) -> None:
    with pytest.raises(ResourceVersionError) as caught:
        resource_version.parse(text)
    assert str(caught.value) == (
        f'invalid resource version: resourceVersion: Invalid value: "{text}": '
        f'strconv.ParseUint: parsing "{text}": {why}'
    )


@pytest.mark.parametrize(
    ("a", "b", "order"), [("1", "1", 0), ("9", "10", -1), ("10", "9", 1), ("9" * 30, "1" * 31, -1)]
)
def test_versions_have_an_order(a: str, b: str, order: int) -> None:
    assert resource_version.compare(a, b) == order


@pytest.mark.parametrize("text", ["", "0", "01", "a", "-1"], ids=repr)
def test_only_versions_of_objects_have_an_order(text: str) -> None:
    with pytest.raises(ResourceVersionError):
        resource_version.compare("1", text)


@dataclass(frozen=True)
class Case:
    id: str
    version: str
    match: str
    continue_token: str
    expected: ListVersion | list[str]


CASES = [
    Case("nothing asks for the latest", "", "", "", ListVersion()),
    Case("zero asks for any", "0", "", "", ListVersion(any_version=True)),
    Case("a number asks for it or later", "5", "", "", ListVersion(5)),
    Case("not older, said", "5", "NotOlderThan", "", ListVersion(5)),
    Case("exactly", "5", "Exact", "", ListVersion(5, exact=True)),
    Case("a continue token has its own version", "", "", "token", ListVersion()),
    Case(
        "a match without a version",
        "",
        "Exact",
        "",
        ["resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"],
    ),
    Case(
        "a match with a continue token",
        "5",
        "Exact",
        "token",
        ["resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"],
    ),
    Case(
        "an unknown match",
        "5",
        "Newer",
        "",
        ['resourceVersionMatch: Unsupported value: "Newer": supported values: "Exact", "NotOlderThan", ""'],
    ),
    Case(
        "exactly any",
        "0",
        "Exact",
        "",
        ['resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_lists(case: Case) -> None:
    wrong = resource_version.validate_list(case.version, case.match, case.continue_token)
    if isinstance(case.expected, list):
        assert list(map(str, wrong)) == case.expected
    else:
        assert wrong == []
        assert resource_version.for_list(case.version, case.match, case.continue_token) == case.expected


def test_pages_are_of_exactly_the_version_asked_for() -> None:
    assert resource_version.for_list("5", "", "", limit=10) == ListVersion(5, exact=True)
    assert resource_version.for_list("5", "NotOlderThan", "", limit=10) == ListVersion(5)


@pytest.mark.parametrize(
    ("match", "initial", "count"),
    [("", None, 0), ("NotOlderThan", True, 0), ("NotOlderThan", None, 1), ("", True, 1), ("Exact", True, 2)],
)
def test_watches(match: str, initial: bool | None, count: int) -> None:
    wrong = resource_version.validate_list("5", match, "", watch=True, send_initial_events=initial)
    assert len(wrong) == count


def test_a_list_has_no_initial_events() -> None:
    [error] = resource_version.validate_list("", "", "", send_initial_events=True)
    assert error.field == "sendInitialEvents"

"""Versions and ranges: the recorded cases, the words of errors, and what the recordings leave open."""

from dataclasses import dataclass
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.constraints import semver
from mooring.constraints.semver import SemverError, parse, parse_range, parse_tolerant

pytestmark = pytest.mark.req("5721.4")


@dataclass(frozen=True)
class Parse:
    id: str
    text: str
    canonical: str = ""
    error: str = ""


TOLERANT = [
    Parse("a plain version stays as it is", "1.2.3", "1.2.3"),
    Parse("spaces around are trimmed", " \t1.2.3\n", "1.2.3"),
    Parse("one v is dropped", "v1.2.3", "1.2.3"),
    Parse("minor and patch are filled in", "v1", "1.0.0"),
    Parse("patch is filled in", "1.31", "1.31.0"),
    Parse("leading zeros are stripped", "01.002.0003", "1.2.3"),
    Parse("zeros alone are zero", "00.0.000", "0.0.0"),
    Parse("the greatest number", "18446744073709551615.0.0", "18446744073709551615.0.0"),
    Parse("pre-release and build are kept", "1.2.3-rc.1+b.05", "1.2.3-rc.1+b.05"),
    Parse("a patch that is only a pre-release is zero", "1.2.-3", "1.2.0-3"),
    Parse("thousands of leading zeros", "0" * 5000 + "1.2.3", "1.2.3"),
    Parse("a second v is refused", "vv1.2.3", error='Invalid character(s) found in major number "v1"'),
    Parse("a number too great", "1.0.18446744073709551616", error="value out of range"),
    Parse("a number far too great", "9" * 5000 + ".0.0", error="value out of range"),
    Parse("nothing", "", error='strconv.ParseUint: parsing "": invalid syntax'),
    Parse("short with pre-release", "1.2-rc1", error="Short version cannot contain PreRelease/Build meta data"),
    Parse("short with build", "1+b", error="Short version cannot contain PreRelease/Build meta data"),
    Parse("empty pre-release", "1.2.3-", error="Prerelease is empty"),
    Parse("an empty pre-release in the middle", "1.2.3-a..b", error="Prerelease is empty"),
    Parse("empty build", "1.2.3+", error="Build meta data is empty"),
    Parse("a build with a second plus", "1.2.3+a+b", error='Invalid character(s) found in build meta data "a+b"'),
    Parse("a zero before a pre-release number", "1.2.3-01", error="must not contain leading zeroes"),
    Parse("a pre-release number too great", "1.2.3-18446744073709551616", error="value out of range"),
    Parse("digits of other scripts", "1.\uff12.3", error="found in minor number"),
    Parse("four parts", "1.2.3.4", error='Invalid character(s) found in patch number "3.4"'),
    Parse(
        "settled question 18: the user's own text is quoted",
        "containerd://2.1.4",
        error='Invalid character(s) found in major number "containerd://2"',
    ),
    Parse("unprintable characters are escaped", '\x001"', error='major number "\\x001\\""'),
]


@pytest.mark.parametrize("case", TOLERANT, ids=lambda case: case.id)
def test_tolerant_parsing(case: Parse) -> None:
    if case.error:
        with pytest.raises(SemverError) as caught:
            parse_tolerant(case.text)
        assert case.error in str(caught.value)
        assert semver.parse_tolerant_or_none(case.text) is None
    else:
        assert parse_tolerant(case.text).canonical == case.canonical


STRICT = [
    Parse("a plain version", "1.2.3", "1.2.3"),
    Parse("nothing", "", error="Version string empty"),
    Parse("two parts", "1.2", error="No Major.Minor.Patch elements found"),
    Parse("a v", "v1.2.3", error='Invalid character(s) found in major number "v1"'),
    Parse("a leading zero", "1.02.3", error='Minor number must not contain leading zeroes "02"'),
    Parse("a space", " 1.2.3", error='Invalid character(s) found in major number " 1"'),
]


@pytest.mark.parametrize("case", STRICT, ids=lambda case: case.id)
def test_strict_parsing(case: Parse) -> None:
    if case.error:
        with pytest.raises(SemverError) as caught:
            parse(case.text)
        assert caught.value.args == (case.error,)
    else:
        assert str(parse(case.text)) == case.canonical


def test_precedence_is_that_of_semver_org() -> None:
    ascending = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.10.0",
        "2.0.0",
    ]
    versions = [parse_tolerant(text) for text in ascending]
    assert versions == sorted(versions)
    assert len(set(versions)) == len(versions)


def test_build_metadata_does_not_count() -> None:
    one, other = parse("1.2.3+a"), parse("1.2.3+b")
    assert one == other
    assert not one < other
    assert hash(one) == hash(other)
    assert one.precedence[:3] == (1, 2, 3)


@dataclass(frozen=True)
class InRange:
    id: str
    range: str
    inside: str = ""
    outside: str = ""
    error: str = ""


RANGES = [
    InRange("settled question 8: an operand parses tolerantly", ">=5.10", "5.10.0 5.11.2", "5.9.9 5.10.0-rc1"),
    InRange("a v before an operand", ">=v5.10", "5.10.0", "5.9.9"),
    InRange("a single digit is a version", "2", "2.0.0", "2.0.1 1.0.0"),
    InRange("a space after the comparator", ">= 1.2.3 < 2", "1.2.3 1.9.9", "1.2.2 2.0.0"),
    InRange("space is AND", ">1.0.0 !1.5.0", "1.4.0", "1.0.0 1.5.0"),
    InRange("|| is OR", "<1.0.0 || >=2.0.0", "0.9.0 2.0.0", "1.0.0"),
    InRange("two equals signs", "==1.2.3", "1.2.3 1.2.3+build", "1.2.3-rc 1.2.4"),
    InRange("not equal", "!=1.2.3", "1.2.4", "1.2.3"),
    InRange("at most", "<=1.2.3", "1.2.3 1.0.0", "1.2.4"),
    InRange("any 1", "1.x", "1.0.0 1.99.9 2.0.0-rc", "0.9.9 2.0.0 1.0.0-rc"),
    InRange("any 1.2", "=1.2.x", "1.2.0 1.2.9", "1.3.0 1.1.9"),
    InRange("above any 1.2", ">1.2.x", "1.3.0", "1.2.9"),
    InRange("at most any 1.2", "<=1.2.x", "1.2.9 0.1.0", "1.3.0"),
    InRange("below any 1", "<1.x", "0.9.9", "1.0.0"),
    InRange("not any 1 matches nothing, as recorded", "!=1.x", "", "0.9.0 1.2.0 2.0.0"),
    InRange("a hyphen is no range: both must be equal", "1.0.0 - 2.0.0", "", "1.0.0 1.5.0 2.0.0"),
    InRange("an x in a pre-release is no wildcard", "=1.2.3-x.1", "1.2.3-x.1", "1.2.3"),
    InRange("nothing", "", error="Last element in range is '||'"),
    InRange("a wildcard alone", "x", error="Last element in range is '||'"),
    InRange("ends with OR", ">=1.2.3 ||", error="Last element in range is '||'"),
    InRange("starts with OR", "|| 1.2.3", error="First element in range is '||'"),
    InRange("OR twice", "1.2.3 || || 1.3.0", error="Two '||' in range"),
    InRange("no version", "bogus", error='Could not get version from string: "bogus"'),
    InRange("a tilde", "~1.2", error='Could not parse comparator "~" in "~1.2"'),
    InRange("a bad operand", ">=1.2.3,<2", error='Could not parse version "1.2.3,<2" in ">=1.2.3,<2": Invalid'),
    InRange("a bad wildcard", "1.a.x", error='Could not parse Range "1.a.x": Invalid character(s) found in minor'),
]


@pytest.mark.req("5500.2")
@pytest.mark.parametrize("case", RANGES, ids=lambda case: case.id)
def test_range(case: InRange) -> None:
    if case.error:
        with pytest.raises(SemverError) as caught:
            parse_range(case.range)
        assert case.error in str(caught.value)
        return
    found = parse_range(case.range)
    assert [text for text in case.inside.split() if not found.matches(parse_tolerant(text))] == []
    assert [text for text in case.outside.split() if found.matches(parse_tolerant(text))] == []


@given(st.text(alphabet="0123456789vx.-+<>=!| aé\n", max_size=20))
def test_only_semver_errors_come_out(text: str) -> None:
    for function in (parse, parse_tolerant, parse_range):
        try:
            function(text)
        except SemverError as error:
            assert str(error)  # noqa: PT017 - that there are words is all that is asked


@pytest.mark.req("5721.9")
def test_a_value_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Mock(wraps=semver._version)
    monkeypatch.setattr(semver, "_version", parse)
    for _ in range(100):
        parse_tolerant("9.8.7-once")
        semver.parse_tolerant_or_none("not.once.x")
    assert parse.call_count == 2


def test_long_texts_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = Mock(wraps=semver._version)
    monkeypatch.setattr(semver, "_version", parse)
    for _ in range(3):
        parse_tolerant("1.2.3+" + "a" * 1000)
    assert parse.call_count == 3

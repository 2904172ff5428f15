from dataclasses import dataclass

import pytest

from mooring.base.version import ComponentVersions, Version, VersionError

pytestmark = pytest.mark.req("4330.1")


@pytest.mark.parametrize(
    ("text", "version"),
    [("1.35", Version(1, 35)), ("v1.35", Version(1, 35)), ("1.35.4", Version(1, 35)), (" 1.31 ", Version(1, 31))],
)
def test_a_version_is_read_in_the_ways_people_write_it(text: str, version: Version) -> None:
    assert Version.parse(text) == version


@pytest.mark.parametrize(
    "text", ["", "1", "1.", "one.two", "1.035", "1.35-rc.1", "1.35.1.1", "-1.3", "\uff11.35", "1.9999999"]
)
def test_what_is_not_a_version_is_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(VersionError, match=r"write major\.minor, such as 1\.37"):
        Version.parse(text)


def test_versions_are_ordered_by_number_not_by_text() -> None:
    assert Version(1, 9) < Version(1, 10)
    assert str(Version(1, 37).plus(1)) == "1.38"
    assert str(Version(1, 37).minus(2)) == "1.35"


@dataclass(frozen=True)
class Case:
    name: str
    emulation: str | None
    min_compatibility: str | None
    expected: str


@pytest.mark.parametrize(
    "case",
    [
        Case("without flags it is the binary version and one below", None, None, "1.37 1.37 1.36"),
        Case("minimum compatibility follows the emulation version", "1.35", None, "1.37 1.35 1.34"),
        Case("so it does below the usual floor", "1.29", None, "1.37 1.29 1.28"),
        Case("but not beyond what the history of the API knows", "1.27", None, "1.37 1.27 1.27"),
        Case("the first release with the flags has a minimum compatibility", "1.31", None, "1.37 1.31 1.30"),
        Case("both may be given", "1.36", "1.33", "1.37 1.36 1.33"),
        Case("minimum compatibility may equal the emulation version", "1.36", "1.36", "1.37 1.36 1.36"),
        Case("minimum compatibility may be given alone", None, "1.30", "1.37 1.37 1.30"),
    ],
    ids=lambda case: case.name,
)
def test_versions_of_a_component(case: Case) -> None:
    versions = ComponentVersions.resolve(case.emulation, case.min_compatibility)
    assert f"{versions.binary} {versions.emulation} {versions.min_compatibility}" == case.expected


@pytest.mark.parametrize(
    ("emulation", "min_compatibility", "named"),
    [
        pytest.param("1.26", None, "1.27 to 1.37", id="emulation below the oldest"),
        pytest.param("1.38", None, "1.27 to 1.37", id="emulation above the binary"),
        pytest.param("1.35", "1.36", "1.30 to 1.35", id="minimum compatibility above the emulation"),
        pytest.param("1.35", "1.29", "1.30 to 1.35", id="minimum compatibility below the oldest"),
        pytest.param("1.29", "1.27", "1.28 to 1.29", id="minimum compatibility below the oldest emulation's"),
    ],
)
def test_a_version_out_of_range_is_refused_with_the_range(
    emulation: str, min_compatibility: str | None, named: str
) -> None:
    with pytest.raises(VersionError, match=named):
        ComponentVersions.resolve(emulation, min_compatibility)


@pytest.mark.parametrize("flags", [("1.36.2", None), (None, "1.36.0")])
def test_a_flag_takes_no_patch_version(flags: tuple[str | None, str | None]) -> None:
    with pytest.raises(VersionError, match=r"a patch version is not allowed: write 1\.36"):
        ComponentVersions.resolve(*flags)

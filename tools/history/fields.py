"""The fields and closed string types of all releases, as lines of the table ``fields.txt``."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tools.history.facts import Facts
from tools.history.go_sources import Member, Stage
from tools.history.openapi import Surface
from tools.history.releases import FIRST, at, ranges

_NOT_WANTED = (
    "meta.v1.APIResource",
    "meta.v1.APIGroup",
    "meta.v1.DeleteOptions",
    "meta.v1.WatchEvent",
    "meta.v1.Status",
)


@dataclass
class Seen:
    """In which releases something is, and what is said of it."""

    minors: set[int] = field(default_factory=set)
    type: str = ""
    default: str = ""
    deprecated: set[int] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)


def field_lines(facts: list[Facts], gates: Mapping[str, list[Stage]]) -> Iterator[str]:
    """Return the lines of the table."""
    gathering = _Gathering(facts, gates)
    for each in facts:
        gathering.add_schemas(each)
        gathering.add_types(each)
    for name, values in sorted(gathering.enums.items()):
        if name in gathering.closed:
            yield f"enum {name} {' '.join(_value(value, seen) for value, seen in sorted(values.items()))}"
    for name in sorted(gathering.definitions):
        yield name
        for prop, seen in sorted(gathering.definitions[name].items()):
            yield f"  {_field(prop, seen)}"


def _value(value: str, seen: Seen) -> str:
    return value.replace(" ", "%20") + at(ranges(seen.minors)) + "".join(f"!{gate}" for gate in sorted(seen.gates))


def _field(prop: str, seen: Seen) -> str:
    words = [prop, seen.type, ranges(seen.minors) or "-"]
    words += [f"gate={gate}" for gate in sorted(seen.gates)]
    if seen.default:
        words.append(f"default={seen.default}")
    if seen.deprecated:
        words.append("deprecated" if seen.deprecated == seen.minors else f"deprecated={ranges(seen.deprecated)}")
    while words[-1] == "-":
        words.pop()
    return " ".join(words)


def reached(surface: Surface) -> set[str]:
    """Return the definitions of kinds that can be stored or sent, and of everything that they contain."""
    pending = [name for (_, _, kind), name in surface.kinds.items() if not kind.endswith("List")]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in found or name not in surface.definitions or name in _NOT_WANTED:
            continue
        found.add(name)
        pending += [prop.type.lstrip("[]{}") for prop in surface.definitions[name].values()]
    return found


def _type_name(member: Member, place: str) -> str:
    """Return the type of a field; types of other packages are looked up in core/v1."""
    package, _, name = member.type.lstrip("*[]").rpartition(".")
    return f"core.v1.{name}" if package else f"{place}.{name}"


class _Gathering:
    """Gathers release after release, oldest first."""

    def __init__(self, facts: list[Facts], gates: Mapping[str, list[Stage]]) -> None:
        self.definitions: dict[str, dict[str, Seen]] = defaultdict(lambda: defaultdict(Seen))
        self.enums: dict[str, dict[str, Seen]] = defaultdict(lambda: defaultdict(Seen))
        self.closed = {
            f"{place}.{name}" for each in facts for place, types in each.types.items() for name in types.closed
        }
        self._gates = gates
        self._drops = {drop for each in facts for drop in each.drops}

    def add_schemas(self, facts: Facts) -> None:
        """Add what OpenAPI says."""
        for name in sorted(reached(facts.surface)):
            for prop, about in facts.surface.definitions[name].items():
                seen = self.definitions[name][prop]
                seen.minors.add(facts.minor)
                seen.type = about.type
                seen.default = about.default or seen.default
                if about.deprecated:
                    seen.deprecated.add(facts.minor)

    def add_types(self, facts: Facts) -> None:
        """Add what only the Go types say: closed string types and gates."""
        for place, types in facts.types.items():
            for enum, values in types.enums.items():
                for value, comment in values.items():
                    if value:
                        seen = self.enums[f"{place}.{enum}"][value]
                        seen.minors.add(facts.minor)
                        seen.gates |= self._mentioned(comment, began=min(seen.minors))
            for struct, members in types.structs.items():
                definition = self.definitions.get(f"{place}.{struct}", {})
                for name, member in members.items():
                    if name in definition and facts.minor in definition[name].minors:
                        born = min(min(seen.minors) for seen in definition.values())
                        self._note_member(definition[name], member, place, born)
                        self._note_values(_type_name(member, place), member.comment, facts.minor)

    def _note_member(self, seen: Seen, member: Member, place: str, born: int) -> None:
        """Add what a field's type and comment say; `born` is the first release of its definition."""
        enum = _type_name(member, place)
        if enum in self.closed:
            seen.type = seen.type.replace("string", enum)
        marked = set(re.findall(r"\+featureGate=(\w+)", member.comment)) & set(self._gates)
        began = min(seen.minors)
        together = self._mentioned(member.comment, began=began) if began != born else set()
        dropped = self._dropping(member, place, began, is_unambiguous=member.is_unique or began != born)
        seen.gates |= marked or together or (dropped if len(dropped) == 1 else set())

    def _dropping(self, member: Member, place: str, began: int, *, is_unambiguous: bool) -> set[str]:
        """Return the gates without which the server drops a field of this name; `is_unambiguous`: no other field has
        it."""
        here = (place.partition(".")[0], member.name)
        gates = {gate for group, gate, name in self._drops if (group, name) == here and gate in self._gates}
        gates = set(filter(self._lasted, gates)) or gates
        if began != FIRST:
            return {gate for gate in gates if is_unambiguous and self._began(gate) == began}
        # Gate and field need not have come together, so that the name alone must be telling.
        mentioned = self._mentioned(member.comment)
        return {gate for gate in gates if gate in mentioned or (member.is_unique and self._began(gate) <= FIRST)}

    def _note_values(self, enum: str, comment: str, minor: int) -> None:
        """Add the values that a release added to a type, where the field names the gate that came with them."""
        values = self.enums.get(enum, {}).values()
        new = [seen for seen in values if seen.minors == {minor}]
        if minor != FIRST and len(new) < len(values):
            for seen in new:
                seen.gates |= self._mentioned(comment, began=minor)

    def _mentioned(self, comment: str, began: int = 0) -> set[str]:
        """Return the gates that a comment names; with a release, only those that began with it."""
        words = {word for word in re.findall(r"[A-Z]\w+", comment) if word in self._gates}
        return {word for word in words if not began or self._began(word) == began}

    def _lasted(self, gate: str) -> bool:
        """One that went away before it was on has been given up, or has another name now."""
        stages = self._gates[gate]
        return stages[-1].stage != "Removed" or any(stage.default for stage in stages)

    def _began(self, gate: str) -> int:
        return self._gates[gate][0].minor

"""Reads facts out of Go sources: structs with the comments of their fields, constants, gates, and what gates drop.

Only names, versions and stages are taken. The sources are formatted by gofmt, which makes lines enough of a grammar.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_MEMBER = re.compile(r'^\t(?:(\w+) )?\s*([\w.\[\]*]+(?:\[[\w.]+\][\w.*]+)?)\s+`[^`]*json:"([\w$-]*)(?:,(\w+))?[^`]*`')
_EMBEDDED = re.compile(r'^\t(\w+)\s+`json:"(?:,inline)?"', re.MULTILINE)
_ENUM = re.compile(r"((?:^//.*\n)*)^type (\w+) string$", re.MULTILINE)
_CONST = re.compile(r'((?:^\s*//.*\n)*)^\s*(?:const )?(\w+)\s+(\w+)\s+= "([^"]*)"', re.MULTILINE)
_CAST = re.compile(r'((?:^\s*//.*\n)*)^\s*(?:const )?\w+\s+= (\w+)\((?:"([^"]*)"|(?:\w+\.)?(\w+))\)', re.MULTILINE)
_GATE_NAME = re.compile(r'^\s*(\w+)\s+(?:featuregate\.)?Feature\s+= "(\w+)"', re.MULTILINE)
_OLD_SPEC = re.compile(
    r"^\t+(?:\w+\.)?(\w+):\s+\{Default: (\w+), PreRelease: (?:featuregate\.)?(\w+)(.*?)\}", re.MULTILINE
)
_NEW_GATE = re.compile(r"^(\t+)(?:\w+\.)?(\w+): \{\n(.*?)^\1\},", re.MULTILINE | re.DOTALL)
_NEW_SPEC = re.compile(
    r"\{(?=[^}]*(?<!To)Default: (?P<default>\w+))(?=[^}]*PreRelease: (?:featuregate\.)?\"?(?P<stage>\w*))"
    r"[^}]*?Version: version\.MustParse\(\"1\.(?P<minor>\d+)\"\)[^}]*\}"
)
_TRUE = re.compile(r"^\s*(\w+)\s+= true$", re.MULTILINE)
_COMPATIBLE = re.compile(r"MinCompatibilityVersion: version\.MustParse\(\"1\.(\d+)\"\)")
_FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(.*?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_ASKED = re.compile(r"Enabled\((?:\w+\.)?(\w+)\)")
_DROPS = re.compile(r"\.(\w+)(?:\[\w+\])? = (?:nil|\"\"|false|0)\s*$", re.MULTILINE)
_CALLS = re.compile(r"\b(drop\w+)\(")


@dataclass
class Member:
    """A field of a struct."""

    name: str
    type: str
    comment: str
    is_unique: bool = True
    """Whether no other struct of the package has a field of this name."""


@dataclass
class Types:
    """The types of a package: structs by name, and the values of string types that are closed."""

    structs: dict[str, dict[str, Member]] = field(default_factory=dict)
    enums: dict[str, dict[str, str]] = field(default_factory=dict)
    """The comment of each value of a string type."""
    closed: set[str] = field(default_factory=set)
    """The string types that have no other values."""


def constants_of(texts: Iterable[str]) -> dict[str, str]:
    """Return the string constants of files, by name."""
    return {const[2]: const[4] for text in texts for const in _CONST.finditer(text)}


def types_of(texts: Iterable[str], constants: Mapping[str, str]) -> Types:
    """Parse the declarations of one package; `constants` are those of other packages that it may use."""
    found = Types()
    embedded: dict[str, list[str]] = {}
    texts = list(texts)
    for text in texts:
        for struct in _STRUCT.finditer(text):
            found.structs[struct[1]] = dict(_members(struct[2]))
        for declared in _ENUM.finditer(text):
            found.enums[declared[2]] = {}
            if "+enum" in declared[1]:
                found.closed.add(declared[2])
        for struct in _STRUCT.finditer(text):
            embedded[struct[1]] = _EMBEDDED.findall(struct[2])
    counts = Counter(member.name for members in found.structs.values() for member in members.values())
    for members in found.structs.values():
        for member in members.values():
            member.is_unique = counts[member.name] == 1
    for name, others in embedded.items():
        for other in others:
            for each in (other, *embedded.get(other, ())):
                found.structs[name] = {**found.structs.get(each, {}), **found.structs[name]}
    for text in texts:
        for const in _CONST.finditer(text):
            if const[3] in found.enums:
                found.enums[const[3]][const[4]] = const[1]
        for const in _CAST.finditer(text):
            value = const[3] or constants.get(const[4] or "", "")
            if const[2] in found.enums and value:
                found.enums[const[2]][value] = const[1]
    return found


def _members(body: str) -> Iterator[tuple[str, Member]]:
    comment: list[str] = []
    for line in body.split("\n"):
        words = line.strip()
        if words.startswith("//"):
            comment.append(words[2:].strip())
            continue
        member = _MEMBER.match(line)
        if member and member[4] != "inline" and member[3] not in ("", "-"):
            yield member[3], Member(member[1] or "", member[2], "\n".join(comment))
        comment = []


@dataclass(frozen=True)
class Stage:
    """What a gate is at a release."""

    minor: int
    stage: str
    default: bool
    locked: bool


def gates_of(texts: Iterable[str], minor: int) -> dict[str, list[Stage]]:
    """Return the gates that a release declares, with their stages, oldest first; before 1.31 only the current one.

    A stage that wants a newer minimum compatibility version than the previous release is left out: no release starts
    with it.
    """
    texts = list(texts)
    true = {"true"} | {name for text in texts for name in _TRUE.findall(text)}
    names = {found[1]: found[2] for text in texts for found in _GATE_NAME.finditer(text)}
    gates: dict[str, list[Stage]] = {}
    for text in texts:
        for found in _OLD_SPEC.finditer(text):
            locked = "LockToDefault: true" in found[4]
            stage = Stage(minor, _stage(found[3]), found[2] in true, locked)
            gates[names.get(found[1], found[1])] = [stage]
        for found in _NEW_GATE.finditer(text):
            specs = [
                Stage(
                    int(spec["minor"]),
                    _stage(spec["stage"]),
                    spec["default"] == "true",
                    "LockToDefault: true" in spec[0],
                )
                for spec in _NEW_SPEC.finditer(found[3])
                if int((_COMPATIBLE.search(spec[0]) or ("", "0"))[1]) < minor
            ]
            if specs:
                gates[names.get(found[2], found[2])] = sorted(specs, key=lambda each: each.minor)
    return gates


def _stage(word: str) -> str:
    return "GA" if word in ("GA", "") else word


def dropped_by(text: str) -> Iterator[tuple[str, str]]:
    """Gates and the Go names of fields that are dropped where they are off, as functions named `drop…` have it."""
    bodies = dict(_FUNCTION.findall(text))
    for name, body in bodies.items():
        if not name.lower().startswith("drop"):
            continue
        asked = set(_ASKED.findall(body))
        for block in re.finditer(r"^(\t+)if !.*?\{\n(.*?)^\1\}", body, re.MULTILINE | re.DOTALL):
            condition = block[0].split("\n")[0]
            for gate in _ASKED.findall(condition):
                yield from ((gate, dropped) for dropped in _DROPS.findall(block[2]))
                for called in _CALLS.findall(block[2]):
                    yield from ((gate, dropped) for dropped in _DROPS.findall(bodies.get(called, "")))
        if len(asked) == 1:
            gate = next(iter(asked))
            yield from ((gate, dropped) for dropped in _DROPS.findall(body))
            for called in _CALLS.findall(body):
                if not _ASKED.search(bodies.get(called, "")):
                    yield from ((gate, dropped) for dropped in _DROPS.findall(bodies.get(called, "")))

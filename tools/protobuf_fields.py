"""Writes ``src/mooring/api/protobuf_fields.txt`` from the `.proto` files that Kubernetes publishes.

    .venv/bin/python tools/protobuf_fields.py kubernetes/staging/src/k8s.io

Run it with the sources of every new release. Only facts are taken: the names and numbers of fields, and which message a
field holds. Of each group all stable versions are read, and those that Mooring serves besides.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from mooring.api.kinds import KINDS

TABLE = Path(__file__).parents[1] / "src" / "mooring" / "api" / "protobuf_fields.txt"
HEAD = """\
# The numbers of fields in Kubernetes' protobuf encoding, a message a line, as the .proto files of 1.37 have them.
# `number:field`, and `number:field=Message` for a field that holds another message, of the same group-version unless it
# says which. Written by tools/protobuf_fields.py; Toleration and NodeSelectorTerm have KEP-5500's fields too.
"""
PROPOSED = {"core.v1.Toleration": {6: "expression"}, "core.v1.NodeSelectorTerm": {3: "matchCELExpressions"}}
"""Fields of KEP-5500, which no release has, with the proposal's numbers."""
_SCALARS = {"string", "bytes", "bool", "int32", "int64", "double", "fixed64"}
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^  (?:optional |repeated )?(map<\w+, )?([.\w]+)(>)? (\w+) = (\d+);", re.MULTILINE)
_PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("protos", type=Path, help="a folder below which there are generated.proto files")
    folder = parser.parse_args().protos
    messages: dict[str, str] = {}
    for file in sorted(folder.rglob("generated.proto")):
        messages |= dict(read(file.read_text()))
    if "core.v1.Pod" not in messages:
        sys.exit(f"{folder} has no .proto files of Kubernetes: name the folder staging/src/k8s.io of its sources")
    messages = {name: messages[name] for name in reached(messages)}
    TABLE.write_text(HEAD + "".join(f"{name} {fields}\n" for name, fields in sorted(messages.items())))
    print(f"{len(messages)} messages")


def read(source: str) -> Iterator[tuple[str, str]]:
    """Return the messages of a file with their fields."""
    package = _PACKAGE.search(source)
    place = short(package[1]) if package else ""
    for message in _MESSAGE.finditer(source):
        name = f"{place}.{message[1]}"
        fields = {int(field[5]): field[4] + held(field[2], place) for field in _FIELD.finditer(message[2])}
        for number, proposed in PROPOSED.get(name, {}).items():
            if number in fields:
                sys.exit(f"{name} has a field {number} now, which KEP-5500 wants for {proposed}")
            fields[number] = proposed
        yield name, " ".join(f"{number}:{field}" for number, field in sorted(fields.items()))


def reached(messages: dict[str, str]) -> set[str]:
    """Return the wanted messages and those that they contain."""
    found: set[str] = set()
    pending = [name for name in messages if is_wanted(name.rpartition(".")[0])]
    while pending:
        name = pending.pop()
        if name in found or name not in messages:
            continue
        found.add(name)
        holds = (word.partition("=")[2] for word in messages[name].split())
        pending += [each if "." in each else f"{name.rpartition('.')[0]}.{each}" for each in holds if each]
    return found


def held(kind: str, place: str) -> str:
    """Return the reference of a field to the message that it contains."""
    if kind in _SCALARS:
        return ""
    if not kind.startswith("."):
        return f"={kind}"
    package, _, name = kind[1:].rpartition(".")
    return f"={name}" if short(package) == place else f"={short(package)}.{name}"


def short(package: str) -> str:
    """Return the name of a group-version: `apps.v1` for `k8s.io.api.apps.v1`."""
    return ".".join(package.split(".")[-2:])


def is_wanted(place: str) -> bool:
    group, _, version = place.rpartition(".")
    served = {(kind.group.partition(".")[0] or "core", kind.version) for kind in KINDS}
    if group in ("example", "example2", "metrics", "testapigroup"):
        return False
    return version in ("v1", "v2", "resource", "runtime", "intstr") or (group, version) in served


if __name__ == "__main__":
    main()

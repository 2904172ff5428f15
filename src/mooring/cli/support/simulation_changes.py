"""Parse the values of the options of `mooring simulate` that change a cluster, in command-line order."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from mooring.advisor import simulate
from mooring.advisor.simulate.changes import Scale
from mooring.advisor.simulate.manifests import read_objects
from mooring.advisor.simulate.scenario_file import EFFECTS
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api.core_v1 import Node
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.cli.support.flags import split_names

_KIND_ALIASES = {
    "deploy": "Deployment",
    "rs": "ReplicaSet",
    "rc": "ReplicationController",
    "sts": "StatefulSet",
    "ds": "DaemonSet",
    "po": "Pod",
    "no": "Node",
    "pdb": "PodDisruptionBudget",
    "pvc": "PersistentVolumeClaim",
    "pv": "PersistentVolume",
}
_TAINT = re.compile(r"(?P<nodes>[^=]+)=(?P<key>[^=:]+)(?:=(?P<value>[^:]*))?(?::(?P<effect>[A-Za-z]+))?")
_LABEL = re.compile(r"(?P<nodes>[^=]+)=(?P<key>[^=]+?)(?:=(?P<value>.*)|(?P<away>-))")


def steps_of(given: list[tuple[str, str]], templates: tuple[Node, ...]) -> Iterator[simulate.Step]:
    """Yield a simulation step for each (option, value), in order. Raise UsageError or ScenarioError for a bad value."""
    for index, (name, value) in enumerate(given):
        following = given[index + 1] if index + 1 < len(given) else ("", "")
        if name == "like":
            if index == 0 or given[index - 1][0] != "add_nodes":
                raise click.UsageError("--like must follow the --add-nodes that it applies to")
            continue
        if name == "replicas":
            if index == 0 or given[index - 1][0] != "add":
                raise click.UsageError("--replicas must follow the --add that it applies to")
            continue
        if name == "add":
            replicas = _parse_number("replicas", following[1], least=0) if following[0] == "replicas" else None
            yield simulate.Step((simulate.Add(read_objects(_read_file("--add", value), value), replicas),))
        elif name == "add_nodes":
            like = following[1] if following[0] == "like" else ""
            yield simulate.Step((simulate.AddNodes(_parse_number("add-nodes", value, least=1), templates, like),))
        elif name == "remove":
            yield simulate.Step(tuple(_parse_removals(value)))
        else:
            yield simulate.Step((_MAKERS[name](value),))


def _read_file(option: str, path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as problem:
        raise click.UsageError(f"{option}: {click.format_filename(path)}: {problem.strerror}") from problem


def _parse_number(option: str, text: str, *, least: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise click.UsageError(f"--{option}: {text!r} is not a number from {least} to 999,999,999")
    return int(text)


def _parse_removals(value: str) -> Iterator[simulate.Change]:
    if Path(value).is_file() or value == "-":
        for obj in read_objects(_read_file("--remove", value), value):
            yield simulate.Remove(obj.kind, obj.metadata.namespace, obj.metadata.name)
    else:
        yield simulate.Remove(*_parse_target("--remove", value, "neither a file nor KIND/NAME nor NAMESPACE/KIND/NAME"))


def _parse_target(option: str, text: str, problem: str) -> tuple[str, str, str]:
    """Return kind, namespace and name of `KIND/NAME`, `NAMESPACE/KIND/NAME` or `KIND/NAMESPACE/NAME`."""
    parts = text.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise click.UsageError(f"{option}: {text!r} is {problem}")
    kinds = [_find_kind(word) for word in parts[:-1]]
    if not any(kinds):
        raise click.UsageError(f"{option}: Mooring does not know the kind {parts[-2]!r}")
    place = max(index for index, kind in enumerate(kinds) if kind)
    return kinds[place], parts[1 - place] if len(parts) == 3 else "default", parts[-1]


def _find_kind(word: str) -> str:
    """Return the kind with this name or short name, such as `Deployment` for `deploy`; empty if there is none."""
    low = word.lower()
    known = (kind.kind for kind in full_scheme().known if low in (kind.kind.lower(), kind.plural))
    return _KIND_ALIASES.get(low) or next(known, "")


def _parse_nodes(text: str) -> tuple[str, ...]:
    names = split_names(text)
    if not names:
        raise click.UsageError(f"{text!r} names no node")
    return names


def _parse_taint(value: str) -> simulate.Change:
    found = _TAINT.fullmatch(value)
    if found is None or found["effect"] not in EFFECTS:
        raise click.UsageError(
            f"--taint: {value!r} is not of the form NODES=KEY=VALUE:EFFECT with an effect of {', '.join(EFFECTS)}"
        )
    return simulate.Taint(
        _parse_nodes(found["nodes"]), NodeTaint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    )


def _parse_untaint(value: str) -> simulate.Change:
    found = _TAINT.fullmatch(value)
    if found is None or found["effect"] not in (None, *EFFECTS):
        raise click.UsageError(f"--untaint: {value!r} is not of the form NODES=KEY or NODES=KEY:EFFECT")
    return simulate.Untaint(_parse_nodes(found["nodes"]), found["key"], found["effect"] or "")


def _parse_label(value: str) -> simulate.Change:
    found = _LABEL.fullmatch(value)
    if found is None:
        raise click.UsageError(f"--label: {value!r} is not of the form NODES=KEY=VALUE or NODES=KEY-")
    return simulate.Label(_parse_nodes(found["nodes"]), found["key"], None if found["away"] else found["value"])


def _parse_scale(value: str) -> simulate.Change:
    target, _, number = value.rpartition("=")
    found = _parse_target("--scale", target, "not of the form KIND/NAME=N or NAMESPACE/KIND/NAME=N")
    return Scale(*found, _parse_number("scale", number, least=0))


_MAKERS: dict[str, Callable[[str], simulate.Change]] = {
    "drain": lambda value: simulate.Drain(_parse_nodes(value)),
    "scale": _parse_scale,
    "cordon": lambda value: simulate.Cordon(_parse_nodes(value)),
    "uncordon": lambda value: simulate.Cordon(_parse_nodes(value), unschedulable=False),
    "taint": _parse_taint,
    "untaint": _parse_untaint,
    "label": _parse_label,
    "remove_node": lambda value: simulate.RemoveNodes(_parse_nodes(value)),
}

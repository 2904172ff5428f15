"""The options of `mooring simulate` that change a cluster, in command-line order.

click passes the values of each option but not their order; `OrderedCommand` asks its parser for that.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mooring.advisor.simulate import Change, Step
    from mooring.api.core_v1 import Node

CHANGES = (
    ("add", "FILE|-", "Create what a manifest has; workloads bring their pods."),
    ("replicas", "N", "So many of what the --add before it has."),
    ("remove", "[NS/]KIND/NAME|FILE", "Delete an object and its pods, or what a manifest has."),
    ("scale", "[NS/]KIND/NAME=N", "Give a workload so many replicas."),
    ("drain", "NODES", "Cordon nodes and evict their pods, as far as disruption budgets allow."),
    ("cordon", "NODES", "Let no more pods come to nodes."),
    ("uncordon", "NODES", "Let pods come again."),
    ("taint", "NODES=KEY[=VALUE]:EFFECT", "Taint nodes; NoExecute evicts when tolerations run out."),
    ("untaint", "NODES=KEY[:EFFECT]", "Take taints away."),
    ("label", "NODES=KEY=VALUE|NODES=KEY-", "Label nodes, or take a label away."),
    ("add-nodes", "N", "Add nodes, as --template has them."),
    ("like", "NODE", "The existing node that the --add-nodes before it copies."),
    ("remove-node", "NODES", "Take nodes away at once, with their pods."),
)
"""Name, metavar and help."""
_ORDER = "mooring.simulate.order"
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


class InOrder(click.Option):
    """An option whose position matters."""


class OrderedCommand(click.Command):
    """Record the order of the `InOrder` options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError:  # repeated by the real parsing
            given, order = {}, []
        values = {name: iter(found) for name, found in given.items() if isinstance(found, list | tuple)}
        ctx.meta[_ORDER] = [
            (param.name, next(values[param.name]))
            for param in order
            if isinstance(param, InOrder) and param.name in values
        ]
        return super().parse_args(ctx, args)


def steps_of(ctx: click.Context, templates: "tuple[Node, ...]") -> "Iterator[Step]":
    """Yield a step for each change. Raise click's UsageError, or ScenarioError for a manifest."""
    from mooring.advisor.simulate import Step  # noqa: PLC0415 - `--help` should not wait for it

    given: list[tuple[str, str]] = ctx.meta[_ORDER]
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
            replicas = _number("replicas", following[1], least=0) if following[0] == "replicas" else None
            yield Step((_add(value, replicas),))
        elif name == "add_nodes":
            yield Step((_add_nodes(value, templates, following[1] if following[0] == "like" else ""),))
        elif name == "remove":
            yield Step(tuple(_removals(value)))
        else:
            yield Step((_MAKERS[name](value),))


def _add(path: str, replicas: int | None) -> "Change":
    from mooring.advisor.simulate import Add  # noqa: PLC0415 - as above
    from mooring.advisor.simulate.manifests import read_objects  # noqa: PLC0415 - as above

    return Add(read_objects(_read("--add", path), path), replicas)


def _read(option: str, path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as problem:
        raise click.UsageError(f"{option}: {click.format_filename(path)}: {problem.strerror}") from problem


def _add_nodes(value: str, templates: "tuple[Node, ...]", like: str) -> "Change":
    from mooring.advisor.simulate import AddNodes  # noqa: PLC0415 - as above

    return AddNodes(_number("add-nodes", value, least=1), templates, like)


def _number(option: str, text: str, *, least: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise click.UsageError(f"--{option}: {text!r} is not a number of at least {least}")
    return int(text)


def _removals(value: str) -> "Iterator[Change]":
    from mooring.advisor.simulate import Remove  # noqa: PLC0415 - as above
    from mooring.advisor.simulate.manifests import read_objects  # noqa: PLC0415 - as above

    parts = value.split("/")
    if Path(value).is_file() or value == "-":
        for obj in read_objects(_read("--remove", value), value):
            yield Remove(obj.kind, obj.metadata.namespace, obj.metadata.name)
    elif 2 <= len(parts) <= 3 and all(parts):
        namespace, kind, name = parts if len(parts) == 3 else ("default", *parts)
        yield Remove(_kind(kind), namespace, name)
    else:
        raise click.UsageError(f"--remove: {value!r} is neither a file nor KIND/NAME nor NAMESPACE/KIND/NAME")


def _kind(word: str) -> str:
    from mooring.advisor.snapshot.objects import scheme  # noqa: PLC0415 - as above

    low = word.lower()
    if low in _KIND_ALIASES:
        return _KIND_ALIASES[low]
    found = next((kind.kind for kind in scheme().known if low in (kind.kind.lower(), kind.plural)), None)
    if found is None:
        raise click.UsageError(f"--remove: Mooring does not know the kind {word!r}")
    return found


def _nodes(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise click.UsageError(f"{text!r} names no node")
    return names


def _taint(value: str) -> "Change":
    from mooring.advisor.simulate import Taint  # noqa: PLC0415 - as above
    from mooring.advisor.simulate.scenario_file import EFFECTS  # noqa: PLC0415 - as above
    from mooring.api.core_v1 import Taint as NodeTaint  # noqa: PLC0415 - as above

    found = _TAINT.fullmatch(value)
    if found is None or found["effect"] not in EFFECTS:
        raise click.UsageError(
            f"--taint: {value!r} is not of the form NODES=KEY=VALUE:EFFECT with an effect of {', '.join(EFFECTS)}"
        )
    return Taint(
        _nodes(found["nodes"]), NodeTaint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    )


def _untaint(value: str) -> "Change":
    from mooring.advisor.simulate import Untaint  # noqa: PLC0415 - as above
    from mooring.advisor.simulate.scenario_file import EFFECTS  # noqa: PLC0415 - as above

    found = _TAINT.fullmatch(value)
    if found is None or found["effect"] not in (None, *EFFECTS):
        raise click.UsageError(f"--untaint: {value!r} is not of the form NODES=KEY or NODES=KEY:EFFECT")
    return Untaint(_nodes(found["nodes"]), found["key"], found["effect"] or "")


def _label(value: str) -> "Change":
    from mooring.advisor.simulate import Label  # noqa: PLC0415 - as above

    found = _LABEL.fullmatch(value)
    if found is None:
        raise click.UsageError(f"--label: {value!r} is not of the form NODES=KEY=VALUE or NODES=KEY-")
    return Label(_nodes(found["nodes"]), found["key"], None if found["away"] else found["value"])


def _scale(value: str) -> "Change":
    from mooring.advisor.simulate.changes import Scale  # noqa: PLC0415 - as above

    target, _, number = value.rpartition("=")
    parts = target.split("/")
    if not 2 <= len(parts) <= 3 or not all(parts):
        raise click.UsageError(f"--scale: {value!r} is not of the form KIND/NAME=N or NAMESPACE/KIND/NAME=N")
    namespace, kind, name = parts if len(parts) == 3 else ("default", *parts)
    return Scale(_kind(kind), namespace, name, _number("scale", number, least=0))


def _drain(value: str) -> "Change":
    from mooring.advisor.simulate import Drain  # noqa: PLC0415 - as above

    return Drain(_nodes(value))


def _cordon(value: str) -> "Change":
    from mooring.advisor.simulate import Cordon  # noqa: PLC0415 - as above

    return Cordon(_nodes(value))


def _uncordon(value: str) -> "Change":
    from mooring.advisor.simulate import Cordon  # noqa: PLC0415 - as above

    return Cordon(_nodes(value), unschedulable=False)


def _remove_node(value: str) -> "Change":
    from mooring.advisor.simulate import RemoveNodes  # noqa: PLC0415 - as above

    return RemoveNodes(_nodes(value))


_MAKERS: dict[str, Callable[[str], Any]] = {
    "drain": _drain,
    "scale": _scale,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "taint": _taint,
    "untaint": _untaint,
    "label": _label,
    "remove_node": _remove_node,
}

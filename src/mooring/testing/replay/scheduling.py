"""Replay recorded scheduling: each node's verdict, or the scores of every plugin.

A file has a case a line, `in` (a cluster and a pod) and `out`, as JSON, gzipped or not. Equal means: the same code and
plugin for each node, the same reasons, scores and total, and the same event message. Where the recording reports
untolerated taints, ours names the first one; such reasons are normalized before they are compared.
"""

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.codec import FieldValidation, from_tree
from mooring.api.core_v1 import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.deciding.engine import Engine, NodeExplanation
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, ProfileSpec
from mooring.testing.replay import Result, UnreadableFileError, report_wrong_form

T = TypeVar("T", bound=Resource)
_LEFT_OUT = frozenset({"NodeVolumeLimits", "DynamicResources"})
"""Plugins that were disabled in the recording."""
_SECTIONS: dict[str, type[Resource]] = {
    "namespaces": Namespace,
    "nodes": Node,
    "existing": Pod,
    "pvs": PersistentVolume,
    "pvcs": PersistentVolumeClaim,
    "storageClasses": StorageClass,
}
_TAINT = re.compile(r"node\(s\) had untolerated taint \{.*\}")
_TAINTS = "node(s) had untolerated taint(s)"
_COUNTED = re.compile(r"(\d+) (.*)")


def replay(file: Path) -> Result:
    """Replay one file."""
    result = Result()
    with report_wrong_form(file):
        try:
            content = file.read_bytes()
            lines = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).splitlines()
        except (OSError, EOFError) as error:
            raise UnreadableFileError(f"{file}: {error}") from error
        for number, line in enumerate(filter(None, lines), 1):
            case = json.loads(line)
            result.count(case["in"].get("name", f"line {number}"), first_difference(case))
    if not (result.passed or result.failed):
        raise UnreadableFileError(f"{file}: not recorded scheduling cases")
    return result


def first_difference(case: dict[str, Any]) -> str | None:
    """Schedule the pod of a recorded case; return the first difference from the recording, or None."""
    engine = engine_of(case["in"])
    pod = _object(case["in"]["pod"], Pod)
    ours = engine.explain(pod)
    recorded = {entry["node"]: entry for entry in case["out"]["nodes"]}
    if ours.keys() != recorded.keys():
        return f"nodes {sorted(ours)}, recorded {sorted(recorded)}"
    for name, entry in recorded.items():
        problem = _difference(ours[name], entry)
        if problem:
            return f"{name}: {problem}"
    if "fitMessage" in case["out"]:
        message = _without_taints(engine.schedule(pod).message)
        if message != case["out"]["fitMessage"]:
            return f"the message {message!r}, recorded {case['out']['fitMessage']!r}"
    return None


def engine_of(cluster: dict[str, Any]) -> Engine:
    """Return an engine with the cluster of a case."""
    plugins = tuple(use for use in DEFAULT_PLUGINS if use.name not in _LEFT_OUT)
    engine = Engine((ProfileSpec(plugins=plugins),))
    for section, kind in _SECTIONS.items():
        for tree in cluster.get(section) or ():
            engine.put(_object(tree, kind))
    return engine


def _object(tree: dict[str, Any], kind: type[T]) -> T:
    found, _ = from_tree(tree, kind, FieldValidation.IGNORE)
    return found


def _difference(ours: NodeExplanation, recorded: dict[str, Any]) -> str | None:
    status = ours.status
    found = (str(status.code), status.plugin)
    wanted = (recorded["code"], recorded.get("plugin", ""))
    if found != wanted:
        return f"{found} {status.reasons}, recorded {wanted} {recorded.get('reasons')}"
    reasons = [_TAINT.sub(_TAINTS, reason) for reason in status.reasons]
    if status.plugin and reasons != recorded.get("reasons", []):  # nodes that were not evaluated have no reasons
        return f"reasons {reasons}, recorded {recorded.get('reasons')}"
    if status.is_success and dict(ours.scores) != (recorded.get("scores") or {}):
        return f"scores {dict(ours.scores)}, recorded {recorded.get('scores')}"
    if status.is_success and ours.total != recorded.get("total", ours.total):
        return f"total {ours.total}, recorded {recorded.get('total')}"
    return None


def _without_taints(message: str) -> str:
    """Merge the entries that name taints into one, and sort the entries."""
    head, _, tail = message.partition(": ")
    counts: Counter[str] = Counter()
    for part in re.split(r", (?=\d+ )", tail.removesuffix(".")):
        match = _COUNTED.fullmatch(part)
        if match is None:
            return message
        counts[_TAINT.sub(_TAINTS, match[2])] += int(match[1])
    return f"{head}: {', '.join(sorted(f'{number} {reason}' for reason, number in counts.items()))}."

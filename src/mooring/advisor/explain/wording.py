"""Phrases of explanations: lists of names, hints, requirements; and groups of nodes with the same text."""

from collections.abc import Callable, Iterable, Sequence

from mooring.api.core_v1 import NodeSelectorRequirement, Pod
from mooring.scheduler.facade import NodeInfo

Groups = list[tuple[str, list[NodeInfo]]]
_NAMED = 3


def group_by_text(infos: Iterable[NodeInfo], text_of: Callable[[NodeInfo], str]) -> Groups:
    """Group nodes for which `text_of` returns the same text; return each text with its nodes."""
    found: dict[str, list[NodeInfo]] = {}
    for info in infos:
        found.setdefault(text_of(info), []).append(info)
    return list(found.items())


def join_names(words: Sequence[str]) -> str:
    """Join names, of which only the first few are listed: `a, b, c and 4 more`."""
    unique = list(dict.fromkeys(words))
    if len(unique) <= _NAMED:
        return ", ".join(unique[:-1]) + (" and " if len(unique) > 1 else "") + "".join(unique[-1:])
    return f"{', '.join(unique[:_NAMED])} and {len(unique) - _NAMED} more"


def did_you_mean(word: str) -> str:
    """Return the hint `did you mean …` for a suggested word, to append to a sentence; empty without a suggestion."""
    return f"; did you mean `{word}`?" if word else ""


def join_pod_names(pods: Iterable[Pod]) -> str:
    return join_names([f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods])


def format_requirement(requirement: NodeSelectorRequirement, *, from_pair: bool = False) -> str:
    if from_pair:
        return f"{requirement.key}={requirement.values[0]}"
    values = ", ".join(requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            return f"{requirement.key} {requirement.operator} [{values}]"
    return f"{requirement.key} {requirement.operator} {values}".strip()

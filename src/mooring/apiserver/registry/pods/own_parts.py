"""What pods of one template have of their own, in the text of a pod and in the pod: a name, a number, a host, a node.

Called by ``like_pods.py``, which makes sure that what is found in a text is what it seems to be.
"""

import re
from typing import TypeAlias

from msgspec.structs import replace

from mooring.api import names
from mooring.api.core_v1 import Affinity, Pod

NAME, _HOSTNAME, _NODE = "name", "hostname", "matchFields"
Own: TypeAlias = dict[str, str]
"""What a pod has of its own, by `NAME`, the host name, the node that it is made for, and the keys of labels."""

_NAME = re.compile(rb'"name"[ \n]*:[ \n]*"([a-z0-9.-]+)"')
_OTHERS = re.compile(
    rb'"(hostname|statefulset\.kubernetes\.io/pod-name|apps\.kubernetes\.io/pod-index)":"([a-z0-9.-]+)"'
    rb'|"(matchFields)":\[\{"key":"metadata\.name","operator":"In","values":\["([a-z0-9.-]+)"\]\}\]'
)
_ANOTHER = b"a-name-that-nobody-would-give-to-a-pod"


def take_out(text: bytes) -> tuple[tuple[bytes, ...], Own]:
    """What stands around a pod's own parts, and these, in the order of the text.

    Nothing is taken out of a text that has a part twice. Where the name is to be made up, the text has none.
    """
    spans: list[tuple[int, int, str]] = []
    if text.find(b'"generateName"') < 0:  # `in` would first try whether the text is a number
        name = _NAME.search(text, max(0, text.find(b'"metadata"')))
        if name is None:
            return (text,), {}
        spans.append((*name.span(1), NAME))
    for found in _OTHERS.finditer(text):
        group = 2 if found[1] else 4
        spans.append((*found.span(group), found[group - 1].decode()))
    own = {field: text[start:end].decode() for start, end, field in sorted(spans)}
    if len(own) < len(spans):
        return (text,), {}
    around, behind = list[bytes](), 0
    for start, end, _ in sorted(spans):
        around.append(text[behind:start])
        behind = end
    return (*around, text[behind:]), own


def with_others(around: tuple[bytes, ...], own: Own) -> bytes:
    """The text with other words in the place of a pod's own parts, each another."""
    words = [_ANOTHER + str(number).encode() for number in range(len(own))]
    return b"".join(part for pair in zip(around, (*words, b""), strict=True) for part in pair)


def are_sound(own: Own) -> bool:
    """Whether nothing is wrong with them; else the rules tell what."""
    for field, value in own.items():
        if field in {NAME, _NODE}:
            problems = names.dns1123_subdomain(value)
        elif field == _HOSTNAME:
            problems = names.dns1123_label(value)
        else:
            problems = names.label_value(value)
        if problems:
            return False
    return True


def put_into(pod: Pod, own: Own) -> Pod:
    """The pod with these instead of its own."""
    metadata, spec = pod.metadata, pod.spec
    labels = {key: value for key, value in own.items() if key not in {NAME, _HOSTNAME, _NODE}}
    if NAME in own:
        metadata = replace(metadata, name=own[NAME])
    if labels:
        metadata = replace(metadata, labels={**metadata.labels, **labels})
    if _HOSTNAME in own:
        spec = replace(spec, hostname=own[_HOSTNAME])
    if _NODE in own and spec.affinity is not None:
        spec = replace(spec, affinity=_made_for(spec.affinity, own[_NODE]))
    return replace(pod, metadata=metadata, spec=spec)


def _made_for(affinity: Affinity, node: str) -> Affinity:
    """As DaemonSets have it; an affinity of another form stays as it is."""
    nodes = affinity.node_affinity
    required = nodes and nodes.required_during_scheduling_ignored_during_execution
    if nodes is None or not required or not all(term.match_fields for term in required.node_selector_terms):
        return affinity
    terms = [
        replace(term, match_fields=[replace(term.match_fields[0], values=[node]), *term.match_fields[1:]])
        for term in required.node_selector_terms
    ]
    required = replace(required, node_selector_terms=terms)
    return replace(affinity, node_affinity=replace(nodes, required_during_scheduling_ignored_during_execution=required))

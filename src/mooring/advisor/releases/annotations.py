"""Annotations in use that a release calls deprecated: what is said is what Kubernetes 1.37 itself warns of.

An annotation that stands beside the field which replaces it is there for older releases, and nothing is said of it.
What was deprecated before the way begins is an info. Called by ``auditor.py``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, mapping


class Deprecated(NamedTuple):
    """An annotation, or how all of a family begin."""

    key: str
    since: str
    use: str
    """The field to use, with words before it."""
    does_nothing: bool = False
    """Since that release it is not read any more."""


_POD = (
    Deprecated("container.apparmor.security.beta.kubernetes.io/", "1.30", "securityContext.appArmorProfile"),
    Deprecated("container.seccomp.security.alpha.kubernetes.io/", "1.27", "securityContext.seccompProfile", True),
    Deprecated("seccomp.security.alpha.kubernetes.io/pod", "1.27", "securityContext.seccompProfile", True),
    Deprecated("scheduler.alpha.kubernetes.io/critical-pod", "1.16", "spec.priorityClassName", True),
    Deprecated("security.alpha.kubernetes.io/sysctls", "1.11", "securityContext.sysctls", True),
    Deprecated("security.alpha.kubernetes.io/unsafe-sysctls", "1.11", "securityContext.sysctls", True),
)
_CLASS = Deprecated("volume.beta.kubernetes.io/storage-class", "1.8", "spec.storageClassName")
_BY_KIND = {
    "Ingress": (Deprecated("kubernetes.io/ingress.class", "1.18", "spec.ingressClassName"),),
    "PersistentVolume": (
        _CLASS,
        Deprecated("volume.beta.kubernetes.io/mount-options", "1.31", "spec.mountOptions"),
    ),
    "PersistentVolumeClaim": (_CLASS,),
    "Pod": _POD,
    "Service": (
        Deprecated(
            "service.kubernetes.io/topology-aware-hints", "1.27", "the annotation service.kubernetes.io/topology-mode"
        ),
    ),
}


def findings(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    """Yield the deprecated annotations of an object and of its pod template."""
    if subject.served is None:
        return
    known = _BY_KIND.get(subject.reference.kind, ())
    yield from _in(subject, subject.tree, "metadata.annotations", known, crossing)
    if subject.template_path:
        template: Any = subject.tree
        for step in subject.template_path.split("."):
            template = mapping(template).get(step)
        yield from _in(subject, template, f"{subject.template_path}.metadata.annotations", _POD, crossing)


def _in(subject: Subject, tree: Any, path: str, known: tuple[Deprecated, ...], crossing: Crossing) -> Iterator[Finding]:
    annotations = mapping(mapping(mapping(tree).get("metadata")).get("annotations"))
    for key in annotations if known else ():
        found = next((each for each in known if _names(each, key)), None)
        if found is None or not crossing.has_begun(found.since) or _is_replaced(found, mapping(tree)):
            continue
        what = "does nothing from" if found.does_nothing else "is deprecated from"
        yield Finding(
            object=subject.reference,
            field=f"{path}[{key}]",
            value=str(annotations[key])[:60],
            effect=Effect.DEPRECATED,
            severity="" if crossing.begins(found.since) else "info",
            message=f"the annotation {what} {found.since} on; use {found.use}",
        )


def _names(deprecated: Deprecated, key: str) -> bool:
    return key.startswith(deprecated.key) if deprecated.key.endswith("/") else key == deprecated.key


def _is_replaced(deprecated: Deprecated, tree: Mapping[str, Any]) -> bool:
    return f"'{deprecated.use.rpartition('.')[2]}'" in str(tree.get("spec"))

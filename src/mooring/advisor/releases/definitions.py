"""Find expressions in CRDs, policies and webhooks that the other release does not support.

``fields.py`` handles fields; here admission validates the whole object with the CEL libraries of each release. Also
find stored versions of CRDs that are no longer defined.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from mooring.advisor.audit import admission_checks
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, items, mapping
from mooring.api import codec
from mooring.api.admissionregistration_v1 import (
    MutatingAdmissionPolicy,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingWebhookConfiguration,
)
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.meta_v1 import Resource


class _Expressive(NamedTuple):
    """A kind whose objects have expressions."""

    type: type[Resource]
    word: str
    """Objects without this field have none."""
    stored: str
    """What a server that does not understand one makes of an object that is there."""


_POLICY = "all that the policy is asked about is refused, unless its failurePolicy is Ignore"
_WEBHOOK = "all that the webhook would be asked about is refused, unless its failurePolicy is Ignore"
_KINDS = {
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _Expressive(
        CustomResourceDefinition, "x-kubernetes-validations", "every write of its objects is refused"
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _Expressive(
        ValidatingAdmissionPolicy, "expression", _POLICY
    ),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _Expressive(
        MutatingAdmissionPolicy, "expression", _POLICY
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _Expressive(
        ValidatingWebhookConfiguration, "matchConditions", _WEBHOOK
    ),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _Expressive(
        MutatingWebhookConfiguration, "matchConditions", _WEBHOOK
    ),
}


def findings(subject: Subject, crossing: Crossing, now: datetime) -> Iterator[Finding]:
    """Yield findings about an object with expressions."""
    found = _KINDS.get((subject.group, subject.reference.kind))
    if found is None:
        return
    if found.type is CustomResourceDefinition:
        yield from _stored_versions(subject)
    if f"'{found.word}'" not in str(subject.tree):
        return
    try:
        results = codec.decode_tree(subject.tree, found.type, FieldValidation.IGNORE).object
    except DecodeError:
        return
    there = admission_checks.create(results, crossing.expression_options(end=True), now)
    if not there.refused:
        return
    here = admission_checks.create(results, crossing.expression_options(end=False), now)
    for field, refusal in there.beyond(here).refused.items():
        after = f"until it is changed, {found.stored}" if subject.reference.stored else "it cannot be created"
        yield Finding(
            object=subject.reference,
            field=field,
            effect=Effect.RULE_REFUSED,
            message=f"{crossing.end} does not understand it ({_why(refusal)}): {after}",
        )


def _why(refusal: str) -> str:
    words = refusal.partition("compilation failed: ")[2] or refusal.partition(": ")[2]
    return words.partition("\n")[0]


def _stored_versions(subject: Subject) -> Iterator[Finding]:
    versions = [mapping(each) for each in items(mapping(subject.tree.get("spec")).get("versions"))]
    storage = next((each.get("name") for each in versions if each.get("storage")), None)
    names = {each.get("name") for each in versions}
    for stored in items(mapping(subject.tree.get("status")).get("storedVersions")):
        if stored == storage:
            continue
        text = f"objects may still be stored as {stored}, and the definition stores {storage}"
        if stored not in names:
            text += f"; it has no version {stored} any more, so that they cannot be read"
        yield Finding(
            object=subject.reference,
            field="status.storedVersions",
            value=str(stored),
            effect=Effect.MIGRATE_FIRST,
            message=f"{text}: write them again, then take it out of status.storedVersions",
        )

"""CustomResourceDefinitions: schemas and rules that the other release refuses, and versions that are still stored.

What a schema's fields mean is a matter of ``fields.py``; here admission judges the definition with all that each of the
two releases knows of CEL and formats. Called by ``auditor.py``.
"""

from collections.abc import Iterator
from datetime import datetime

from mooring.advisor.audit import judging
from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, items, mapping
from mooring.api import codec
from mooring.api.apiextensions_v1 import CustomResourceDefinition
from mooring.api.codec import DecodeError, FieldValidation

_GROUP = "apiextensions.k8s.io"
_HAS_RULES = "x-kubernetes-validations"


def findings(subject: Subject, crossing: Crossing, now: datetime) -> Iterator[Finding]:
    """What happens to a definition of a custom kind."""
    if subject.reference.kind != "CustomResourceDefinition" or subject.group != _GROUP:
        return
    yield from _stored_versions(subject)
    if _HAS_RULES not in str(subject.tree.get("spec")):
        return
    try:
        definition = codec.decode_tree(subject.tree, CustomResourceDefinition, FieldValidation.IGNORE).object
    except DecodeError:
        return
    here = judging.create(definition, crossing.definitions_options(end=False), now)
    there = judging.create(definition, crossing.definitions_options(end=True), now)
    for field, refusal in there.beyond(here).refused.items():
        if subject.reference.stored:
            after = "every write of its objects is refused until the rule is changed"
        else:
            after = "the definition cannot be created"
        yield Finding(
            object=subject.reference,
            field=field,
            effect=Effect.RULE_REFUSED,
            message=f"{crossing.end} does not understand it ({refusal.partition(': ')[2]}): {after}",
        )


def _stored_versions(subject: Subject) -> Iterator[Finding]:
    """Versions that objects may be stored in and that the definition does not store any more."""
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

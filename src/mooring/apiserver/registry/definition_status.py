"""The status of a definition: the names that it gets, and its conditions. No two kinds of a group share a name.

Pure functions of a definition and of those beside it; ``extension/definitions.py`` writes what comes out, and deletion
marks a definition that has to wait for its objects.
"""

from collections.abc import Iterable

from msgspec import structs

from mooring.api.apiextensions_v1 import (
    CLEANUP_FINALIZER,
    ESTABLISHED,
    NAMES_ACCEPTED,
    NON_STRUCTURAL,
    TERMINATING,
    CustomResourceDefinition,
    CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames,
    CustomResourceDefinitionStatus,
    condition_of,
)
from mooring.api.base import copy_of
from mooring.api.quoting import go_quote


def settled(
    definition: CustomResourceDefinition, others: Iterable[CustomResourceDefinition], now: str
) -> CustomResourceDefinitionStatus:
    """The status that a definition should have, given the others of its group."""
    status = copy_of(definition.status)
    accepted, conflict = _accepted(definition, others)
    status.accepted_names = accepted
    if conflict is None:
        set_condition(status, NAMES_ACCEPTED, "True", why=("NoConflicts", "no conflicts found"), now=now)
        why = ("InitialNamesAccepted", "the initial names have been accepted")
        set_condition(status, ESTABLISHED, "True", why=why, now=now)
    else:
        set_condition(status, NAMES_ACCEPTED, "False", why=conflict, now=now)
        established = condition_of(definition, ESTABLISHED)
        if established is None or established.status != "True":
            why = ("NotAccepted", "not all names are accepted")
            set_condition(status, ESTABLISHED, "False", why=why, now=now)
    status.conditions = [each for each in status.conditions if each.type != NON_STRUCTURAL]
    return status


def usurpers(
    definition: CustomResourceDefinition, group: Iterable[CustomResourceDefinition]
) -> list[CustomResourceDefinition]:
    """Those that were given names which an older one has, as far as one definition is concerned.

    Two servers may have given the names away at once; the older definition keeps them, whoever looks.
    """
    resources, kinds = _names(definition.status.accepted_names)
    return [
        max(definition, other, key=_age)
        for other in group
        if other is not definition and _has_one_of(other.status.accepted_names, resources, kinds)
    ]


def _has_one_of(taken: CustomResourceDefinitionNames, resources: set[str], kinds: set[str]) -> bool:
    """As comparing `_names` would say, without making sets of each of very many."""
    return (
        taken.plural in resources
        or taken.kind in kinds
        or taken.singular in resources
        or taken.list_kind in kinds
        or any(name in resources for name in taken.short_names)
    )


def without_names(definition: CustomResourceDefinition) -> CustomResourceDefinition:
    """A definition as it was before it was given any."""
    status = CustomResourceDefinitionStatus(stored_versions=[*definition.status.stored_versions])
    return structs.replace(definition, status=status)


def _age(definition: CustomResourceDefinition) -> tuple[str, str]:
    return definition.metadata.creation_timestamp or "", definition.metadata.uid


def _names(taken: CustomResourceDefinitionNames) -> tuple[set[str], set[str]]:
    """The names of resources and those of kinds."""
    return {taken.plural, taken.singular, *taken.short_names} - {""}, {taken.kind, taken.list_kind} - {""}


def set_condition(
    status: CustomResourceDefinitionStatus, kind: str, value: str, *, why: tuple[str, str], now: str
) -> None:
    """Put a condition into a status, with its reason and message; its time stays as long as its value does."""
    found = next((each for each in status.conditions if each.type == kind), None)
    if found is None:
        found = CustomResourceDefinitionCondition(type=kind)
        status.conditions = [*status.conditions, found]
    if found.status != value or not found.last_transition_time:
        found.last_transition_time = now
    found.status, (found.reason, found.message) = value, why


def _accepted(
    definition: CustomResourceDefinition, others: Iterable[CustomResourceDefinition]
) -> tuple[CustomResourceDefinitionNames, tuple[str, str] | None]:
    """The names that are free or its own already, and the last conflict: a reason and a message."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        of_resources, of_kinds = _names(other.status.accepted_names)
        resources |= of_resources
        kinds |= of_kinds
    wanted, names = definition.spec.names, copy_of(definition.status.accepted_names)
    conflict: tuple[str, str] | None = None
    for attribute, reason, used in (
        ("plural", "PluralConflict", resources),
        ("singular", "SingularConflict", resources),
        ("short_names", "ShortNamesConflict", resources),
        ("kind", "KindConflict", kinds),
        ("list_kind", "ListKindConflict", kinds),
    ):
        clash = _clash(getattr(wanted, attribute), getattr(names, attribute), used)
        if clash:
            conflict = (reason, clash)
        else:
            setattr(names, attribute, copy_of(getattr(wanted, attribute)))
    names.categories = [*wanted.categories]
    return names, conflict


def _clash(wanted: str | list[str], own: str | list[str], used: set[str]) -> str:
    """What is wrong with a name, or with several; empty if nothing is."""
    mine = {own} if isinstance(own, str) else set(own)
    asked = [wanted] if isinstance(wanted, str) else wanted
    texts = [f"{go_quote(name)} is already in use" for name in asked if name not in mine and name in used]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


# -- the end


def mark_for_deletion(definition: CustomResourceDefinition, now: str) -> None:
    """Let the deletion of a definition wait for its objects."""
    if CLEANUP_FINALIZER not in definition.metadata.finalizers:
        definition.metadata.finalizers = [*definition.metadata.finalizers, CLEANUP_FINALIZER]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(definition.status, TERMINATING, "True", why=("InstanceDeletionPending", message), now=now)


def progress(definition: CustomResourceDefinition, now: str) -> None:
    """Objects are being deleted."""
    message = "CustomResource deletion is in progress"
    set_condition(definition.status, TERMINATING, "True", why=("InstanceDeletionInProgress", message), now=now)


def ended(definition: CustomResourceDefinition, now: str, *, established: bool) -> None:
    """Let a definition go whose objects are gone."""
    why = ("InstanceDeletionCompleted", "removed all instances")
    if not established:
        why = ("NeverEstablished", "resource was never established")
    set_condition(definition.status, TERMINATING, "False", why=why, now=now)
    definition.metadata.finalizers = [name for name in definition.metadata.finalizers if name != CLEANUP_FINALIZER]

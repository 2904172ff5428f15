"""Computes the status of CustomResourceDefinitions: accepted names and conditions. Names are unique in a group.

Pure functions: ``extension/definitions.py`` writes their results, and ``verbs/deleting.py`` marks a definition whose
deletion waits for its objects.
"""

from collections.abc import Iterable

from msgspec import structs

from mooring.api import apiextensions_v1 as v1
from mooring.api.base import copy_of
from mooring.api.quoting import go_quote


def status_of(
    definition: v1.CustomResourceDefinition, others: Iterable[v1.CustomResourceDefinition], now: str
) -> v1.CustomResourceDefinitionStatus:
    """Return the status (accepted names, conditions) that a definition should have beside others of its group."""
    status = copy_of(definition.status)
    status.accepted_names, conflict = _accept_names(definition, others)
    if conflict is None:
        why = ("InitialNamesAccepted", "the initial names have been accepted")
        set_condition(status, v1.NAMES_ACCEPTED, "True", why=("NoConflicts", "no conflicts found"), now=now)
        set_condition(status, v1.ESTABLISHED, "True", why=why, now=now)
    else:
        set_condition(status, v1.NAMES_ACCEPTED, "False", why=conflict, now=now)
        if not v1.holds(definition, v1.ESTABLISHED):
            set_condition(status, v1.ESTABLISHED, "False", why=("NotAccepted", "not all names are accepted"), now=now)
    status.conditions = [each for each in status.conditions if each.type != v1.NON_STRUCTURAL]
    return status


def definitions_losing_names(
    definition: v1.CustomResourceDefinition, group: Iterable[v1.CustomResourceDefinition]
) -> list[v1.CustomResourceDefinition]:
    """Return the definitions that must give up names which an older definition has accepted as well.

    Two servers may have accepted the same names concurrently; the older definition then keeps them.
    """
    claimed = _claimed_names(definition.status.accepted_names)
    return [
        max(definition, other, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.uid))
        for other in group
        if other is not definition and claimed & _claimed_names(other.status.accepted_names)
    ]


def without_names(definition: v1.CustomResourceDefinition) -> v1.CustomResourceDefinition:
    """Return a copy of a definition whose status has no accepted names and no conditions."""
    status = v1.CustomResourceDefinitionStatus(stored_versions=[*definition.status.stored_versions])
    return structs.replace(definition, status=status)


def _claimed_names(taken: v1.CustomResourceDefinitionNames) -> set[tuple[str, str]]:
    """Return the names that no other definition of the group may have, each with whether it is a resource or a kind."""
    resources = (taken.plural, taken.singular, *taken.short_names)
    kinds = (taken.kind, taken.list_kind)
    return {("resource", name) for name in resources if name} | {("kind", name) for name in kinds if name}


def set_condition(
    status: v1.CustomResourceDefinitionStatus, kind: str, value: str, *, why: tuple[str, str], now: str
) -> None:
    """Set a condition with reason and message; its transition time changes only if its value does."""
    found = next((each for each in status.conditions if each.type == kind), None)
    if found is None:
        found = v1.CustomResourceDefinitionCondition(type=kind)
        status.conditions = [*status.conditions, found]
    if found.status != value or not found.last_transition_time:
        found.last_transition_time = now
    found.status, (found.reason, found.message) = value, why


def _accept_names(
    definition: v1.CustomResourceDefinition, others: Iterable[v1.CustomResourceDefinition]
) -> tuple[v1.CustomResourceDefinitionNames, tuple[str, str] | None]:
    """Return a definition's names that no other has; for the last conflict, reason and message, else None."""
    taken = {claimed for other in others for claimed in _claimed_names(other.status.accepted_names)}
    wanted, names = definition.spec.names, copy_of(definition.status.accepted_names)
    conflict: tuple[str, str] | None = None
    for attribute, reason, what in (
        ("plural", "PluralConflict", "resource"),
        ("singular", "SingularConflict", "resource"),
        ("short_names", "ShortNamesConflict", "resource"),
        ("kind", "KindConflict", "kind"),
        ("list_kind", "ListKindConflict", "kind"),
    ):
        used = {name for claimed, name in taken if claimed == what}
        clash = _conflict_message(getattr(wanted, attribute), getattr(names, attribute), used)
        if clash:
            conflict = (reason, clash)
        else:
            setattr(names, attribute, copy_of(getattr(wanted, attribute)))
    names.categories = [*wanted.categories]
    return names, conflict


def _conflict_message(wanted: str | list[str], own: str | list[str], used: set[str]) -> str:
    """Return a message with the wanted names that other definitions have; empty without a conflict."""
    mine = {own} if isinstance(own, str) else set(own)
    asked = [wanted] if isinstance(wanted, str) else wanted
    texts = [f"{go_quote(name)} is already in use" for name in asked if name not in mine and name in used]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


def mark_for_deletion(definition: v1.CustomResourceDefinition, now: str) -> None:
    """Add the finalizer and the condition Terminating to a definition whose objects must be deleted first."""
    if v1.CLEANUP_FINALIZER not in definition.metadata.finalizers:
        definition.metadata.finalizers = [*definition.metadata.finalizers, v1.CLEANUP_FINALIZER]
    message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(definition.status, v1.TERMINATING, "True", why=("InstanceDeletionPending", message), now=now)


def report_progress(definition: v1.CustomResourceDefinition, now: str) -> None:
    """Set the condition Terminating of a definition to say that its objects are being deleted."""
    message = "CustomResource deletion is in progress"
    set_condition(definition.status, v1.TERMINATING, "True", why=("InstanceDeletionInProgress", message), now=now)


def finish_deletion(definition: v1.CustomResourceDefinition, now: str, *, established: bool) -> None:
    """Set the condition Terminating to say that all objects are deleted; remove the definition's finalizer."""
    why = ("InstanceDeletionCompleted", "removed all instances")
    if not established:
        why = ("NeverEstablished", "resource was never established")
    set_condition(definition.status, v1.TERMINATING, "False", why=why, now=now)
    definition.metadata.finalizers = [name for name in definition.metadata.finalizers if name != v1.CLEANUP_FINALIZER]

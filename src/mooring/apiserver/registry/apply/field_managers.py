"""Update `metadata.managedFields`, which records the manager of each field, after every create, update, patch and
apply.

A manager owns the fields that it wrote last. An update or patch takes over the fields that it changes from other
managers. An apply that changes a field of another manager is a conflict, unless it is forced; it removes fields that
its manager applied before and no longer has. Entries are distinguished by manager, operation, version and subresource.
Called by ``registry/verbs/changes.py``.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import structs

from mooring.api import codec, errors, times
from mooring.api.codec import DecodeError, FieldValidation, TooLargeError
from mooring.api.json_tree import Members
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import ManagedFieldsEntry, ObjectMeta, Resource, StatusCause
from mooring.api.quoting import go_quote
from mooring.api.scheme import Scheme
from mooring.api.struct_times import WrongTimeError, normalize_times
from mooring.api.yaml_documents import find_duplicate_keys
from mooring.apiserver.registry.apply import comparison, field_set
from mooring.apiserver.registry.apply.comparison import Comparison, MissingKeyError
from mooring.apiserver.registry.apply.field_set import Fields, difference, intersection, union
from mooring.apiserver.registry.patch.schema import schema_of
from mooring.base.bounded_cache import BoundedCache

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATE_MANAGERS = 10
_ANCIENT = "ancient-changes"
_BEFORE_FIRST_APPLY = "before-first-apply"
_FIELDS_TYPE = "FieldsV1"
_OWNED_BY_SERVER = frozenset(
    {"name", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
)
_MAX_CACHED = 512
_NO_METADATA = ObjectMeta()
_EMPTY_ENTRY = ManagedFieldsEntry()
_SERVERS_OWN = {
    name: getattr(_NO_METADATA, name)
    for name, encoded in zip(ObjectMeta.__struct_fields__, ObjectMeta.__struct_encode_fields__, strict=True)
    if encoded in _OWNED_BY_SERVER
}
"""Metadata fields that only the server sets, with their empty values, so that trees leave them out."""
_manageable_metadata = attrgetter(*(name for name in ObjectMeta.__struct_fields__ if name not in _SERVERS_OWN))
"""Return the metadata fields that a manager can own."""
Tree = dict[str, Any]
_UNKNOWN = re.compile(r'unknown field "([^"]*)"')


class Manager(msgspec.Struct, frozen=True):
    """The writer of an object as `managedFields` records it: manager name, subresource and time."""

    name: str
    subresource: str
    now: datetime


class FieldManagers:
    """Updates `managedFields` on writes of any kind; each entry names fields in its own API version."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._empty: BoundedCache[Kind, Tree] = BoundedCache(_MAX_CACHED)

    def create(self, kind: Kind, obj: Resource, manager: Manager) -> None:
        """Make the creator the owner of a new object's fields, before admission adds its own.

        As in Kubernetes, no manager owns an object in which an item of a keyed list has no keys.
        """
        try:
            fields = self.fields_of_new(kind, obj)
        except MissingKeyError:
            fields = {}
        mine = _make_entry(manager, UPDATE, kind, fields)
        if obj.metadata.managed_fields and not _are_field_sets(obj.metadata.managed_fields):
            obj.metadata.managed_fields = []
        if not obj.metadata.managed_fields:
            obj.metadata.managed_fields = [mine] if fields else []
            return
        others = [entry for entry in obj.metadata.managed_fields if _identify_entry(entry) != _identify_entry(mine)]
        obj.metadata.managed_fields = _sort_entries([*others, mine] if fields else others)

    @staticmethod
    def clear_if_requested(new: Resource) -> bool:
        """Remove all managed fields if the client sent one empty entry; return whether it did."""
        if len(new.metadata.managed_fields) != 1 or new.metadata.managed_fields[0] != _EMPTY_ENTRY:
            return False
        new.metadata.managed_fields = []
        return True

    def update(self, kind: Kind, old: Resource, new: Resource, manager: Manager) -> None:
        """Make a manager the only owner of the fields that its update changed.

        As in Kubernetes, an object without managers gets none, and ownership is unchanged if an item of a keyed list
        lacks a key.
        """
        given = new.metadata.managed_fields or old.metadata.managed_fields
        if given != old.metadata.managed_fields and not _are_field_sets(given):
            given = old.metadata.managed_fields
        new.metadata.managed_fields = list(given)
        if not given:
            return
        trees = _VersionComparisons(self, kind, old, new, manager.subresource)
        try:
            change = trees.comparison(kind)
        except MissingKeyError:
            return
        if not (change.changed or change.removed):
            return
        mine = _make_entry(manager, UPDATE, kind, {})
        entries = _without_losses(given, trees, except_for=_identify_entry(mine))
        before = _find_entry(given, _identify_entry(mine))
        owned = difference(union(_fields_of_entry(before), change.changed), change.removed)
        if owned:
            entries.append(_update_entry(before, mine, owned))
        new.metadata.managed_fields = _sort_entries(_merge_oldest(entries))

    def read_config(
        self, body: bytes, kind: Kind, namespace: str, name: str, validation: FieldValidation = FieldValidation.IGNORE
    ) -> Tree:
        """Return the configuration in an apply's body, normalised; raise BadRequest if it is malformed."""
        try:
            documents = codec.read_yaml(body, most=codec.max_elements(kind.type))
            if len(documents) != 1 or not isinstance(documents[0].tree, dict):
                raise DecodeError("expected one object")
            config = _keep_last_values(documents[0].tree)
            typed, _ = codec.from_tree(config, kind.type, FieldValidation.STRICT)
        except TooLargeError as error:
            raise errors.request_entity_too_large(str(error)) from None
        except DecodeError as error:
            subject = f"{namespace}/{name}; {kind.api_version}, Kind={kind.kind}"
            raise errors.bad_request(
                f"failed to create typed patch object ({subject}): {_format_decode_error(error)}"
            ) from None
        if validation is FieldValidation.STRICT and _has_repeated_field(documents[0].tree):
            problem = "\n  ".join(["yaml: unmarshal errors:", *find_duplicate_keys(body)])
            raise errors.bad_request(f"error strict decoding YAML: error converting YAML to JSON: {problem}")
        _check_config(typed, kind, namespace, name)
        tree: Tree = _normalize(config, codec.to_tree(typed))
        tree.update(apiVersion=kind.api_version, kind=kind.kind)
        tree["metadata"] = {**tree.get("metadata", {}), "name": name}
        if namespace:
            tree["metadata"]["namespace"] = namespace
        return tree

    def trees(self, old: Resource, new: Resource, kind: Kind, subresource: str) -> tuple[Tree, Tree]:
        """Return an object before and after a change, reduced to fields that managers can own and changed metadata."""
        before, after = self._scheme.convert(old, kind), self._scheme.convert(new, kind)
        if kind.custom:
            trees = (manageable_tree(_to_tree(each), kind, subresource) for each in (before, after))
            return next(trees), next(trees)
        was: Tree = {}
        now: Tree = {}
        if _manageable_metadata(before.metadata) != _manageable_metadata(after.metadata):
            was, now = (codec.to_tree(structs.replace(each.metadata, **_SERVERS_OWN)) for each in (before, after))
        return _tree_of(before, was, kind, subresource), _tree_of(after, now, kind, subresource)

    def object_of(self, tree: Tree, kind: Kind) -> Resource:
        """Convert a JSON tree in some version to the newest type; raise BadRequest for a malformed time."""
        typed = codec.decode_tree(tree, kind.type, FieldValidation.IGNORE).object
        try:
            normalize_times(typed)
        except WrongTimeError as error:
            raise errors.bad_request(f"failed to convert the applied object: {error}") from None
        return self._scheme.convert(typed, self._scheme.hub(kind))

    def whole_tree(self, obj: Resource, kind: Kind) -> Tree:
        return _to_tree(self._scheme.convert(obj, kind))

    def version_of(self, entry: ManagedFieldsEntry, kind: Kind) -> Kind | None:
        """Return the kind in the version of a managedFields entry; None if the server has no such version."""
        if entry.api_version == kind.api_version:
            return kind
        return self._scheme.kind(entry.api_version, kind.kind)

    def fields_of_new(self, kind: Kind, obj: Resource) -> Fields:
        """Return the set of a new object's fields, without those that all objects of the kind have."""
        tree = manageable_tree(self.whole_tree(obj, kind), kind, "")
        return comparison.compare(self._empty_tree(kind), tree, schema_of(kind.type)).changed

    def _empty_tree(self, kind: Kind) -> Tree:
        empty = self._empty.get(kind)
        if empty is None:
            empty = manageable_tree(codec.to_tree(kind.type()), kind, "")
            self._empty.put(kind, empty)
        return empty


class Applier:
    """Applies one configuration (server-side apply) to an object that is new or exists."""

    def __init__(self, managers: FieldManagers, kind: Kind, config: Tree, manager: Manager, *, force: bool) -> None:
        self._managers = managers
        self._kind = kind
        self._config = config
        self._manager = manager
        self._force = force
        self._node = schema_of(kind.type)
        try:
            self._claimed = comparison.collect_fields(
                _without_empty_metadata(manageable_tree(config, kind, manager.subresource)), self._node
            )
        except MissingKeyError as error:
            raise errors.bad_request(f"failed to create typed patch object: {error}") from None

    def create(self) -> Resource:
        """Return the object that the configuration describes, owned by its manager."""
        obj = self._managers.object_of(self._config, self._kind)
        obj.metadata.managed_fields = [self._make_apply_entry()] if self._claimed else []
        return obj

    def change(self, old: Resource) -> Resource:
        """Return the object with the configuration merged in. Raise Conflict over others' fields, or BadRequest."""
        try:
            return self._change(old)
        except MissingKeyError as error:
            raise errors.bad_request(f"failed to create typed live object: {error}") from None

    def _change(self, old: Resource) -> Resource:
        kind, mine = self._kind, self._make_apply_entry()
        entries = list(old.metadata.managed_fields)
        if not entries and _fields_of_entry(first := self._before_first_apply(old)):
            entries = [first]
        before = _find_entry(entries, _identify_entry(mine))
        others = [entry for entry in entries if entry is not before]
        live = self._managers.whole_tree(old, kind)
        config = manageable_tree(self._config, kind, self._manager.subresource)
        result = comparison.merge(live, config, self._node)
        if before:
            result = self._prune_fields(result, before, [*others, mine])
        new = self._managers.object_of(result, kind)
        trees = _VersionComparisons(self._managers, kind, old, new, self._manager.subresource)
        if not self._force:
            _check_conflicts(others, trees, self._claimed)
        change = trees.comparison(kind)
        if change.changed or change.removed:
            others = _without_losses(others, trees)
        if self._claimed:
            others.append(_update_entry(before, mine, self._claimed))
        new.metadata.managed_fields = _sort_entries(others)
        wanted = self._config["metadata"].get("resourceVersion")
        new.metadata.resource_version = wanted or old.metadata.resource_version
        return new

    def _prune_fields(self, result: Tree, before: ManagedFieldsEntry, owners: Iterable[ManagedFieldsEntry]) -> Tree:
        """Remove fields that only this manager owned and that its configuration no longer has."""
        version = self._managers.version_of(before, self._kind) or self._kind
        same = version.type is self._kind.type
        tree = result if same else self._managers.whole_tree(self._managers.object_of(result, self._kind), version)
        kept: Fields = {}
        for entry in owners:
            theirs = self._managers.version_of(entry, self._kind)
            if theirs is not None and theirs.type is version.type:
                kept = union(kept, _fields_of_entry(entry))
        pruned: Tree = comparison.prune(tree, schema_of(version.type), _fields_of_entry(before), kept)
        if same:
            return pruned
        hub = self._managers.object_of({**pruned, "apiVersion": version.api_version}, version)
        return self._managers.whole_tree(hub, self._kind)

    def _make_apply_entry(self) -> ManagedFieldsEntry:
        return _make_entry(self._manager, APPLY, self._kind, self._claimed)

    def _before_first_apply(self, old: Resource) -> ManagedFieldsEntry:
        """Return an entry that makes `before-first-apply` own all fields of an object without managers."""
        fields = self._managers.fields_of_new(self._kind, old)
        return _make_entry(Manager(_BEFORE_FIRST_APPLY, "", self._manager.now), UPDATE, self._kind, fields)


class _VersionComparisons(msgspec.Struct):
    """The differences between two objects in each version that a managedFields entry has, computed when needed."""

    managers: FieldManagers
    kind: Kind
    old: Resource
    new: Resource
    subresource: str
    found: dict[type, Comparison] = {}

    def comparison(self, kind: Kind) -> Comparison:
        found = self.found.get(kind.type)
        if found is None:
            old, new = self.managers.trees(self.old, self.new, kind, self.subresource)
            found = self.found[kind.type] = comparison.compare(old, new, schema_of(kind.type))
        return found

    def comparison_for(self, entry: ManagedFieldsEntry) -> Comparison | None:
        kind = self.managers.version_of(entry, self.kind)
        return self.comparison(kind) if kind else None


def _to_tree(obj: Resource) -> Tree:
    tree: Tree = codec.to_tree(obj, encoded_field_sets=True)
    return tree


def _are_field_sets(entries: Iterable[ManagedFieldsEntry]) -> bool:
    """Return whether all entries that a client sent contain nested maps, as field sets are; else they are ignored."""
    return all(_is_nested_map(_fields_of_entry(entry)) for entry in entries)


def _is_nested_map(fields: Any) -> bool:
    return isinstance(fields, dict) and all(map(_is_nested_map, fields.values()))


def _tree_of(obj: Resource, metadata: Tree, kind: Kind, subresource: str) -> Tree:
    """Return the fields of an object that a manager can own, as a JSON tree with the given metadata."""
    if subresource == "status" and (status := getattr(obj, "status", None)) is not None:
        return {"metadata": metadata, "status": codec.to_tree(status)}
    tree = codec.to_tree(structs.replace(obj, metadata=_NO_METADATA))
    return manageable_tree({**tree, "metadata": metadata}, kind, subresource)


def manageable_tree(tree: Tree, kind: Kind, subresource: str) -> Tree:
    """Return a JSON tree without the fields no manager owns: type, identity and immutable metadata."""
    metadata = {name: value for name, value in tree.get("metadata", {}).items() if name not in _OWNED_BY_SERVER}
    left_out = {"apiVersion", "kind", "metadata"}
    if subresource == "status":
        kept = {"status": tree["status"]} if "status" in tree else {}
        return {"metadata": metadata, **kept}
    if kind.has_status:
        left_out.add("status")
    return {"metadata": metadata, **{name: value for name, value in tree.items() if name not in left_out}}


def _without_losses(
    entries: Iterable[ManagedFieldsEntry], trees: _VersionComparisons, except_for: tuple[str, ...] | None = None
) -> list[ManagedFieldsEntry]:
    """Return entries without the fields that a change modified or removed; entries left empty are dropped."""
    kept = []
    for entry in entries:
        if except_for is not None and _identify_entry(entry) == except_for:
            continue
        change = trees.comparison_for(entry)
        if change is None or not change.touches(field_set.top_level_names(entry.fields_v1)):
            kept.append(entry)
            continue
        owned = _fields_of_entry(entry)
        left = difference(difference(owned, change.changed), change.removed)
        if left == owned:
            kept.append(entry)
        elif left:
            kept.append(_with_fields(entry, left))
    return kept


def _check_conflicts(others: Iterable[ManagedFieldsEntry], trees: _VersionComparisons, claimed: Fields) -> None:
    """Raise Conflict if an apply changes fields that others own, or removes them by an empty map or list."""
    conflicts: list[tuple[str, str]] = []
    for entry in others:
        change = trees.comparison_for(entry)
        if change:
            changed = union(change.changed, intersection(change.removed, claimed))
            lost = intersection(_fields_of_entry(entry), changed)
            conflicts += [(_format_manager(entry), path) for path in sorted(field_set.paths(lost))]
    if not conflicts:
        return
    causes = [
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path)
        for manager, path in conflicts
    ]
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        raise errors.apply_conflict(causes, f"Apply failed with 1 conflict: conflict with {manager}: {path}")
    by_manager: dict[str, list[str]] = {}
    for manager, path in sorted(conflicts):
        by_manager.setdefault(manager, []).append(path)
    texts = ["\n- ".join((f"conflicts with {manager}:", *paths)) for manager, paths in by_manager.items()]
    raise errors.apply_conflict(causes, f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(texts))


def _format_manager(entry: ManagedFieldsEntry) -> str:
    text = go_quote(entry.manager)
    if entry.subresource:
        text += f" with subresource {go_quote(entry.subresource)}"
    return f"{text} using {entry.api_version}" if entry.operation == UPDATE else text


def _without_empty_metadata(tree: Tree) -> Tree:
    """Return a tree without `metadata` if that is empty, since it then claims no field."""
    return tree if tree["metadata"] else {name: value for name, value in tree.items() if name != "metadata"}


def _check_config(config: Resource, kind: Kind, namespace: str, name: str) -> None:
    if config.metadata.managed_fields:
        raise errors.bad_request("metadata.managedFields must be nil")
    if (config.api_version, config.kind) != (kind.api_version, kind.kind):
        raise errors.bad_request(
            f"the applied object is {config.api_version or 'of no version'} {config.kind or 'of no kind'}, "
            f"but was sent to {kind.api_version} {kind.kind}"
        )
    if config.metadata.name not in {"", name}:
        raise errors.bad_request(
            f"the name of the object ({config.metadata.name}) does not match the name on the URL ({name})"
        )
    if config.metadata.namespace not in {"", namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _format_decode_error(error: DecodeError) -> str:
    """Return the message for a configuration that cannot be decoded, worded as in Kubernetes."""
    text = str(error)
    unknown = [f".{path}: field not declared in schema" for path in _UNKNOWN.findall(text)]
    if not unknown or not text.startswith("strict decoding error: "):
        return text
    return unknown[0] if len(unknown) == 1 else "\n  ".join(["errors:", *unknown])


def _has_repeated_field(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value, Members) or any(map(_has_repeated_field, value.values()))
    return isinstance(value, list) and any(map(_has_repeated_field, value))


def _keep_last_values(tree: Any) -> Any:
    """Return a decoded tree as plain values; of a field that occurs twice, the last value."""
    if isinstance(tree, dict):
        return {name: _keep_last_values(value) for name, value in tree.items()}
    return [_keep_last_values(value) for value in tree] if isinstance(tree, list) else tree


def _normalize(config: Any, typed: Any) -> Any:
    """Return a configuration with its values as the server stores them, such as `1` for `1000m`."""
    if isinstance(config, dict) and isinstance(typed, dict):
        return {name: _normalize(value, typed[name]) if name in typed else value for name, value in config.items()}
    if isinstance(config, list) and isinstance(typed, list):
        return [_normalize(ours, theirs) for ours, theirs in zip(config, typed, strict=True)]
    return None if config is None else typed


def _identify_entry(entry: ManagedFieldsEntry) -> tuple[str, ...]:
    """Return what identifies a managedFields entry: manager, operation, subresource and, for updates, version."""
    version = "" if entry.operation == APPLY else entry.api_version
    return entry.manager, entry.operation, entry.subresource, version


def _find_entry(entries: Iterable[ManagedFieldsEntry], identity: tuple[str, ...]) -> ManagedFieldsEntry | None:
    return next((entry for entry in entries if _identify_entry(entry) == identity), None)


def _fields_of_entry(entry: ManagedFieldsEntry | None) -> Fields:
    return field_set.decode(entry.fields_v1) if entry else {}


def _make_entry(manager: Manager, operation: str, kind: Kind, fields: Fields) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=manager.name,
        operation=operation,
        api_version=kind.api_version,
        time=times.to_seconds(manager.now),
        fields_type=_FIELDS_TYPE,
        fields_v1=field_set.encode(fields),
        subresource=manager.subresource,
    )


def _update_entry(before: ManagedFieldsEntry | None, mine: ManagedFieldsEntry, owned: Fields) -> ManagedFieldsEntry:
    """Return an entry with the fields now owned; its time is new only if they have changed."""
    if before is not None and _fields_of_entry(before) == owned and before.api_version == mine.api_version:
        return before
    return _with_fields(mine, owned)


def _with_fields(entry: ManagedFieldsEntry, fields: Fields) -> ManagedFieldsEntry:
    return structs.replace(entry, fields_type=_FIELDS_TYPE, fields_v1=field_set.encode(fields))


def _merge_oldest(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Merge the oldest entries of updates into one per API version, if there are more than MAX_UPDATE_MANAGERS."""
    if len(entries) <= MAX_UPDATE_MANAGERS:
        return entries
    updates = sorted((entry for entry in entries if entry.operation == UPDATE), key=lambda entry: entry.time or "")
    surplus = len(updates) - MAX_UPDATE_MANAGERS
    if surplus <= 0:
        return entries
    ancient: dict[str, ManagedFieldsEntry] = {}
    for entry in updates[: surplus + 1]:
        known = ancient.get(entry.api_version)
        owned = union(_fields_of_entry(known), _fields_of_entry(entry))
        ancient[entry.api_version] = _with_fields(
            ManagedFieldsEntry(manager=_ANCIENT, operation=UPDATE, api_version=entry.api_version, time=entry.time),
            owned,
        )
    merged = {id(entry) for entry in updates[: surplus + 1]}
    return [*ancient.values(), *(entry for entry in entries if id(entry) not in merged)]


def _sort_entries(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Return entries in Kubernetes' order: those of applies first, then by time."""
    return sorted(entries, key=_sort_key)


def _sort_key(entry: ManagedFieldsEntry) -> tuple[bool, str, str, str, str]:
    return entry.operation == UPDATE, entry.time or "", entry.manager, entry.api_version, entry.subresource

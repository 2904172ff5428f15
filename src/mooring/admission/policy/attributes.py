"""A write request as policies and webhooks see it.

`Attributes` holds the operation, the object and the user; it converts the object to the version that a rule names, each
version once. Objects are structs of the newest version, as everywhere in admission. Code that changes the object calls
`replace_object`.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from mooring.api import codec
from mooring.api.authentication_v1 import UserInfo
from mooring.api.dynamic import Dynamic
from mooring.api.excerpt import Excerpt
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme

Tree = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
POLICIES = frozenset(
    {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""Kinds of policies and bindings, which no policy matches, so that users cannot lock themselves out."""
EXEMPT = POLICIES | {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
"""Kinds that no webhook matches, so that a webhook cannot prevent its own removal or that of a policy."""


class GroupVersionKind(NamedTuple):
    """The group, version and kind of an API object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def to_tree(self) -> Tree:
        """Return group, version and kind as a JSON dict, which is shared: callers must not change it."""
        return _tree_of(self)

    @classmethod
    @lru_cache(maxsize=1024)
    def of_kind(cls, kind: Kind) -> "GroupVersionKind":
        return cls(kind.group, kind.version, kind.kind)


class GroupVersionResource(NamedTuple):
    """The group, version and plural resource name in a request's URL."""

    group: str
    version: str
    resource: str

    def to_tree(self) -> Tree:
        """Return group, version and resource as a JSON dict, which is shared: callers must not change it."""
        return _tree_of(self)

    @classmethod
    @lru_cache(maxsize=1024)
    def of_kind(cls, kind: Kind) -> "GroupVersionResource":
        return cls(kind.group, kind.version, kind.plural)


class MatchKey(NamedTuple):
    """The properties of a request that match rules read, except its name: requests with equal keys match equally."""

    kind: Kind
    subresource: str
    operation: str
    in_namespace: bool


@lru_cache(maxsize=1024)
def _tree_of(names: "GroupVersionKind | GroupVersionResource") -> Tree:
    return names._asdict()


class Attributes(msgspec.Struct, kw_only=True):
    """A write request for policies and webhooks: operation, resource, user, old and new object in any version."""

    scheme: Scheme
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    resource_kind: Kind
    """The kind of the URL, in the version of the URL."""
    kind: GroupVersionKind
    """The kind of the request object: that of the URL, or another for subresources such as `scale`."""
    resource: GroupVersionResource
    subresource: str = ""
    namespace: str = ""
    """The object's namespace. For a Namespace object, its own name."""
    name: str = ""
    obj: Resource | None = None
    """The object of the request; None for a delete."""
    old: Resource | None = None
    """The stored object before the request; None for a create."""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    dry_run: bool = False
    options: Mapping[str, Any] | None = None
    """The CreateOptions, UpdateOptions or DeleteOptions of the request, as JSON."""
    connect_options: Tree | None = None
    """The options of a CONNECT request, as JSON: they have no metadata."""
    audit_annotations: dict[str, str] = {}
    """Annotations that policies add to the audit event of the request."""
    warnings: list[str] = []
    _trees: dict[tuple[bool, GroupVersionKind], Tree] = {}
    derived: dict[Any, Any] = {}
    """Values that policies derive from the object and share; cleared when the object changes."""
    match_key: MatchKey = None  # type: ignore[assignment] # is worked out at once

    def __post_init__(self) -> None:
        self.match_key = MatchKey(self.resource_kind, self.subresource, self.operation, bool(self.namespace))

    @property
    def is_policy(self) -> bool:
        """Return whether the object is an admission policy or binding: policies do not apply to these."""
        return self.kind.group == GROUP and self.kind.kind in POLICIES

    @property
    def is_exempt(self) -> bool:
        """Return whether the object is a policy, binding or webhook configuration: no webhook is called for these."""
        return self.kind.group == GROUP and self.kind.kind in EXEMPT

    @property
    def is_for_namespaces(self) -> bool:
        """Return whether the request's resource is `namespaces`."""
        return self.resource.group == "" and self.resource.resource == "namespaces"

    def replace_object(self, obj: Resource) -> None:
        """Replace the new object after a mutation, and drop everything cached that was derived from it."""
        self.obj = obj
        self.derived.clear()
        for place in [place for place in self._trees if not place[0]]:
            del self._trees[place]

    def set_undecoded_object(self, tree: Tree) -> None:
        """Set the JSON of a new object of which only the metadata was decoded; nothing cached is dropped."""
        self._trees[False, self.kind] = tree

    def object_tree(self, kind: GroupVersionKind, excerpt: Excerpt | None = None) -> Tree | None:
        """Return the new object as JSON, in the version of `kind`; None if there is none. Do not modify it."""
        return self.connect_options if self.obj is None else self._tree(self.obj, kind, excerpt, old=False)

    def old_tree(self, kind: GroupVersionKind, excerpt: Excerpt | None = None) -> Tree | None:
        """Return the old object as JSON, in the version of `kind`; None on create. Do not modify it."""
        return None if self.old is None else self._tree(self.old, kind, excerpt, old=True)

    def _tree(self, obj: Resource, kind: GroupVersionKind, excerpt: Excerpt | None, *, old: bool) -> Tree:
        place = (old, kind)
        found = self._trees.get(place)
        if found is None:
            version, shown = kind.api_version, obj
            if obj.api_version != version and obj.kind == kind.kind and self.scheme.kind(obj.api_version, obj.kind):
                shown = self.scheme.convert(obj, version)
            if excerpt is not None and not isinstance(shown, Dynamic):
                return cast("Tree", excerpt.tree(shown))
            found = self._trees[place] = codec.to_tree(shown)
        return found

    def list_equivalent_kinds(self) -> list[Kind]:
        """Return the kinds of the request's resource in all served groups and versions, its own included."""
        if not self.scheme.is_served(self.resource_kind):
            return [self.resource_kind]
        return [each for each in self.scheme.family(self.resource_kind) if self.scheme.is_served(each)]

    def get_equivalent_object_kind(self, equivalent: Kind) -> GroupVersionKind:
        """Return the kind that the request's object has in an equivalent resource, such as another version of it."""
        if self.kind.kind != self.resource_kind.kind:
            return self.kind  # a Scale has the same kind for every resource
        return GroupVersionKind.of_kind(equivalent)

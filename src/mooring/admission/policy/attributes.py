"""A write on its way through admission, as policies and webhooks see it.

`Attributes` says what is done to which object, by whom; it shows the object in the version that a rule asks for, each
version converted once. Objects are structs of the newest version, as everywhere in admission. Who changes the object
says so with `replace_object`.
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
"""Kinds that no policy and no webhook concerns, so that nobody locks themselves out."""
EXEMPT = POLICIES | {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
"""Kinds that no webhook concerns."""


OWN = frozenset({"name", "uid", "creationTimestamp", "managedFields"})
"""The metadata in which objects differ that are otherwise alike."""


class GroupVersionKind(NamedTuple):
    """What an object says of itself."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def tree(self) -> Tree:
        """As JSON. It is shared: do not change it."""
        return _tree_of(self)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, kind: Kind) -> "GroupVersionKind":
        return cls(kind.group, kind.version, kind.kind)


class GroupVersionResource(NamedTuple):
    """Where an object is written to."""

    group: str
    version: str
    resource: str

    def tree(self) -> Tree:
        """As JSON. It is shared: do not change it."""
        return _tree_of(self)

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, kind: Kind) -> "GroupVersionResource":
        return cls(kind.group, kind.version, kind.plural)


class Sort(NamedTuple):
    """What rules look at, besides names: requests that have it in common concern the same policies and webhooks."""

    kind: Kind
    subresource: str
    operation: str
    in_namespace: bool


@lru_cache(maxsize=1024)
def _tree_of(names: "GroupVersionKind | GroupVersionResource") -> Tree:
    return names._asdict()


class Attributes(msgspec.Struct, kw_only=True):
    """One write."""

    scheme: Scheme
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    resource_kind: Kind
    """The kind behind the URL, in the version of the URL."""
    kind: GroupVersionKind
    """The kind of the object that was sent: that of the URL, or another for subresources such as `scale`."""
    resource: GroupVersionResource
    subresource: str = ""
    namespace: str = ""
    """Where the object is. Writes of a namespace are in it."""
    name: str = ""
    obj: Resource | None = None
    """None when something is deleted."""
    old: Resource | None = None
    """None when something is created."""
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    dry_run: bool = False
    options: Mapping[str, Any] | None = None
    """CreateOptions and the like, as JSON."""
    connect_options: Tree | None = None
    """What CONNECT asks for, as JSON: such options are no objects with metadata."""
    audit_annotations: dict[str, str] = {}
    """What goes into the audit log beside the request."""
    warnings: list[str] = []
    _trees: dict[tuple[bool, GroupVersionKind], Tree] = {}
    kept: dict[Any, Any] = {}
    """What those who look at it have made of it, until the object is changed: the same for all policies."""
    alike: dict[Any, Any] | None = None
    """What is kept about objects that differ in nothing but `OWN` and come from the same user with the same options."""
    sort: Sort = None  # type: ignore[assignment] # is worked out at once

    def __post_init__(self) -> None:
        self.sort = Sort(self.resource_kind, self.subresource, self.operation, bool(self.namespace))

    @property
    def is_policy(self) -> bool:
        """Whether no policy concerns it, because it is one."""
        return self.kind.group == GROUP and self.kind.kind in POLICIES

    @property
    def is_exempt(self) -> bool:
        """Whether no webhook concerns it."""
        return self.kind.group == GROUP and self.kind.kind in EXEMPT

    @property
    def is_of_namespace(self) -> bool:
        """Whether a namespace itself is written, and not something in one."""
        return self.resource.group == "" and self.resource.resource == "namespaces"

    def replace_object(self, obj: Resource) -> None:
        """Somebody has changed the object."""
        self.obj = obj
        self.kept.clear()
        for place in [place for place in self._trees if not place[0]]:
            del self._trees[place]

    def show(self, tree: Tree) -> None:
        """Show the object as this tree: for kinds that nobody has declared, of which only the metadata is known."""
        self._trees[False, self.kind] = tree

    def object_tree(self, kind: GroupVersionKind, excerpt: Excerpt | None = None) -> Tree | None:
        """The object as JSON of a version, None where there is none. It is shared: do not change it.

        Who reads only an `excerpt` of it need not care for the rest, which may be missing.
        """
        return self.connect_options if self.obj is None else self._tree(self.obj, kind, excerpt, old=False)

    def old_tree(self, kind: GroupVersionKind, excerpt: Excerpt | None = None) -> Tree | None:
        """The same of the object as it was."""
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

    def equivalents(self) -> list[Kind]:
        """The kind behind the URL in all versions and groups in which it is served."""
        if not self.scheme.is_served(self.resource_kind):
            return [self.resource_kind]
        return [each for each in self.scheme.family(self.resource_kind) if self.scheme.is_served(each)]

    def kind_in(self, equivalent: Kind) -> GroupVersionKind:
        """The kind of the object when it is shown as an equivalent one."""
        if self.kind.kind != self.resource_kind.kind:
            return self.kind  # a Scale is a Scale, whatever it scales
        return GroupVersionKind.of(equivalent)

"""apidiscovery.k8s.io/v2: aggregated discovery, which shows all groups and resources in one document."""

from typing import Annotated

from mooring.api.base import Object, list_map, list_set, required
from mooring.api.meta_v1 import GroupVersionKind, Resource, ResourceList


class APISubresourceDiscovery(Object):
    """A subresource."""

    subresource: str = required(str)
    response_kind: GroupVersionKind | None = None
    accepted_types: list[GroupVersionKind] = []
    """The kinds that it takes, where they differ."""
    verbs: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """What can be done with it."""


class APIResourceDiscovery(Object):
    """A resource."""

    resource: str = required(str)
    """The plural name of the resource."""
    response_kind: GroupVersionKind | None = None
    """The kind of its objects; empty fields mean the group and version around it."""
    scope: str = required(str)
    """Namespaced or Cluster."""
    singular_resource: str = required(str)
    verbs: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """What can be done with it."""
    short_names: Annotated[list[str], list_set(patch_merge=False)] = []
    """Abbreviations that people type."""
    categories: Annotated[list[str], list_set(patch_merge=False)] = []
    """Groups of resources that are listed together, such as all."""
    subresources: Annotated[list[APISubresourceDiscovery], list_map("subresource", patch_key="")] = []


class APIVersionDiscovery(Object):
    """A version of a group."""

    version: str = required(str)
    resources: Annotated[list[APIResourceDiscovery], list_map("resource", patch_key="")] = []
    freshness: str = ""
    """Current, or Stale if the aggregated server could not be reached."""


class APIGroupDiscovery(Resource):
    """A group; its name is the object's name."""

    versions: Annotated[list[APIVersionDiscovery], list_map("version", patch_key="")] = []
    """The versions, the preferred one first."""


class APIGroupDiscoveryList(ResourceList):
    """All groups."""

    items: list[APIGroupDiscovery] = required(list)

"""storagemigration.k8s.io/v1: StorageVersionMigration, a request to rewrite stored objects in the storage version."""

from typing import Annotated

from mooring.api.base import Object, always, list_map, required
from mooring.api.meta_v1 import Condition, GroupResource, Resource


class StorageVersionMigrationSpec(Object):
    """The resource to migrate."""

    resource: GroupResource = required(GroupResource)
    """The resource; it cannot be changed."""


class StorageVersionMigrationStatus(Object):
    """The progress of a migration."""

    conditions: Annotated[list[Condition], list_map("type")] = []
    """Running, Succeeded or Failed."""
    resource_version: str = ""
    """The resource version up to which objects are migrated."""


class StorageVersionMigration(Resource):
    """The wish that all objects of a resource are written in their storage version."""

    spec: StorageVersionMigrationSpec = always(StorageVersionMigrationSpec)
    status: StorageVersionMigrationStatus = always(StorageVersionMigrationStatus)

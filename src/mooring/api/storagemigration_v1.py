"""storagemigration.k8s.io/v1: StorageVersionMigration, the wish that stored objects are written anew."""

from typing import Annotated

from mooring.api.base import Object, always, list_map, required
from mooring.api.meta_v1 import Condition, GroupResource, Resource


class StorageVersionMigrationSpec(Object):
    """What is to be written anew."""

    resource: GroupResource = required(GroupResource)
    """The resource; it cannot be changed."""


class StorageVersionMigrationStatus(Object):
    """How far a migration has come."""

    conditions: Annotated[list[Condition], list_map("type")] = []
    """Running, Succeeded or Failed."""
    resource_version: str = ""
    """The version of the collection up to which objects are written anew."""


class StorageVersionMigration(Resource):
    """The wish that all objects of a resource are written in their storage version."""

    spec: StorageVersionMigrationSpec = always(StorageVersionMigrationSpec)
    """What is to be written anew."""
    status: StorageVersionMigrationStatus = always(StorageVersionMigrationStatus)
    """How far it has come."""

"""References from one object to another, and selectors of one key or field of an object."""

from typing import ClassVar

from mooring.api.base import Merge, Object, always, atomic, required
from mooring.api.quantity import Quantity


class ObjectReference(Object):
    """Enough to find another object, or a part of it."""

    __merge__: ClassVar[Merge | None] = atomic()

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    """The version of the object that is meant."""
    field_path: str = ""
    """The part of the object that is meant, such as spec.containers{name}."""


class LocalObjectReference(Object):
    """The name of an object in the same namespace, of a kind that the context gives."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""


class TypedLocalObjectReference(Object):
    """An object in the same namespace, with its kind."""

    __merge__: ClassVar[Merge | None] = atomic()

    api_group: str | None = None
    kind: str = required(str)
    name: str = required(str)


class TypedObjectReference(Object):
    """An object with its kind, in another namespace if need be."""

    api_group: str | None = None
    kind: str = required(str)
    name: str = required(str)
    namespace: str | None = None
    """The namespace of the object; the same as the referrer's when absent."""


class SecretReference(Object):
    """A Secret in any namespace."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    namespace: str = ""


class ConfigMapKeySelector(Object):
    """A key of a ConfigMap."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    """The name of the ConfigMap."""
    key: str = required(str)
    """The key to choose."""
    optional: bool | None = None
    """Whether the ConfigMap or its key may be missing."""


class SecretKeySelector(Object):
    """A key of a Secret."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    key: str = required(str)
    """The key to choose."""
    optional: bool | None = None
    """Whether the Secret or its key may be missing."""


class ObjectFieldSelector(Object):
    """A field of the object that this is part of."""

    __merge__: ClassVar[Merge | None] = atomic()

    api_version: str = ""
    """The version in whose schema the field is named; v1 when absent."""
    field_path: str = required(str)


class ResourceFieldSelector(Object):
    """A request or limit of a container."""

    __merge__: ClassVar[Merge | None] = atomic()

    container_name: str = ""
    """The container; needed in volumes, optional in environment variables."""
    resource: str = required(str)
    """The resource, such as limits.cpu."""
    divisor: Quantity = always(lambda: Quantity.parse("0"))
    """The unit in which the value is given; 1 when absent."""


class FileKeySelector(Object):
    """A key of an environment file in a volume."""

    __merge__: ClassVar[Merge | None] = atomic()

    volume_name: str = required(str)
    """The volume that holds the file."""
    path: str = required(str)
    """The path of the file within the volume."""
    key: str = required(str)
    """The key within the file."""
    optional: bool | None = None
    """Whether the file or its key may be missing."""

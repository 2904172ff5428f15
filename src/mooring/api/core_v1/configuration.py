"""ConfigMap, Secret and ServiceAccount: what pods are given to read and to act as."""

from typing import Annotated

from mooring.api.base import list_map
from mooring.api.core_v1.references import LocalObjectReference, ObjectReference
from mooring.api.meta_v1 import Resource


class ConfigMap(Resource):
    """Configuration that is not secret."""

    immutable: bool | None = None
    """Whether the data can no longer be changed."""
    data: dict[str, str] = {}
    """Texts by key."""
    binary_data: dict[str, bytes] = {}
    """Bytes by key."""


class Secret(Resource):
    """Data that is secret."""

    immutable: bool | None = None
    """Whether the data can no longer be changed."""
    data: dict[str, bytes] = {}
    """Bytes by key."""
    string_data: dict[str, str] = {}
    """Texts by key, moved into data when written and never shown."""
    type: str = ""
    """What the data is for; Opaque when nothing particular."""


class ServiceAccount(Resource):
    """An identity for processes in pods."""

    secrets: Annotated[list[ObjectReference], list_map("name")] = []
    """Secrets that its pods may use."""
    image_pull_secrets: list[LocalObjectReference] = []
    """Secrets with which its pods pull images."""
    automount_service_account_token: bool | None = None
    """Whether its pods get a token; a pod can say otherwise."""

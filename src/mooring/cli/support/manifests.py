"""Decode objects from YAML or plain trees, for commands and tests."""

from mooring.api import yaml_documents
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme

DEFAULT_NAMESPACE = "default"


def read_objects(text: str | bytes, scheme: Scheme) -> list[Resource]:
    """Decode the objects of a YAML text in order. Raise DecodeError with the line of the document."""
    found: list[Resource] = []
    for document in yaml_documents.read(text):
        try:
            found.append(object_of(document.tree, scheme))
        except DecodeError as error:
            raise DecodeError(f"line {document.line}: {error}") from error
    return found


def object_of(tree: object, scheme: Scheme) -> Resource:
    """Decode an object from a tree of dicts and lists. Raise DecodeError if it is malformed."""
    if not isinstance(tree, dict):
        raise DecodeError("not an object")
    kind = scheme.kind(str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
    if kind is None:
        raise DecodeError(f"there is no {tree.get('apiVersion')} {tree.get('kind')}")
    obj, _ = from_tree(tree, kind.type, FieldValidation.STRICT)
    if kind.namespaced and not obj.metadata.namespace:
        obj.metadata.namespace = DEFAULT_NAMESPACE
    return obj

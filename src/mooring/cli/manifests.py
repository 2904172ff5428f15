"""Objects from YAML text, as commands and tests hand them to a control plane."""

from mooring.api import yaml_documents
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme

DEFAULT_NAMESPACE = "default"


def read_objects(text: str | bytes, scheme: Scheme) -> list[Resource]:
    """What a text describes, in its order. Raises DecodeError, with the line of the document."""
    found: list[Resource] = []
    for document in yaml_documents.read(text):
        tree = document.tree
        if not isinstance(tree, dict):
            raise DecodeError(f"line {document.line}: this is no object")
        kind = scheme.kind(str(tree.get("apiVersion", "")), str(tree.get("kind", "")))
        if kind is None:
            raise DecodeError(f"line {document.line}: there is no {tree.get('apiVersion')} {tree.get('kind')}")
        obj, _ = from_tree(tree, kind.type, FieldValidation.STRICT)
        if kind.namespaced and not obj.metadata.namespace:
            obj.metadata.namespace = DEFAULT_NAMESPACE
        found.append(obj)
    return found

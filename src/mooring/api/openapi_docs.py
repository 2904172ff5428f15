"""Read the docstrings of API types, which are their OpenAPI descriptions.

Python keeps docstrings of classes but not of attributes, so they are read from the source on demand, once per module.
The API server puts them into its OpenAPI documents for ``kubectl explain``; a server starts without this module.
"""

import ast
import inspect
import sys
from functools import cache

from mooring.api.base import Object


def descriptions(cls: type[Object]) -> dict[str, str]:
    """Return the description of each attribute of `cls`, by Python name, including inherited ones."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Object):
            found |= _read_module(base.__module__).get(base.__qualname__, {})
    return {name: found[name] for name in cls.__struct_fields__ if name in found}


@cache
def _read_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _read_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _read_class(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found

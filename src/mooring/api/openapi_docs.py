"""The docstrings of API types, which are their OpenAPI descriptions.

Python keeps a class's docstring and forgets the ones below attributes, so they are read from the source when somebody
asks for them, once per module. The API server writes them into its OpenAPI documents, where ``kubectl explain`` finds
them; a server starts without this module.
"""

import ast
import inspect
import sys
from functools import cache

from mooring.api.base import Object


def descriptions(cls: type[Object]) -> dict[str, str]:
    """The description of each attribute of `cls` (by its Python name), inherited ones included."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if issubclass(base, Object):
            found |= _of_module(base.__module__).get(base.__qualname__, {})
    return {name: found[name] for name in cls.__struct_fields__ if name in found}


@cache
def _of_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: _of_class(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _of_class(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for statement, following in zip(node.body, node.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = inspect.cleandoc(text)
    return found

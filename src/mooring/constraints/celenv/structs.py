"""CEL types of built-in kinds, derived from the API structs, for type-checking policies.

Quantities and int-or-string values are dynamic; so is a struct nested in itself.
"""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.cel.types import BOOL, BYTES, DOUBLE, DYN, INT, STRING, Field, ObjectType, Type, list_of, map_of

_SCALARS: dict[Any, Type] = {str: STRING, int: INT, float: DOUBLE, bool: BOOL, bytes: BYTES}


def declare_struct(cls: type[msgspec.Struct], name: str) -> tuple[ObjectType, ...]:
    """Return the CEL type of a struct under `name`, followed by those of all structs that it contains."""
    found: dict[str, ObjectType] = {}
    _declare(cls, name, found, ())
    return (found.pop(name), *found.values())


def _declare(cls: type[msgspec.Struct], name: str, found: dict[str, ObjectType], around: tuple[type, ...]) -> Type:
    fields = {
        info.encode_name: Field(_type_of(info.type, f"{name}.{info.encode_name}", found, (*around, cls)))
        for info in msgspec.structs.fields(cls)
    }
    found[name] = ObjectType(name, fields)
    return found[name].type


def _type_of(annotation: Any, name: str, found: dict[str, ObjectType], around: tuple[type, ...]) -> Type:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_of(arguments[0], name, found, around)
    if origin in (Union, UnionType):
        options = [each for each in arguments if each is not type(None)]
        return _type_of(options[0], name, found, around) if len(options) == 1 else DYN
    if origin is list:
        return list_of(_type_of(arguments[0], f"{name}.@idx", found, around))
    if origin is dict:
        return map_of(STRING, _type_of(arguments[1], f"{name}.@elem", found, around))
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return DYN if annotation in around else _declare(annotation, name, found, around)
    return _SCALARS.get(annotation, DYN)

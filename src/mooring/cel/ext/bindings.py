"""`cel.bind(name, value, expression)`: a name for a value that an expression uses more than once."""

from collections.abc import Sequence
from typing import Final

from mooring.cel.library import Library, Macro
from mooring.cel.macros import Expander
from mooring.cel.syntax import Expr, Ident


def _expand_bind(new: Expander, target: Expr | None, args: Sequence[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    variable = new.variable(args[0], "cel.bind() variable names must be simple identifiers")
    return None if variable is None else new.bind(variable, args[1], args[2])


BINDINGS: Final = Library("bindings", macros=(Macro("bind", 3, receiver=True, expand=_expand_bind),))

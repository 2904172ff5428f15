"""A CEL engine that knows nothing of Kubernetes: parse, check, estimate, compile, evaluate.

Start in environment.py. The phases follow each other as files: lexer, parser (with macros), checker (with
unification), validators, estimator; then interpreter (exact, made of steps), codegen (fast) and counted (fast, and adds
up costs). What libraries are written in: types, values, costs, library, macros; `standard` and `ext` are the libraries
that come along.
"""

from .costs import CallCost, Range
from .environment import Environment, Evaluation, Program
from .errors import CelError, CompileError, CostLimitExceeded, DeclarationError, EvaluationError, Issue
from .library import Constant, Function, Library, Macro, Overload
from .standard import STANDARD
from .types import Field, ObjectType, Type

__all__ = [
    "STANDARD",
    "CallCost",
    "CelError",
    "CompileError",
    "Constant",
    "CostLimitExceeded",
    "DeclarationError",
    "Environment",
    "Evaluation",
    "EvaluationError",
    "Field",
    "Function",
    "Issue",
    "Library",
    "Macro",
    "ObjectType",
    "Overload",
    "Program",
    "Range",
    "Type",
]

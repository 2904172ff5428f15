"""A CEL engine independent of Kubernetes: parse, check, estimate cost, compile, evaluate.

Start in environment.py. Each phase is a file: lexer, parser (with macros), checker (with unification), validators,
estimator; then interpreter (exact, built of steps), codegen (fast) and counted (fast, with costs). Libraries are
written with types, values, costs, library and macros; `standard` and `ext` are the bundled libraries.
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

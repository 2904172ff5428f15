"""Questions about a cluster, answered without changing it.

    from mooring.advisor import explain, simulate, audit
    from mooring.advisor.snapshot import dump

    print(explain(dump([Path("cluster.yaml")]), pod))

Each function is in the package of its name and is loaded when it is first used. Results are frozen structs, the same in
Python, in `-o json` and over HTTP. Read next: ``snapshot/`` for what the questions are about.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.advisor.audit import audit
    from mooring.advisor.explain import explain
    from mooring.advisor.simulate import simulate

__all__ = ["audit", "explain", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name}"), name)


class _Question(ModuleType):
    """A package that has the name of its function: calling it calls the function."""

    def __call__(self, *args: Any, **more: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **more)


class _Advisor(ModuleType):
    """This package: once `mooring.advisor.explain` is imported, Python has its name mean the package."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _Question
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Advisor

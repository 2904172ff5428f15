"""The command ``python -m mooring.testing.differential``: compare Mooring with a real Kubernetes on random input.

The implementation is in ``tests/differential``, which is not installed with the package: it needs a checkout.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

_TESTS = Path(__file__).parents[3] / "tests"


def load(name: str) -> ModuleType:
    """Import a module of the ``tests`` folder; exit with an explanation where there is no checkout."""
    folder = name.split(".", maxsplit=1)[0]
    if not (_TESTS / folder).is_dir():
        sys.exit(f"tests/{folder} is not installed with Mooring: run this command in a checkout of its source")
    if str(_TESTS) not in sys.path:
        sys.path.insert(0, str(_TESTS))
    return importlib.import_module(name)


if __name__ == "__main__":
    sys.exit(load("differential.__main__").main())

"""The order in which the processes of a test run execute tests: `deal_waiting_tests_first`.

pytest-xdist (`--dist worksteal`) gives each process one part of the list of tests. A process that has finished its part
takes tests from the end of the longest remaining part. Tests that start servers wait more than they compute, and some
take 15 seconds: if one process had most of them, one core would be idle for the last minutes of a run. So each part
begins with its share of these tests, and ends with tests of milliseconds, which occupy every core until the end.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_WAITING_FOLDERS = ("e2e", "integration", "browser")
"""The folders of `tests` whose tests wait for servers, the folder of the longest tests first."""


def deal_waiting_tests_first(items: Sequence[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return tests in an order in which the part of each process begins with its share of the tests that wait."""
    waiting: dict[Path, list[pytest.Item]] = {}
    computing: list[pytest.Item] = []
    for item in items:
        if _folder(item.path) in _WAITING_FOLDERS:
            waiting.setdefault(_unit(item.path), []).append(item)
        else:
            computing.append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    # by the module's name without its folder, because modules of one folder load the machine in the same way
    for number, path in enumerate(sorted(waiting, key=lambda path: (_WAITING_FOLDERS.index(_folder(path)), path.name))):
        shares[number % processes] += waiting[path]
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        end = len(items) * (number + 1) // processes
        needed = max(0, end - len(ordered) - len(share))
        ordered += share + computing[:needed]
        del computing[:needed]
    return ordered + computing


def _folder(path: Path) -> str:
    """Return the folder of `tests` that contains a module, such as "e2e"."""
    return path.relative_to(_TESTS).parts[0]


def _unit(path: Path) -> Path:
    """Return what one process executes: the module, or its folder if a conftest.py there starts servers for all."""
    return path.parent if path.parent.parent != _TESTS and (path.parent / "conftest.py").exists() else path

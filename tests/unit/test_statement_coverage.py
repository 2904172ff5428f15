"""The coverage that `make test` prints counts the statements that were executed."""

from textwrap import dedent
from types import ModuleType

import pytest

from statement_coverage import count, counting, executed_lines

CASES = {
    "all of straight code": ("a = 1\nb = 2\n", (2, 2)),
    "no docstrings, and nothing that only a type checker reads": (
        '"""Text."""\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    import nothing\n',
        (1, 1),
    ),
    "a function that is not called": ("def f():\n    return 1\n", (1, 2)),
    "a branch that is not taken": ("a = 1\nif a > 1:\n    a = 2\nelse:\n    a = 3\n", (3, 4)),
    "nothing after a return": ("def f():\n    if True:\n        return 1\n    return 2\nf()\n", (4, 5)),
    "what an exception skips": ("try:\n    int('x')\n    a = 1\nexcept ValueError:\n    a = 2\n", (2, 4)),
    "cases of a match": ("match 1:\n    case 1:\n        a = 1\n    case _:\n        a = 2\n", (2, 3)),
    "loops, classes and imports of the future": (
        """\
        from __future__ import annotations
        class A:
            '''Text.'''
            for a in ():
                b = a
        """,
        (3, 4),
    ),
    "an empty module": ("", (0, 0)),
}


@pytest.mark.req("I.6")
@pytest.mark.parametrize("case", CASES)
def test_statements_are_counted_where_they_were_executed(case: str) -> None:
    source, expected = CASES[case]
    module = ModuleType("counted")
    exec(compile(counting(dedent(source), "counted.py"), "counted.py", "exec"), module.__dict__)
    assert count(dedent(source), executed_lines(module)) == expected

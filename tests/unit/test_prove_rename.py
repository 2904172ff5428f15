"""`tools/prove_rename.py` accepts renames and reworded docstrings, and nothing else."""

from dataclasses import dataclass

import pytest
from tools.prove_rename import compare_sources

OLD = '''"""Old."""
import b
from a import told

LIMIT = 3
"""So many."""


def judged(pod):
    """As what a pod is seen."""
    seen = told(pod)
    return seen.alike(LIMIT, note="x")
'''


@dataclass
class Case:
    id: str
    new: str
    is_proven: bool
    changes_texts: bool = False


CASES = [
    Case(
        "names, docstrings, comments and the order of imports may change",
        OLD.replace("judged", "evaluate_pod").replace("seen", "verdict").replace("So many.", "Most nodes."),
        is_proven=True,
    ),
    Case("a docstring may go", OLD.replace('    """As what a pod is seen."""\n', ""), is_proven=True),
    Case("a number may not change", OLD.replace("= 3", "= 4"), is_proven=False),
    Case("a statement may not go", OLD.replace("LIMIT = 3\n", ""), is_proven=False),
    Case("two names may not become one", OLD.replace("seen", "pod"), is_proven=False),
    Case("one name may not become two", OLD.replace("return seen", "return verdict"), is_proven=False),
    Case("an import may not go", OLD.replace("import b\n", ""), is_proven=False),
    Case("a changed string literal is listed", OLD.replace('"x"', '"y"'), is_proven=True, changes_texts=True),
]


@pytest.mark.req("L.3")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_rename_is_proven_from_the_syntax_trees(case: Case) -> None:
    difference, _, texts = compare_sources(OLD, case.new)
    assert (difference is None) == case.is_proven, difference
    assert bool(texts) == case.changes_texts


def test_renames_are_listed() -> None:
    _, renames, _ = compare_sources(OLD, OLD.replace("judged", "evaluate_pod").replace("alike", "has_same_template"))
    assert renames == {"judged": {"evaluate_pod"}, "alike": {"has_same_template"}}

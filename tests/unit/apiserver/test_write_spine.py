"""An apply of a Deployment goes through few modules, in one direction."""

import pytest
from tools import write_spine


@pytest.mark.req("W.6")
def test_an_apply_passes_few_modules_and_hardly_returns_to_one() -> None:
    modules, returns = write_spine.measure()
    assert len(modules) <= 36, modules
    assert len(returns) <= 7, returns

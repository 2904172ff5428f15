"""No story of the proposals is left out where they are played on a real node."""

from typing import Any

import pytest

from real_stories import PLAYED
from stories import EXAMPLES, documents


def has_pods(tree: dict[str, Any]) -> bool:
    return tree["kind"] == "Pod" or "template" in tree.get("spec", {})


WITH_PODS = {
    str(path.parent.relative_to(EXAMPLES))
    for path in EXAMPLES.glob("kep-*/*/*.yaml")
    if any(has_pods(tree) for tree in documents(path))
}


@pytest.mark.req("N.12")
def test_every_story_with_a_pod_is_played_on_a_real_node() -> None:
    assert WITH_PODS == PLAYED

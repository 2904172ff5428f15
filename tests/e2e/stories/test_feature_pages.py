"""The manifests on the pages about features are accepted as they stand."""

import re
from pathlib import Path

import pytest

from kubectl_caller import Kubectl
from typed_console import ROOT

PAGES = sorted((ROOT / "docs/features").glob("*.md"))
PAGES_WITH_MANIFESTS = [page for page in PAGES if "```yaml" in page.read_text()]


@pytest.mark.req("5471.1", "5721.1", "5721.2", "5500.1", "3633.1")
@pytest.mark.parametrize("page", PAGES_WITH_MANIFESTS, ids=lambda page: page.stem)
def test_the_server_accepts_what_a_page_shows(page: Path, kubectl: Kubectl) -> None:
    for manifest in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
        assert "created (server dry run)" in kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)

"""Manifests of operators and charts that others publish give no false alarms.

MOORING_MANIFESTS names a folder with checked-out manifests: of cert-manager, Argo Workflows, Kueue and the like.
"""

import os
from pathlib import Path

import pytest

from mooring.advisor import releases
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases import Crossing
from mooring.advisor.snapshot import Snapshot, dump

FOLDER = os.environ.get("MOORING_MANIFESTS", "")


@pytest.fixture(scope="module")
def published() -> Snapshot:
    return dump([Path(FOLDER)])


@pytest.mark.req("U.8")
@pytest.mark.skipif(not FOLDER, reason="MOORING_MANIFESTS does not name a folder with manifests of others")
@pytest.mark.parametrize(("start", "end"), [("1.34", "1.36"), ("1.33", "1.37"), ("1.29", "1.37")])
def test_on_the_way_up_nothing_is_told_of_manifests_that_are_kept_up_to_date(
    published: Snapshot, start: str, end: str
) -> None:
    found = releases.audit(published, Crossing.between(start, end)).findings
    assert [each for each in found if each.level is not Severity.INFO and not each.object.stored] == []

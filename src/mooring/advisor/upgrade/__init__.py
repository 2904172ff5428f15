"""`mooring upgrade-check`: will an upgrade succeed, and can it be rolled back?

    check      the complete check
    results    its typed form
    drains     drain every node in virtual time
    remedies   changes that were verified by simulation
    helm       manifests of Helm releases
    reports    text and Markdown
    page       HTML with the timeline

Read next: ``check.py``. The page for users is ``docs/upgrade.md``.
"""

from mooring.advisor.upgrade.check import UpgradeRequest, check_upgrade
from mooring.advisor.upgrade.drains import DrainOptions, drain_all
from mooring.advisor.upgrade.helm import helm_manifests, read_releases
from mooring.advisor.upgrade.results import Rollout, UpgradeCheck

__all__ = [
    "DrainOptions",
    "Rollout",
    "UpgradeCheck",
    "UpgradeRequest",
    "check_upgrade",
    "drain_all",
    "helm_manifests",
    "read_releases",
]

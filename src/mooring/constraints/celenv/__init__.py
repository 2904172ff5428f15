"""Kubernetes' CEL: its libraries, and the environments for the expressions of KEP-5500 and of DRA.

Start with `environments`: it combines the libraries of a Kubernetes version with the variables `taint` and `node`;
`device` does so for device selectors. The other modules hold one library each.
"""

from mooring.constraints.celenv.device import DEVICE
from mooring.constraints.celenv.environments import COST_LIMIT, NODE, TAINT, Environments

__all__ = ["COST_LIMIT", "DEVICE", "NODE", "TAINT", "Environments"]

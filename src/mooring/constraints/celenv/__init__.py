"""CEL as Kubernetes has it: its libraries, and the environments for the expressions of KEP-5500 and of DRA.

`environments` is where to start: it puts the libraries of a Kubernetes version together with the variables `taint` and
`node`; `device` does so for selectors of devices. The other modules are one library each.
"""

from mooring.constraints.celenv.device import DEVICE
from mooring.constraints.celenv.environments import COST_LIMIT, NODE, TAINT, Environments

__all__ = ["COST_LIMIT", "DEVICE", "NODE", "TAINT", "Environments"]

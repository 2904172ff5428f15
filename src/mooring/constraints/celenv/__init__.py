"""CEL as Kubernetes has it: its libraries, and the environments for the expressions of KEP-5500.

`environments` is where to start: it puts the libraries of a Kubernetes version together with the variables `taint` and
`node`. The other modules are one library each.
"""

from mooring.constraints.celenv.environments import COST_LIMIT, NODE, TAINT, Environments

__all__ = ["COST_LIMIT", "NODE", "TAINT", "Environments"]

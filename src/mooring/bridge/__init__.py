"""Bring version, number and CEL constraints to a stock Kubernetes cluster.

Users write the constraints of the proposals into annotations of pods (``mooring.constraints.annotations``). The bridge
lowers them: `Equal` tolerations for the taints in the cluster, and a label on each node that meets a constraint, which
the pod's node affinity requires. Nothing is replaced: kube-scheduler, the taint manager, kubelets and autoscalers go on
as before.

``plan.py`` computes the patch of a pod, the controllers in ``pods.py`` and ``cluster.py`` write pods and node labels.
`mooring bridge` runs them; docs/bridge.md is for its users. The bridge uses a cluster only through ``mooring.client``.
"""

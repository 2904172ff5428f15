"""Bring version, number and CEL constraints to a stock Kubernetes cluster.

Users write the constraints of the proposals into annotations of pods (``mooring.constraints.annotations``). The bridge
lowers them: `Equal` tolerations for the taints in the cluster, and a label on each node that meets a constraint, which
the pod's node affinity requires. Nothing is replaced: kube-scheduler, the taint manager, kubelets and autoscalers go on
as before.

    plan.py       the patch for one pod; pure
    cluster.py    taints, label values and rules in use, by informers; writes the bridge's labels to nodes
    pods.py       releases gated pods, and adds tolerations to running ones
    webhooks.py   admission of pods, node updates and evictions; eviction when tolerationSeconds are over
    serving.py    the HTTPS server of the webhooks, and its certificates
    checking.py   `mooring bridge --check`
    convert.py    moves constraints of manifests from spec to annotations
    run.py        the component, with leader election

It reads and writes a cluster only through ``mooring.client``. `mooring bridge` runs it; docs/bridge.md is for its
users.
"""

"""Version, number and CEL constraints on a stock Kubernetes cluster, in words that it understands already.

Users write the constraints of the proposals into annotations of pods (``mooring.constraints.annotations``). The bridge
says them again: `Equal` tolerations for the taints that there are, and a label on each node that meets a constraint,
which the pod's node affinity asks for. Nothing is replaced: kube-scheduler, the taint manager, kubelets and autoscalers
go on as before.

    plan.py       what to do to one pod or node; pure
    cluster.py    what of the cluster decides, kept up to date: taints, values of labels, rules in use
    pods.py       releases gated pods, and lets those that run tolerate new values
    pod_patch.py  writes to pods that hold for the version looked at
    nodes.py      keeps the labels of nodes current
    webhooks.py   answers of the webhooks: what pods may be created, what may change on nodes
    serving.py    the HTTPS server for them, and its certificates
    checking.py   what a cluster lacks for the bridge to work
    convert.py    manifests with the operators in their spec, rewritten
    run.py        all of it, elected

It knows a cluster only through ``mooring.client``. `mooring bridge` runs it; docs/bridge.md is for its users.
"""

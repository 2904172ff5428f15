"""Sharing GPUs among pods, and six policies for where to put them, as plugins for Mooring's scheduler.

    cards       which card of a node is how full, and GpuShare, which filters and reserves by it
    choosing    FixedOrder and Random: what decides among nodes that are equally good
    packing     BestFit, DotProd and GpuPacking: points from what is left
    clustering  GpuClustering: pods beside others of their kind
    fgd         FGD: where the expected fragmentation grows least

The definitions are those of "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent" (USENIX ATC 2023) and of its public simulator. docs/traces.md is the tutorial.
"""

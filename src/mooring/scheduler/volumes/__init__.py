"""Storage, as the volume plugins need it.

    claims            the claims of a pod, and their state
    assumed           objects as they will be once pending writes are visible in informers
    reach             the nodes from which a PersistentVolume can be used
    migration         reach of volumes of former in-tree drivers that CSI drivers replaced
    stock             the unbound volumes, in groups of equal ones
    matching          which existing volume each claim of a pod would get on which node
    provisioning      the nodes on which a volume can be provisioned
    capacity_scoring  score nodes by storage utilisation
    binding           the writes that bind volumes, and waiting until they take effect
    csi               the CSI drivers of volumes, and the number of volumes attached to each node

Read next: ``plugins/volume_binding.py``, then ``claims.py``.
"""

"""What the scheduler knows about storage, for its volume plugins.

    claims            the claims of a pod, and what state they are in
    assumed           objects as they will be once our own writes have come back
    reach             from which nodes a PersistentVolume can be used
    migration         the same for volumes of former built-in drivers where CSI drivers have replaced them
    stock             the volumes that are free, in groups of equals
    matching          which volume each claim of a pod would get on which node
    provisioning      where volumes that do not exist yet could be made
    capacity_scoring  on which node the storage would be used best
    binding           the writes that make it so, and waiting until they have had their effect
    use               which claims and disks the pods on the nodes use
    csi, attached     which CSI driver has a volume, and how many of them the nodes have

Read next: ``plugins/volume_binding.py``, then ``claims.py``.
"""

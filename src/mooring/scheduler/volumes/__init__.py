"""What the scheduler knows about storage, for its volume plugins.

    claims       the claims of a pod, and what state they are in
    assumed      objects as they will be once our own writes have come back
    reach        from which nodes a PersistentVolume can be used
    matching     which volume each claim of a pod would get on which node
    provisioning where volumes that do not exist yet could be made
    binding      the writes that make it so, and waiting until they have had their effect
    use          which claims, disks and volumes the pods on the nodes use
    csi          which CSI driver has a volume

Read next: ``plugins/volume_binding.py``, then ``claims.py``.
"""

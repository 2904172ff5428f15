"""storage.k8s.io/v1beta1: VolumeAttributesClass, which has the same shape as in v1."""

from mooring.api.storage_v1 import VolumeAttributesClass

__all__ = ["VolumeAttributesClass"]

"""ImageLocality: scores nodes higher that already have the pod's images, in proportion to image size.

The size counts multiplied by the share of nodes that have the image, so that an image on a single node does not attract
all pods.
"""

import numpy as np

from mooring.constraints.columns.revisions import Derived
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo

_MB = 1024 * 1024
_LEAST = 23 * _MB
_MOST = 1000 * _MB
"""The image size, per container, from which the score is the highest."""


class _PodImages(Derived):
    """The images of a pod; as a derived value, it logs that scores changed."""

    def __init__(self, cluster: Cluster, images: tuple[str, ...]) -> None:
        self.cluster = cluster
        self.images = images
        self.most = _MOST * len(images)


class ImageLocality(fwk.ScorePlugin[_PodImages]):
    name = "ImageLocality"
    scores = fwk.Declaration(fwk.Part.IMAGES, cluster=fwk.Input.NODE_IMAGES, has_pre_point=False)

    def __init__(self, _arguments: fwk.PluginArguments, _handle: fwk.Handle) -> None:
        pass

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _PodImages:
        return _PodImages(cluster, pod.signature.images)

    def refresh_score(self, state: _PodImages, _feasible: fwk.Mask) -> Derived | fwk.Input:
        if not any(map(state.cluster.images.sizes, state.images)):
            return fwk.Input.NODE_IMAGES  # every score is 0 until a node has one of them
        state.change()  # the share of nodes that have an image changes with every node
        return state

    def score(self, state: _PodImages, rows: fwk.Rows) -> fwk.Scores:
        images, nodes = state.cluster.images, len(state.cluster)
        points = np.zeros(state.cluster.capacity, np.int64)
        for image in state.images:
            sizes = images.sizes(image)
            if sizes:
                share = len(sizes) / nodes
                where = np.fromiter(sizes.keys(), np.intp, len(sizes))
                points[where] += (np.fromiter(sizes.values(), np.float64, len(sizes)) * share).astype(np.int64)
        points = np.clip(points[rows], _LEAST, max(state.most, _LEAST + 1))
        return fwk.MAX_NODE_SCORE * (points - _LEAST) // max(state.most - _LEAST, 1)

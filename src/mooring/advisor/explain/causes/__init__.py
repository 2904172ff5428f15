"""The causes why a pod does not exist, has no node, or does not run, each as a sentence.

| Module | The pod … |
|---|---|
| ``creation.py``, ``refusals.py`` | does not exist: its controller does not create it, or the API server refuses it |
| ``placement.py`` | has no node: no scheduler tries it, or no node fits; the filter that leaves no node is the cause |
| ``running.py`` | has a node and does not run: images, containers, volumes, the node itself |

A `Cause` has a stable code for programs and a sentence for people. Causes for volumes and devices are in ``storage.py``
and ``devices.py`` one level up. ``explanation.py`` chooses among all of them.
"""

"""The causes why a pod does not exist, has no node, or does not run, each as a sentence.

| Module | The pod … |
|---|---|
| ``creation.py``, ``refusals.py`` | does not exist: its controller does not create it, or the API server refuses it |
| ``attempts.py`` | exists, and no scheduler tries it: gates, another scheduler |
| ``placement.py``, ``storage.py`` | is tried, and no node fits: the filter that leaves no candidate is the cause |
| ``running.py`` | has a node and does not run: images, containers, volumes, the node itself |

A `Cause` has a stable code for programs and a sentence for people. ``explanation.py`` chooses among them.
"""

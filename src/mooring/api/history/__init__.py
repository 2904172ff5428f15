"""The history of Kubernetes' API, 1.27 to 1.37: every resource, field and value of a closed type, and since when.

    history().kind("apps", "v1", "StatefulSet").releases.has(Version(1, 30))
    history().definitions["core.v1.PodSpec"]["resources"].gates    # ("PodLevelResources",)

``fields.txt`` and ``resources.txt`` say how they are written and where they come from; ``tools/history`` writes them.
They are read when somebody asks: servers do not pay for them. Read next: ``tables.py``.
"""

from mooring.api.history.tables import EVERY_VERB, Field, History, Releases, Served, changing, history

__all__ = ["EVERY_VERB", "Field", "History", "Releases", "Served", "changing", "history"]

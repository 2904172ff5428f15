"""The history of Kubernetes' API, 1.27 to 1.37: every resource, field and enum value with its releases.

    history().kind("apps", "v1", "StatefulSet").releases.has(Version(1, 30))
    history().definitions["core.v1.PodSpec"]["resources"].gates    # ("PodLevelResources",)

``fields.txt`` and ``resources.txt`` describe their format and sources; ``tools/history`` writes them. They are read on
first use, so servers do not pay for them. Read next: ``tables.py``.
"""

from mooring.api.history.tables import EVERY_VERB, Field, History, Releases, Served, changing_fields, history

__all__ = ["EVERY_VERB", "Field", "History", "Releases", "Served", "changing_fields", "history"]

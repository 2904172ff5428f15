"""Controllers that create pods from templates: one file for each kind of workload, on the base in ``workload.py``.

Pure functions that decide what to do are in files of their own, such as ``deployment_pace.py`` and ``job_pods.py``.
Read next: ``workload.py``, then ``replicas.py``.
"""

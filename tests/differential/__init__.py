"""Compare Mooring with a real Kubernetes on random input: ``python -m mooring.testing.differential``.

Both get the same requests; what they answer, store and schedule is compared. Each seed is an independent run, so that a
difference can be repeated from its seed alone, and is shrunk before it is printed.

| Module | What is there |
|---|---|
| ``real.py``, ``connection.py`` | starting etcd, kube-apiserver and kube-scheduler; a plain HTTP client |
| ``schema.py``, ``mutation.py`` | random values from the OpenAPI schema; changes of objects |
| ``examples.yaml`` | a valid object of each kind, where changes begin |
| ``api.py``, ``responses.py`` | the life of a random object on two servers; comparing responses |
| ``clusters.py``, ``scheduling.py`` | random clusters and events; comparing what two schedulers do |
| ``accepted.py`` | differences that are explained; docs/differences.md lists them |
"""

"""Extensions of the API by users: custom kinds, admission policies and webhooks.

``registry/admission/chain.py`` calls policies and webhooks in their order; it is the only place that does. This package
has the steps of that chain (``policies.py``, ``webhooks/step.py``), the definitions of custom kinds
(``definitions.py``), and their conversion webhooks (``converting.py``).
"""

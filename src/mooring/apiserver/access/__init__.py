"""Who is asking, and may they? Certificates, tokens, roles, and the questions that clients ask about them.

``authn.py`` finds out who a request comes from (``pki.py`` client certificates, token files, ``tokens.py``
bearer tokens), ``impersonation.py`` lets users with the right act as others, ``rbac.py`` decides what they may do, and
``escalation.py`` keeps them from giving away more than they have. ``reviews.py`` answers clients' questions about it.
"""

"""Authentication and authorization: certificates, tokens, roles, and the reviews by which clients ask about them.

``authn.py`` finds the user of a request (``pki.py`` client certificates, token files, ``tokens.py`` bearer tokens),
``impersonation.py`` lets permitted users act as others, ``rbac.py`` authorizes actions, and ``escalation.py`` prevents
users from granting rights that they lack. ``reviews.py`` answers TokenReviews and access reviews.
"""

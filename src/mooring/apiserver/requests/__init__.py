"""From a request to its response: authentication, limits, authorization, and the handler of its path.

``app.py`` has the steps in their order; start there. ``batch.py`` takes several writes in one request.
"""

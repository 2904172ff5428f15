"""The steps from a request to its response: authentication, limits, authorization, and the handler of its path.

``app.py`` has the steps in order; start there. ``batch.py`` handles several writes in one request.
"""

"""The report of a simulation as one HTML file: no other files, no scripts, readable in light and dark.

Everything that comes from a cluster goes through `markup.escaped`, because a name or a message can be anything. Read
next: ``page.py`` for what is on the page, ``pictures.py`` for the drawings.
"""

from mooring.advisor.simulate.html.page import page

__all__ = ["page"]

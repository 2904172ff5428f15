"""The reports of simulations and replays as HTML files, without scripts or other files, in light and dark colors.

All cluster data is escaped with `markup.escaped`. Read next: ``page.py`` for the layout, ``pictures.py`` for the
charts.
"""

from mooring.advisor.simulate.html.page import render_page

__all__ = ["render_page"]

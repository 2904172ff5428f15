"""What tests in a browser use; those on a real cluster use it too."""

from browser_fixtures import address, browser, look, servers

__all__ = ["address", "browser", "look", "servers"]

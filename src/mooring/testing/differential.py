"""The command ``python -m mooring.testing.differential``: compare Mooring with a real Kubernetes on random input.

The implementation is in ``tests/differential``.
"""

import sys

from mooring.testing.checkout import load

if __name__ == "__main__":
    sys.exit(load("differential.__main__").main())

"""Measurements. `python -m benchmarks` runs all, `python -m benchmarks NAME…` some. See README.md beside this file."""

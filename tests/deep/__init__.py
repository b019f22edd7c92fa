"""Checks that take minutes: `make check-deep` runs them; pytest does not collect them."""

"""Functions that do not run for a reason that a script cannot find out."""

# The verdict and the reason of functions that differ or fail.
KNOWN: dict[str, tuple[str, str]] = {}

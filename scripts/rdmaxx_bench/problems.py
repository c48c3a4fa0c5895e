"""Why a number is missing."""


class Unmeasured(Exception):
    """Says why there are no numbers."""

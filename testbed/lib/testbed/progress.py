"""Messages about the testbed's own work, on stderr so that they never mix with a command's results."""

import sys
import time
from contextlib import contextmanager


def say(message: str) -> None:
    print(f"testbed: {message}", file=sys.stderr, flush=True)


@contextmanager
def announced(work: str):
    """Announces work that takes seconds, and says how long it took."""
    say(f"{work} ...")
    start = time.monotonic()
    yield
    say(f"{work}: done in {time.monotonic() - start:.1f} s")

"""What a person sees while a command works: finished steps as lines, and on a terminal one moving line.

Several threads may report at once.
"""

import shutil
import sys
import threading

_lock = threading.RLock()  # a signal may interrupt a report with its own
_moving = ""


def line(text: str) -> None:
    """A step has finished."""
    with _lock:
        _erase()
        print(text, file=sys.stderr, flush=True)


def moving(text: str) -> None:
    """Something goes on; shown only on a terminal, and replaced by whatever comes next."""
    global _moving
    if not sys.stderr.isatty():
        return
    with _lock:
        _erase()
        _moving = text.splitlines()[0][: shutil.get_terminal_size().columns - 1] if text else ""
        print(_moving, end="", file=sys.stderr, flush=True)


def _erase() -> None:
    global _moving
    if _moving:
        print("\r\033[K", end="", file=sys.stderr)
        _moving = ""

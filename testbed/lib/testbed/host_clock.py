"""How fast the host's time-stamp counter runs, measured: emulated guests read that very counter.

A guest left to measure it itself, while a busy host interrupts it, may end up with a clock that is much too fast or
too slow, and then all of a test's time limits are wrong.
"""

import ctypes
import mmap
import time

# rdtsc; shl rdx, 32; or rax, rdx; ret: returns the counter as a 64-bit number.
READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")
INTERVAL_SECONDS = 0.1


def counter_frequency_khz() -> int | None:
    """None if this host does not let us run our own machine code; guests then measure, as said above."""
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    page.write(READ_COUNTER)
    read_counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    first_time, first_count = _sample(read_counter)
    time.sleep(INTERVAL_SECONDS)
    second_time, second_count = _sample(read_counter)
    return round((second_count - first_count) * 1_000_000 / (second_time - first_time))


def _sample(read_counter) -> tuple[int, int]:
    """The nanoseconds and the counter at one moment: of several tries, the one that was interrupted least."""
    tries = []
    for _ in range(50):
        before, count, after = time.monotonic_ns(), read_counter(), time.monotonic_ns()
        tries.append((after - before, (before + after) // 2, count))
    _, nanoseconds, count = min(tries)
    return nanoseconds, count

"""What the user asked for, checked: the command line minus its syntax."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Request:
    series: str  # of the kernel: 6.1 or 6.12
    accelerator: str
    memory_mib: int
    cpus: int
    time_limit: float  # seconds; 0 for none
    environment: dict[str, str]
    directory: Path
    out_directories: list[Path]
    command: list[str]
    wire: bool = False
    loss_percent: float = 0
    delay_ms: float = 0
    peer_command: list[str] | None = None  # of guest b; None for a single guest
    kill_peer_after: float | None = None
    allow_kernel_warnings: bool = False
    verbose: bool = False

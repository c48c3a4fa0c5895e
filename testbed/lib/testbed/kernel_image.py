"""Unpacks a kernel image, so that guests need not do it at each boot: that takes an emulated processor 4 seconds."""

import lzma
import struct
import subprocess

from .packages import program

# Fields of the boot protocol's header (Documentation/arch/x86/boot.rst in the kernel's source).
SETUP_SECTORS = (0x1F1, "<B")
PAYLOAD_OFFSET = (0x248, "<I")
PAYLOAD_LENGTH = (0x24C, "<I")
SECTOR_BYTES = 512

XZ_MAGIC = b"\xfd7zXZ\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ELF_MAGIC = b"\x7fELF"


def unpacked_kernel(image: bytes) -> bytes:
    """The kernel proper, as an ELF file, which QEMU boots too; the image as it is if we cannot unpack it."""
    start = (_field(image, SETUP_SECTORS) + 1) * SECTOR_BYTES + _field(image, PAYLOAD_OFFSET)
    payload = image[start:start + _field(image, PAYLOAD_LENGTH)]
    kernel = _decompressed(payload[:-4])  # the kernel's build appends the unpacked size in 4 bytes
    return kernel if kernel.startswith(ELF_MAGIC) else image


def _field(image: bytes, where: tuple[int, str]) -> int:
    offset, layout = where
    return struct.unpack_from(layout, image, offset)[0]


def _decompressed(payload: bytes) -> bytes:
    if payload.startswith(XZ_MAGIC):
        return lzma.LZMADecompressor().decompress(payload)
    if payload.startswith(ZSTD_MAGIC):
        return subprocess.run([program("zstd"), "-dc"], input=payload, capture_output=True, check=False).stdout
    return b""

"""The testbed: QEMU guests with software RDMA devices, one module per concept.

command_line, request, environment   what the user asked for
kernel, kernel_image, siw            the guest's kernel, and the one module that the distribution does not build
initramfs                            what the guest boots from
accelerator, host_clock              whether hardware virtualisation may be used, and what emulation needs instead
machine                              the QEMU command line
addresses                            of the guests' interfaces
task                                 what a guest is told to do, and what it reports back
running_guest, output                one guest from start to end, and what it prints
session                              waiting, time limit, verdict
single, pair                         one guest; two guests joined by a network
cache, packages, progress and failure serve all of them. What runs inside a guest is in ../../inside.
"""

"""The testbed: QEMU guests with software RDMA devices, one module per concept.

command_line      what the user asked for
  kernel, siw     the guest's kernel and the one module that the distribution does not build
  initramfs       what the guest boots from
  accelerator     whether hardware virtualisation may be used
  machine         the QEMU command line
  task            what a guest is told to do, and what it reports back
  running_guest   one guest from start to end
  single, pair    one guest with its result; two guests joined by a network
cache, packages, progress and failure serve all of them.
"""

"""The limits of a restricted pod, put on this process: no capabilities, no new privileges, and system calls as Docker's
default profile has them, which Kubernetes calls `RuntimeDefault`: no namespaces, no mounts, no tracing."""

import struct

from pentad.shared.sandbox import kernel

_DENIED = (
    272,
    165,
    166,
    308,
    101,
    321,
    298,
    323,
    250,
    248,
    249,
    161,
    155,
    310,
    311,
    425,
    426,
    427,
    428,
    429,
    430,
    432,
    442,
)
"""unshare mount umount2 setns ptrace bpf perf_event_open userfaultfd keyctl add_key request_key chroot pivot_root
process_vm_readv process_vm_writev io_uring_setup io_uring_enter io_uring_register open_tree move_mount fsopen fsmount
mount_setattr, of x86_64."""
_CLONE, _CLONE3 = 56, 435
_NEW_NAMESPACES = 0x7E020000


def restrict_like_a_pod() -> None:
    """Put these limits on this process and all that it starts."""
    kernel.give_up_privileges()
    allow, refuse, absent = (struct.pack("<HBBI", 6, 0, 0, code) for code in (0x7FFF0000, 0x00050001, 0x00050026))
    steps = [struct.pack("<HBBI", 0x20, 0, 0, 0)]
    for number in _DENIED:
        steps += [struct.pack("<HBBI", 0x15, 0, 1, number), refuse]
    steps += [struct.pack("<HBBI", 0x15, 0, 1, _CLONE3), absent]
    steps += [struct.pack("<HBBI", 0x15, 0, 4, _CLONE), struct.pack("<HBBI", 0x20, 0, 0, 16)]
    steps += [struct.pack("<HBBI", 0x54, 0, 0, _NEW_NAMESPACES), struct.pack("<HBBI", 0x15, 1, 0, 0), refuse, allow]
    kernel.install_filter(b"".join(steps), 0)

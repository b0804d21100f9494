"""The filter of system calls, run here step by step: on both architectures it allows what it names and no more."""

import re
import struct
from pathlib import Path

import pytest

from pentad.shared.sandbox.seccomp import allowing, interpreter_rules, noticing_creations, script_rules
from pentad.shared.sandbox.syscall_numbers import ARCHITECTURES

ALLOWED, KILLED, NOTICED, REFUSED = 0x7FFF0000, 0x80000000, 0x7FC00000, 0x00050001
PID = 4711
FILTERS = {name: allowing(script_rules(PID), found) for name, found in ARCHITECTURES.items()}
each_architecture = pytest.mark.parametrize("machine", list(ARCHITECTURES))


def answer(program: bytes, audit: int, number: int, *args: int) -> int:
    """Run a filter as the kernel does; returns its answer."""
    data = struct.pack("<iIQ6Q", number, audit, 0, *(args + (0,) * 6)[:6])
    steps = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    at, value = 0, 0
    while True:
        code, if_true, if_false, constant = steps[at]
        at += 1
        if code == 0x20:
            value = struct.unpack_from("<I", data, constant)[0]
        elif code == 0x54:
            value &= constant
        elif code in (0x15, 0x35):
            at += if_true if (value == constant if code == 0x15 else value >= constant) else if_false
        else:
            assert code == 0x06
            return int(constant)


def of_script(machine: str, name: str, *args: int) -> int:
    found = ARCHITECTURES[machine]
    return answer(FILTERS[machine], found.audit, found.numbers[name], *args)


@each_architecture
def test_every_number_that_is_not_named_is_refused(machine: str) -> None:
    found = ARCHITECTURES[machine]
    named = {number for name, number in found.numbers.items() if name in script_rules(PID)}
    others = [number for number in range(1024) if number not in named]
    assert {answer(FILTERS[machine], found.audit, number) for number in others} == {REFUSED}


@each_architecture
def test_calls_of_other_architectures_end_the_process(machine: str) -> None:
    numbers = ARCHITECTURES[machine].numbers
    for audit in (0x40000003, 0x40000028, 0, *(a.audit for name, a in ARCHITECTURES.items() if name != machine)):
        assert answer(FILTERS[machine], audit, numbers["read"]) == KILLED


def test_calls_of_x32_end_the_process() -> None:
    found = ARCHITECTURES["x86_64"]
    for number in (0x40000000, 0x40000000 | found.numbers["read"], -1):
        assert answer(FILTERS["x86_64"], found.audit, number) == KILLED


@each_architecture
def test_a_script_signals_itself_alone(machine: str) -> None:
    for call in ("kill", "tgkill"):
        assert of_script(machine, call, PID, 9) == ALLOWED
        for other in (1, 0, PID + 1, 2**32 - 1, 2**32 - PID):
            assert of_script(machine, call, other, 9) == REFUSED


@each_architecture
@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        (0, True),
        (0o101, True),
        (0o1102, True),
        (0o2001, True),
        (0o2000000, True),
        (0o1000, False),  # empties what may only be read
        (0o1003, False),
        (0o3, False),
        (0o20200002, False),  # a file without a name
    ],
)
def test_files_are_opened_so_that_landlock_sees_what_for(machine: str, flags: int, allowed: bool) -> None:
    assert of_script(machine, "openat", 0, 0, flags) == (ALLOWED if allowed else REFUSED)
    if "open" in ARCHITECTURES[machine].numbers:
        assert of_script(machine, "open", 0, flags) == (ALLOWED if allowed else REFUSED)


@each_architecture
def test_files_send_no_signals_and_devices_take_no_orders(machine: str) -> None:
    assert of_script(machine, "fcntl", 3, 2) == ALLOWED
    assert {of_script(machine, "fcntl", 3, order) for order in (7, 8, 9, 10, 15, 1024, 1026, 1031)} == {REFUSED}
    assert of_script(machine, "ioctl", 3, 0x5401) == ALLOWED
    assert {of_script(machine, "ioctl", 3, order) for order in (0x5412, 0x541C, 0x8901, 0x5421)} == {REFUSED}
    assert of_script(machine, "prlimit64", PID + 1) == REFUSED


@each_architecture
def test_what_is_made_is_asked_for_and_nothing_else(machine: str) -> None:
    found = ARCHITECTURES[machine]
    program = noticing_creations(found)
    assert answer(program, found.audit, found.numbers["openat"], 0, 0, 0o101) == NOTICED
    assert answer(program, found.audit, found.numbers["openat"], 0, 0, 0o2) == ALLOWED
    assert answer(program, found.audit, found.numbers["mkdirat"]) == NOTICED
    assert answer(program, found.audit, found.numbers["read"]) == ALLOWED
    for older in {"open", "mkdir"} & found.numbers.keys():
        assert answer(program, found.audit, found.numbers[older], 0, 0o100) == NOTICED


@pytest.mark.parametrize(
    ("machine", "header"),
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_the_numbers_are_those_of_the_kernel(machine: str, header: str) -> None:
    if not (file := Path(header)).exists():
        pytest.skip(f"{header} is not installed")
    told = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read_text())}
    told.setdefault("newfstatat", told.get("fstatat", -1))
    numbers = ARCHITECTURES[machine].numbers
    assert numbers == {name: told[name] for name in numbers}


@each_architecture
def test_an_interpreter_has_threads_and_no_other_process(machine: str) -> None:
    found = ARCHITECTURES[machine]
    program = allowing(interpreter_rules(PID), found)

    def told(name: str, *args: int) -> int:
        return answer(program, found.audit, found.numbers[name], *args)

    thread, child, forked = 0x3D0F00, 17, 0x4100 | 17
    assert (told("clone", thread), told("clone", child), told("clone", forked)) == (ALLOWED, REFUSED, REFUSED)
    assert told("clone3") == 0x00050026, "it seems not to be there, so that clone is called"
    assert (told("execve"), told("prctl", 15), told("prctl", 4)) == (ALLOWED, ALLOWED, REFUSED)
    named = {number for name, number in found.numbers.items() if name in interpreter_rules(PID)}
    others = [number for number in range(1024) if number not in named]
    assert {answer(program, found.audit, number) for number in others} == {REFUSED}

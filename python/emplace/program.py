"""Finds the program ``emplace`` and runs its commands.

The program lies in the wheel (``emplace/bin``). The environment variable EMPLACE_PROGRAM names another one,
and a source tree that was not installed uses the one on PATH.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from emplace.errors import EmplaceError, NoPlacement

Json = dict[str, Any]
_IN_WHEEL = Path(__file__).with_name("bin") / "emplace"
_NO_PLACEMENT = 3
_TICK_MS = 200
# Instruction sets of x86-64-v3 that baseline x86-64 lacks, by their names in /proc/cpuinfo.
_X86_64_V3 = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
# Runs a program that is asked to end (SIGTERM) when this process is gone: a notebook's kernel that is
# restarted would leave a search behind. Part of util-linux; optional.
_SETPRIV = "/usr/bin/setpriv"

# Cures for the lines of the program that have none.
_CURES = {
    "no such file": "give the name of a file that exists",
    "is empty": "give a file with content",
}


@dataclass(frozen=True)
class Finished:
    """A command that has ended without an error."""

    result: Json
    notes: list[str]
    """What the program printed on standard error."""
    interrupted: bool
    """Whether Ctrl-C ended it; the result is what it had by then."""


def find_program() -> Path:
    """The program ``emplace``: EMPLACE_PROGRAM, the one of the wheel, or the one on PATH."""
    named = os.environ.get("EMPLACE_PROGRAM")
    if named:
        if os.access(named, os.X_OK) and not os.path.isdir(named):
            return Path(named)
        raise EmplaceError(
            "EMPLACE_PROGRAM",
            f"'{named}' is not a program",
            "name the program emplace, or unset the variable",
        )
    if _IN_WHEEL.is_file():
        return _IN_WHEEL
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("emplace", path=folder) if folder else None
        # The console script of this package has the same name: it would only look for the program again.
        if found and _is_binary(found):
            return Path(found)
    raise EmplaceError(
        "emplace",
        "the program is not installed",
        "install the wheel (scripts/wheel.sh), or set EMPLACE_PROGRAM to build/release/emplace",
    )


def _environment() -> dict[str, str]:
    """The environment of the program: its executor of kind torch runs in this Python (emplace-exec-torch)."""
    return {"EMPLACE_PYTHON": sys.executable} | dict(os.environ)


def _is_binary(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def check_processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Raises EmplaceError where the processor lacks what the program is compiled for: the program itself
    would end by an illegal instruction. Features that cannot be read are assumed to exist."""
    try:
        with open(cpuinfo, encoding="utf-8", errors="replace") as file:
            flags = next(
                (set(line.partition(":")[2].split()) for line in file if line.startswith("flags")), None
            )
    except OSError:
        return
    missing = [flag for flag in _X86_64_V3 if flags is not None and flag not in flags]
    if missing:
        raise EmplaceError(
            "this machine",
            f"its processor has no {', '.join(missing)}, which emplace needs (x86-64-v3)",
            "use a processor of 2015 or later, or build emplace for this one (cmake/toolchain.cmake)",
        )


@cache
def _check_once() -> None:
    check_processor()


def _program() -> Path:
    program = find_program()
    if not os.environ.get("EMPLACE_PROGRAM"):  # The package's own program may be built for another processor.
        _check_once()
    return program


def error_of(line: str, status: int, command: str, operands: Sequence[str] = ()) -> EmplaceError:
    """The exception for a line ``error: WHERE: what; cure``. A path among `operands` may itself hold ": "."""
    text = line.removeprefix("error: ").strip()
    at = 0
    for operand in operands:
        if operand and text.startswith(operand):
            at = max(at, len(operand))
    where, separator, rest = text[at:].partition(": ")
    where = text[:at] + where
    if not separator:
        where, rest = f"emplace {command}", text
    what, separator, cure = rest.rpartition("; ")
    if not separator:
        what, cure = rest, _CURES.get(rest, f"see 'emplace {command} --help'")
    return (NoPlacement if status == _NO_PLACEMENT else EmplaceError)(where, what, cure)


def run_command(
    command: str,
    arguments: Sequence[str | os.PathLike[str]],
    *,
    shown: Mapping[str, str] | None = None,
    on_line: Callable[[str], None] | None = None,
    on_tick: Callable[[], None] | None = None,
    accept: Sequence[int] = (0,),
) -> Finished:
    """Runs ``emplace COMMAND ARGUMENTS --json``.

    ``shown`` maps paths of temporary files to what errors and notes should call them. Ctrl-C asks the
    program once to end with what it has; a second one ends it at once. Raises EmplaceError with the
    program's line, KeyboardInterrupt if an interrupted command has no result.
    """
    line = [str(_program()), command, *[os.fspath(argument) for argument in arguments], "--json"]
    tied = [_SETPRIV, "--pdeathsig", "TERM"] if os.access(_SETPRIV, os.X_OK) else []
    try:
        # A session of its own: a Ctrl-C of the terminal reaches this process alone, which hands it on once.
        child = subprocess.Popen(
            [*tied, *line],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(line[0], str(error.strerror)) from error
    output: list[bytes] = []
    notes: list[str] = []
    assert child.stdout is not None and child.stderr is not None
    readers = [
        threading.Thread(target=_collect, args=(child.stdout, output), daemon=True),
        threading.Thread(target=_follow, args=(child.stderr, notes, on_line), daemon=True),
    ]
    for reader in readers:
        reader.start()
    interrupts = _wait(child, on_tick)
    for reader in readers:
        reader.join()
    status = child.returncode
    result = _parsed(b"".join(output))
    if status in accept and result is not None:
        return Finished(result, [_renamed(note, shown or {}) for note in notes], interrupts > 0)
    if interrupts > 0 and status in (130, 143, -signal.SIGINT, -signal.SIGTERM):
        if result is None:
            raise KeyboardInterrupt
        return Finished(result, [_renamed(note, shown or {}) for note in notes], True)
    failure = _failure(command, line, status, notes, shown or {})
    if isinstance(failure, NoPlacement) and result is not None:
        failure.remedies = result.get("remedies", ())
    raise failure


def _not_started(program: str, why: str) -> EmplaceError:
    return EmplaceError(
        program, f"cannot be started ({why})", "set EMPLACE_PROGRAM to a program for this machine"
    )


def _collect(stream: IO[bytes], output: list[bytes]) -> None:
    with stream:
        output.append(stream.read())


def _follow(stream: IO[bytes], notes: list[str], on_line: Callable[[str], None] | None) -> None:
    with stream:
        for raw in stream:
            text = raw.decode("utf-8", "replace").rstrip("\n")
            notes.append(text)
            if on_line is not None:
                on_line(text)


def _wait(child: subprocess.Popen[bytes], on_tick: Callable[[], None] | None) -> int:
    """Waits for the end of `child`; returns the number of Ctrl-C that were handed on."""
    interrupts = 0
    end = os.pidfd_open(child.pid)  # Popen.wait(timeout) would sleep, and notice the end 50 ms late.
    poll = select.poll()
    poll.register(end, select.POLLIN)
    try:
        while True:
            try:
                if poll.poll(_TICK_MS if on_tick is not None else None):
                    child.wait()
                    return interrupts
                if on_tick is not None:
                    on_tick()
            except KeyboardInterrupt:
                interrupts += 1
                if interrupts > 1:
                    raise
                child.send_signal(signal.SIGINT)
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        os.close(end)


def _parsed(output: bytes) -> Json | None:
    try:
        value = json.loads(output)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _failure(
    command: str, line: Sequence[str], status: int, notes: Sequence[str], shown: Mapping[str, str]
) -> EmplaceError:
    errors = [note for note in notes if note.startswith("error: ")]
    if not errors and status in (126, 127):  # Status of setpriv, which could not start it.
        raise _not_started(line[0], "no program for this machine")
    if not errors:
        if status == -signal.SIGILL:
            check_processor()
        ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return EmplaceError(f"emplace {command}", ended, "run it again; 'emplace doctor' checks this machine")
    text = errors[-1]
    operands = [argument for argument in line[2:] if not argument.startswith("-")]
    operands = [shown.get(operand, operand) for operand in operands]
    return error_of(_renamed(text, shown), status, command, operands)


def _renamed(text: str, shown: Mapping[str, str]) -> str:
    """A line of the program with the names of its user in the place of temporary files."""
    for path, name in shown.items():
        text = text.replace(path, name)
    return text


def main() -> None:
    """The console script ``emplace``: becomes the program."""
    try:
        program = str(_program())
        try:
            os.execve(program, [program, *sys.argv[1:]], _environment())
        except OSError as error:
            raise _not_started(program, str(error.strerror)) from error
    except EmplaceError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)

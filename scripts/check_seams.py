#!/usr/bin/env python3
"""Checks that code reaches the outside world only through five seams: clock, randomness, transport, disk and processes (and
threads, whose timing acts as a clock).

    usage: scripts/check_seams.py [TREE]      (default: the repository of this script)

Reports, with file and line, sources that bypass the seams. All other code gets Clock, Rng, Context, RunWriter or ChildProcess
injected, so that the simulated world (tests/sim) can replace the real one and a seed reproduces a run. The files that implement
a seam are in scripts/seams.txt with their reasons; unused lines there are reported too. Tests and benchmarks may use anything
but sleeping.
"""

import re
import sys

import source_tree

SEAMS = {
    "clock": r"\b(?:system_clock|steady_clock|high_resolution_clock)\b|\b(?:clock_gettime|gettimeofday|timerfd_create)\s*\("
             r"|(?<![\w.>])(?:std::)?time\s*\(\s*(?:nullptr|NULL|0)\s*\)",
    "sleep": r"\bsleep_for\b|\bsleep_until\b|(?<![\w.>])(?:u|nano)?sleep\s*\(",
    "random": r"(?<![\w.>])s?rand\s*\(|\bstd::s?rand\b|\brandom_device\b|\bmt19937(?:_64)?\b|\bdefault_random_engine\b"
              r"|\brandombytes_\w+\s*\(|\bgetrandom\s*\(|\bgetentropy\s*\(|\bcrypto_(?:box|sign)_keypair\s*\(|\bzmq_curve_keypair\s*\(",
    "thread": r"\bstd::j?thread\b(?!::hardware_concurrency)|\bpthread_create\b|\bstd::async\b",
    "transport": r"#\s*include\s*<(?:zmq|sys/socket|sys/un|netinet/|arpa/|netdb|boost/(?:asio|beast))|::socket\s*\(|\bzmq::socket_t\b",
    "disk": r"\bstd::[io]?fstream\b|\bfopen\s*\(|(?<![\w>])::(?:open|openat|creat|unlink|unlinkat|rename|mkdir|rmdir|fsync|fdatasync|ftruncate|flock|statvfs|statfs)\s*\("
            r"|\bstd::filesystem::(?:create_|remove|rename|copy|resize_file|permissions|exists|is_|file_size|space|directory_iterator|recursive_|temp_)"
            r"|#\s*include\s*<(?:sqlite3|SQLiteCpp)",
    "process": r"\bposix_spawn\w*\b|#\s*include\s*<(?:boost/process|sys/pidfd|spawn\.h)|\bstd::system\s*\("
               r"|(?<![\w.>:])(?:::)?(?:kill|killpg|tgkill|fork|vfork|clone|clone3|waitpid|waitid|wait3|wait4|popen|system"
               r"|execl|execlp|execle|execv|execvp|execve|execvpe|fexecve|pidfd_\w+)\s*\(",
}
# Seams that folders outside of the programs may bypass.
OUTSIDE = {"tests": {"clock", "thread", "transport", "disk", "random", "process"}, "bench": set(SEAMS)}


def read_table(path):
    """Returns (seam, file or folder/) -> number of the line that permits it."""
    table = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        seam, colon, file = (part.strip() for part in entry.partition(":"))
        if not colon or seam not in SEAMS or not reason.strip():
            raise SystemExit(f"error: {path}:{number}: write SEAM: FILE  # reason, with one of {' '.join(SEAMS)}")
        table[seam, file] = number
    return table


def without_comments(text):
    """Returns the text with comments and strings blanked, so that words in them are not found."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group(0))
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def check(tree, table, files):
    used = set()
    for file in files:
        name = file.relative_to(tree).as_posix()
        lines = without_comments(file.read_text(errors="replace")).splitlines()
        for seam, pattern in SEAMS.items():
            if seam in OUTSIDE.get(name.split("/")[0], ()):
                continue
            for number, line in enumerate(lines, 1):
                found = re.search(pattern, line)
                if not found:
                    continue
                permits = [key for key in table if key[0] == seam and (name == key[1] or key[1].endswith("/") and name.startswith(key[1]))]
                used.update(permits)
                if not permits:
                    yield (f"{name}:{number}: uses {found.group(0).strip(' (')} ({seam}); use Clock, Rng, Context, RunWriter or ChildProcess instead, "
                           "or add the file to scripts/seams.txt with a reason")
    for key in sorted(table.keys() - used):
        yield f"scripts/seams.txt:{table[key]}: {key[1]} does not need {key[0]} any more; take the line away"


def main():
    tree = source_tree.tree_asked_for()
    table = read_table(tree / "scripts" / "seams.txt")
    files = source_tree.sources_in(source_tree.folders_of(tree))
    return source_tree.verdict(tree, files, check(tree, table, files), "every use of a seam is listed")


if __name__ == "__main__":
    sys.exit(main())

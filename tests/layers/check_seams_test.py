#!/usr/bin/env python3
"""Goal: scripts/check_seams.py reports each use of clock, randomness, threads, transport or disk that bypasses its seam.
Method: small made-up trees in a temporary folder, checked by the real script; the real tree and table by the test `seams`."""

import unittest

from made_up_tree import CheckerTest

TABLE = "clock: base/clock.cc  # the real clock\n"
SOUND = {
    "scripts/seams.txt": TABLE,
    "base/clock.h": "#pragma once\n",
    "base/clock.cc": "auto t = std::chrono::steady_clock::now();\n",
    "policy/placer.h": "#pragma once\n#include <vector>\n",
}


class CheckSeams(CheckerTest):
    SCRIPT = "check_seams.py"
    SOUND = SOUND

    @staticmethod
    def table(text):
        return {"scripts/seams.txt": text}

    def test_a_valid_tree_passes(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_reports_the_file_and_line_that_bypass_a_seam(self):
        for seam, lines in {
            "clock": ["auto t = std::chrono::system_clock::now();", "clock_gettime(CLOCK_MONOTONIC, &now);", "long t = time(nullptr);"],
            "sleep": ["std::this_thread::sleep_for(one);", "usleep(1);"],
            "random": ["int x = rand();", "int x = std::rand();", "std::random_device seed;", "std::mt19937 numbers;", "randombytes_buf(p, 8);"],
            "thread": ["std::thread other{f};", "std::jthread other{f};", "auto later = std::async(f);"],
            "transport": ["#include <zmq.hpp>", "#include <sys/socket.h>", "int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);", "zmq::socket_t socket;"],
            "disk": ["std::ofstream out{path};", "FILE* f = fopen(name, mode);", "int fd = ::open(name, O_RDONLY);", "::unlink(name);",
                     "std::filesystem::remove_all(folder);", "#include <sqlite3.h>"],
            "process": ["::kill(pid, SIGTERM);", "kill(pid, 9);", "if (fork() == 0) return;", "::waitpid(-1, &status, 0);", "auto* p = popen(line, mode);",
                        "std::system(line);", "::execvp(argv[0], argv);", "::posix_spawn(&pid, path, a, b, argv, env);", "#include <boost/process/child.hpp>"],
        }.items():
            for line in lines:
                with self.subTest(line):
                    self.refuses({"policy/draw.cc": f"// Draws.\n{line}\n"}, "policy/draw.cc:2: uses", f"({seam})")

    def test_ignores_comments_strings_and_similar_names(self):
        harmless = ('// steady_clock would do, rand() would not\n/* sleep_for(ever)\n random_device */\nconst char* text = "rand() and std::ofstream";\n'
                    'int operand(int), grand(int);\nint x = grand(1) + clock.sleep(2);\ndb = RunWriter::open(path);\nact(Kill{}); world.fork(3); child->kill(9); supervisor.system(); Rng::fork(1);\nstd::filesystem::path p;\nlog.time(now);\n')
        self.assertEqual(self.check({"policy/draw.cc": harmless}), (0, ""))

    def test_a_permit_may_cover_a_folder(self):
        changes = {"runtime/zmq/link.h": "#include <zmq.hpp>\n"}
        self.refuses(changes, "runtime/zmq/link.h:1:")
        self.assertEqual(self.check({**changes, **self.table(TABLE + "transport: runtime/zmq/  # the switch\n")}), (0, ""))

    def test_a_permit_covers_one_seam(self):
        self.refuses({"base/clock.cc": "auto t = std::chrono::steady_clock::now();\nint x = rand();\n"}, "base/clock.cc:2:", "(random)")

    def test_refuses_an_unused_permit(self):
        self.refuses(self.table(TABLE + "disk: policy/placer.h  # once\n"), "seams.txt:2:", "take the line away")

    def test_refuses_a_permit_without_a_reason(self):
        status, errors = self.check(self.table("clock: base/clock.cc\n"))
        self.assertEqual(status, 1)
        self.assertIn("# reason", errors)

    def test_tests_may_measure_but_not_sleep(self):
        self.assertEqual(self.check({"tests/a_test.cc": "auto t = std::chrono::steady_clock::now();\n"}), (0, ""))
        self.refuses({"tests/a_test.cc": "usleep(1);\n"}, "(sleep)")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Goal: scripts/check_dead.py reports what nothing uses and what only tests use, and nothing else.
Method: small made-up trees, each with one declaration too many, checked by the real script."""

import shutil
import unittest

from made_up_tree import CheckerTest

SOUND = {
    "base/clock.h": "#pragma once\nstruct Clock {\n  Clock() = default;\n  virtual long now() const = 0;\n  bool operator==(const Clock&) const;\n};\n"
                    "constexpr int kTicks = 3;\n#define EMPLACE_TICK(x) x\n",
    "base/system_clock.cc": '#include "base/clock.h"\nstruct SystemClock final : Clock {\n  long now() const override { return EMPLACE_TICK(kTicks); }\n};\n',
    "launcher/main.cc": '#include "base/clock.h"\nlong elapsed(const Clock& clock) { return clock.now(); }\nint main() {}\n',
    "tests/base/clock_test.cc": '#include "base/clock.h"\nint tested() { return probe(); }\n',
}
CLOCK = SOUND["base/clock.h"]


@unittest.skipIf(shutil.which("ctags") is None, "universal-ctags is missing")
class CheckDead(CheckerTest):
    SCRIPT = "check_dead.py"
    SOUND = SOUND

    def with_line(self, line):
        return {"base/clock.h": CLOCK + line}

    def test_a_sound_tree_passes(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_what_nothing_uses_by_its_kind(self):
        for line, kind in (("int spare();\n", "function"), ("constexpr int kSpare = 1;\n", "constant"), ("struct Spare {};\n", "type"),
                           ("using Spare = int;\n", "type"), ("enum class Spare { kA };\n", "type"), ("#define EMPLACE_SPARE 1\n", "macro"),
                           ("template <class T>\nT spare(T t) {\n  return t;\n}\n", "function")):
            name = "EMPLACE_SPARE" if kind == "macro" else "kSpare" if kind == "constant" else "Spare" if kind == "type" else "spare"
            self.refuses(self.with_line(line), "base/clock.h:", f"nothing uses the {kind} {name}; remove it")

    def test_a_method_and_a_constant_of_a_class(self):
        text = CLOCK.replace("  Clock() = default;\n", "  Clock() = default;\n  int spare() const;\n  static constexpr int kSpare = 1;\n")
        self.refuses({"base/clock.h": text}, "base/clock.h:4: nothing uses the function spare", "base/clock.h:5: nothing uses the constant kSpare")

    def test_definitions_comments_strings_and_calls_of_itself_do_not_count(self):
        self.refuses({**self.with_line("int spare(int depth);\n"),
                      "base/spare.cc": '// spare() is here.\nconst char* text = "spare(1)";\nint spare(int depth) {\n  return depth > 0 ? spare(depth - 1) : 0;\n}\n'},
                     "nothing uses the function spare")

    def test_the_members_of_a_class_do_not_use_it(self):
        self.refuses({**self.with_line("struct Spare {\n  static Spare* make();\n};\n"), "base/spare.cc": "Spare* Spare::make() { return new Spare{}; }\n"},
                     "nothing uses the type Spare", "nothing uses the function make")

    def test_a_base_of_overrides_that_nothing_calls(self):
        self.refuses({"launcher/main.cc": '#include "base/clock.h"\nint main(Clock*) {}\n'}, "base/clock.h:4: nothing uses the function now")

    def test_an_enum_counts_as_used_by_its_enumerators(self):
        self.assertEqual(self.check({**self.with_line("enum Side { kLeft, kRight };\n"), "base/side.cc": "int side() { return kLeft; }\n"}), (0, ""))

    def test_what_only_tests_use_needs_a_reason(self):
        self.refuses(self.with_line("int probe();\n"), "base/clock.h:9: only tests or benchmarks use the function probe")
        for line in ("/// Reads it. For tests: they\n/// compare.\nint probe();\n", "int probe();  // For benchmarks: they subtract it.\n"):
            self.assertEqual(self.check(self.with_line(line)), (0, ""))
        self.assertEqual(self.check({"base/clock.h": "#pragma once\n/// Clocks. For tests: all of it.\n\n" + CLOCK + "int probe();\n"}), (0, ""))

    def test_a_reason_does_not_keep_what_no_test_uses(self):
        self.refuses(self.with_line("int spare();  // For tests: they compare.\n"), "nothing uses the function spare")

    def test_an_empty_tree_is_not_taken_for_a_sound_one(self):
        status, errors = self.run_on({})
        self.assertEqual(status, 1)
        self.assertIn("no source file found", errors)


if __name__ == "__main__":
    unittest.main()

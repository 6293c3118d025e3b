#!/usr/bin/env python3
"""Goal: scripts/check_words.py finds retired words, long lines and half sentences, and reads no code as prose.
Method: small made-up trees in a temporary folder; the real tree by the test `words`."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from made_up_tree import ROOT, CheckerTest

GLOSSARY = """# Glossary

| term | meaning |
|---|---|
| clock | not the last table |

## Retired
| retired | write | permitted |
|---|---|---|
| anew | again | |
| begin, begins | start | |
| live, lives | run | live view, live bytes |
| on its way | in flight | |
"""
SOUND = {
    "docs/reference/glossary.md": GLOSSARY,
    "base/clock.h": "/// Reads the clock.\nint now();  ///< Time since the start [ns].\n",
}
WHOLE = "int a;  // Bytes of the buffer.\n"


class CheckWords(CheckerTest):
    SCRIPT = "check_words.py"
    SOUND = SOUND

    def passes(self, changes):
        self.assertEqual(self.check(changes), (0, ""))

    def test_plain_words_pass(self):
        self.passes({})

    def test_retired_words_are_found_in_comments_messages_pages_and_configs(self):
        for file, text, line in [
                ("base/a.h", "int a;\n/// Made anew.\n", 2),
                ("base/a.cc", 'int a;\nauto b = "made anew";\n', 2),
                ("base/a.cu", "/* One.\n * Made anew. */\n", 2),
                ("launcher/settings/a.cc", 'auto b = R"(One.\nMade anew.)";\n', 2),
                ("README.md", "One.\nMade anew.\n", 2),
                ("docs/guide/a.md", "| a | b |\n|---|---|\n| made anew | b |\n", 3),
                ("configs/a.toml", "a = 1\nb = 2  # Made anew.\n", 2)]:
            with self.subTest(file):
                self.refuses({file: text}, f"{file}:{line}: 'anew' is retired")

    def test_retired_words_are_found_in_names(self):
        for name in ("made_anew", "MadeAnew", "kAnew", "anew_"):
            with self.subTest(name):
                self.refuses({"base/a.h": f"int a;\nint {name};\n"}, f"base/a.h:2: the name {name} contains 'anew'")

    def test_ranges_begin_and_bytes_live_in_names(self):
        self.passes({"base/a.h": "int first_begin_, live_bytes;\nauto x = list.begin();\n"})

    def test_a_phrase_may_be_broken_over_two_lines(self):
        self.refuses({"base/a.h": "/// It is on\n/// its way.\n"}, "base/a.h:1: 'on its way' is retired")
        self.refuses({"docs/a.md": "It is on its\nway.\n"}, "docs/a.md:1: 'on its way' is retired")
        self.refuses({"base/a.cc": 'auto a = "it is on "\n         "its way";\n'}, "base/a.cc:1: 'on its way' is retired")

    def test_only_the_last_table_of_the_glossary_retires(self):
        self.passes({"docs/a.md": "The clock is a term.\n"})
        self.refuses({"docs/reference/glossary.md": GLOSSARY.replace("not the last table", "it lives")}, "glossary.md:5: 'lives' is retired")
        self.refuses({"docs/reference/glossary.md": "# Glossary\n"}, "has no table of retired words")

    def test_what_the_glossary_permits_passes(self):
        self.passes({"docs/a.md": "The live view counts live bytes.\n"})
        self.refuses({"docs/a.md": "The live view.\nActors live here.\n"}, "docs/a.md:2: 'live' is retired")

    def test_code_is_no_prose(self):
        self.passes({
            "base/a.cc": 'auto a = v.begin();  // Past `begin`.\n/// The half-open range [begin, end) of begin(v).\nint begin = k["begin"];\n'
                         'auto sql = "BEGIN IMMEDIATE";\nconst char c = \'"\';\nint n = 1\'000;\n',
            "docs/a.md": "Call `begin` or v.begin(), key \"begin\".\n\n    begin anew\n\n```\nbegin anew\n```\n",
            "tests/a_test.cc": "// Made anew.\n",
            "configs/a.toml": 'a = "begin anew"\n'})
        self.refuses({"base/a.cc": "const char c = '\"';  // Begins.\n"}, "base/a.cc:1: 'Begins' is retired")

    def test_lines_of_pages_have_at_most_120_letters(self):
        self.passes({"docs/a.md": "ü" * 120 + "\n", "docs/reference/config.md": "a" * 200 + "\n", "base/a.h": "// " + "a" * 200 + "\n"})
        for file in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guide/a.md"]:
            with self.subTest(file):
                self.refuses({file: f"One.\n{'a' * 121}\n"}, f"{file}:2: 121 letters; at most 120")

    def test_trailing_comments_are_sentences_of_their_own(self):
        for comment in ["// Of the last one.", "///< By graph.", "// Until then.", "// That it takes.", "// Then the op's own.", "// and bytes.",
                        "// Only if it runs.", "// Whose work it is."]:
            with self.subTest(comment):
                self.refuses({"base/a.h": f"int a;  {comment}\n"}, f"base/a.h:1: the trailing comment is no sentence of its own: {comment.lstrip('/< ')}")
        for comment in ["// Time of the last request [ns].", "// k = 4.", "// namespace emplace", "// at_most(3) of them.", "// NOLINT(a)"]:
            with self.subTest(comment):
                self.passes({"base/a.h": f"int a;  {comment}\n"})
        self.passes({"base/a.h": "// of its own line\nint a;\n"})

    def test_one_fragment_of_a_hundred_trailing_comments_is_permitted(self):
        self.passes({"base/a.h": 99 * WHOLE + "int b;  // Of a.\n"})
        self.refuses({"base/a.h": 98 * WHOLE + 2 * "int b;  // Of a.\n"}, "base/a.h:99:", "base/a.h:100:", "2 of 101 trailing comments (2.0 %)")

    def test_at_most_twenty_fragments_are_listed(self):
        status, errors = self.check({"base/a.h": 30 * "int b;  // Of a.\n"})
        self.assertEqual((status, errors.count("no sentence of its own")), (1, 20))

    def test_count_reports_kinds_per_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**SOUND, "docs/a.md": "Anew, anew.\n" + "a" * 121 + "\n", "base/a.h": "int a;  // Of b.\n"}.items():
                (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / name).write_text(text)
            done = subprocess.run([sys.executable, str(ROOT / "scripts" / self.SCRIPT), "--count", folder], capture_output=True, text=True)
        rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
        self.assertEqual((done.returncode, rows["docs"], rows["base"]), (1, ["2", "0", "1", "0"], ["0", "0", "0", "1"]))

    def test_a_tree_without_a_glossary_fails(self):
        status, errors = self.run_on({"README.md": "One.\n"})
        self.assertEqual(status, 1)
        self.assertIn("has no table of retired words", errors)


if __name__ == "__main__":
    unittest.main()

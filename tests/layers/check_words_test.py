#!/usr/bin/env python3
"""Goal: scripts/check_words.py reports retired words, long lines and half sentences, and reads no code as prose.
Method: small made-up trees in a temporary folder, with a glossary of their own; the real tree by the test `words`."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from made_up_tree import ROOT, CheckerTest

IN_NAMES = ("begin", "live")  # Retired, but permitted in names.
GLOSSARY = f"""# Glossary

| term | meaning |
|---|---|
| clock | not the last table |

## Retired
| retired | write | permitted |
|---|---|---|
| afresh | again | |
| commence, commences, {', '.join(IN_NAMES)} | start | |
| dwell, dwells | run | dwell time |
| in due course, is {'none'} | later | |
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
                ("base/a.h", "int a;\n/// Made afresh.\n", 2),
                ("base/a.cc", 'int a;\nauto b = "made afresh";\n', 2),
                ("base/a.cu", "/* One.\n * Made afresh. */\n", 2),
                ("launcher/settings/a.cc", 'auto b = R"(One.\nMade afresh.)";\n', 2),
                ("README.md", "One.\nMade afresh.\n", 2),
                ("docs/guide/a.md", "| a | b |\n|---|---|\n| made afresh | b |\n", 3),
                ("configs/a.toml", "a = 1\nb = 2  # Made afresh.\n", 2),
                ("tests/base/a_test.cc", "int a;\n// Made afresh.\n", 2),
                ("bench/a.cc", "int a;\n// Made afresh.\n", 2)]:
            with self.subTest(file):
                self.refuses({file: text}, f"{file}:{line}: 'afresh' is retired")

    def test_retired_words_are_found_in_names(self):
        for name in ("made_afresh", "MadeAfresh", "kAfresh", "afresh_"):
            with self.subTest(name):
                self.refuses({"base/a.h": f"int a;\nint {name};\n"}, f"base/a.h:2: the name {name} contains 'afresh'")

    def test_ranges_begin_and_bytes_live_in_names(self):
        self.passes({"base/a.h": "int first_begin_, live_bytes;\nauto x = list.begin();\n"})

    def test_a_phrase_may_be_broken_over_two_lines(self):
        self.refuses({"base/a.h": "/// It is in\n/// due course.\n"}, "base/a.h:1: 'in due course' is retired")
        self.refuses({"docs/a.md": "It is in due\ncourse.\n"}, "docs/a.md:1: 'in due course' is retired")
        self.refuses({"base/a.cc": 'auto a = "it is in "\n         "due course";\n'}, "base/a.cc:1: 'in due course' is retired")

    def test_only_the_last_table_of_the_glossary_retires(self):
        self.passes({"docs/a.md": "The clock is a term.\n"})
        self.refuses({"docs/reference/glossary.md": GLOSSARY.replace("not the last table", "it dwells")}, "glossary.md:5: 'dwells' is retired")
        self.refuses({"docs/reference/glossary.md": "# Glossary\n"}, "has no table of retired words")

    def test_what_the_glossary_permits_passes(self):
        self.passes({"docs/a.md": "The dwell time.\n"})
        self.refuses({"docs/a.md": "The dwell time.\nActors dwell here.\n"}, "docs/a.md:2: 'dwell' is retired")

    def test_code_is_no_prose(self):
        self.passes({
            "base/a.cc": 'auto a = v.start();  // Past `commence`, of v.commence().\n/// The half-open range [commence, end) of commence(v).\n'
                         'int a = k["commence"];\nauto sql = "COMMENCE IMMEDIATE";\nconst char c = \'"\';\nint n = 1\'000;\n',
            "docs/a.md": "Call `commence` or v.commence(), key \"commence\" or 'commence'.\n\n    commence afresh\n\n```\ncommence afresh\n```\n",
            "configs/a.toml": 'a = "commence afresh"\n'})
        self.refuses({"base/a.cc": "const char c = '\"';  // Commences.\n"}, "base/a.cc:1: 'Commences' is retired")

    def test_fixtures_and_third_party_files_are_not_read(self):
        self.passes({f"tests/{folder}/a.cc": "// Made afresh.\n" for folder in ("fixtures", "fuzz/corpus", "third_party/b")})

    def test_python_is_read_as_python(self):
        for text in ['"""One.\n\nMade afresh."""\n', 'a = 1\n\nb = 2  # Made afresh.\n', 'a = (1,\n     2,\n     "made afresh")\n',
                     "a = 1\nb = 2\nc = f'{a}: made afresh {b:{a}}'\n", "a = 1\nc = 'it is ' \\\n    'made afresh'\n"]:
            with self.subTest(text):
                self.refuses({"python/a.py": text}, "python/a.py:3: 'afresh' is retired")
        self.passes({"scripts/a.py": "a = ['afresh', f\"is it {b['afresh'] + afresh} now?\", r'made afresh', 'it is None', 'one # two']\n"
                                     "c = a.afresh(afresh=1)\n"})

    def test_names_that_python_code_binds_are_read(self):
        for text, name in [("def made_afresh(): pass", "made_afresh"), ("class Afresh: pass", "Afresh"), ("def f(a, *, afresh=1): pass", "afresh"),
                           ("a, afresh = 1, 2", "afresh"), ("a.made_afresh = 1", "made_afresh"), ("import b as afresh", "afresh"),
                           ("for afresh in a: pass", "afresh"), ("a = lambda afresh: 1", "afresh"), ("class A:\n    afresh: int", "afresh")]:
            with self.subTest(text):
                self.refuses({"tests/a.py": text + "\n"}, f"the name {name} contains 'afresh'")
        self.passes({"tests/a.py": "import afresh\nfirst_begin = afresh.commence(afresh=1)\n"})

    def test_shell_scripts_are_read(self):
        for text in ["# Made afresh.\n", "a=1 # Made afresh.\n", 'echo "It is made afresh: $a" >&2\n', "fail 'made afresh'\n",
                     "cat <<END || fail 'made afresh'\nEND\n"]:
            with self.subTest(text):
                self.refuses({"scripts/a.sh": "a=0\n" + text}, "scripts/a.sh:2: 'afresh' is retired")
        self.passes({"scripts/a.sh": 'afresh=${#afresh} # One.\nb="$(commence "$afresh") and ${afresh} $afresh"\n'
                                     "cat <<'END'\nmade afresh # afresh\nEND\n"})

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
        for file in ("tests/a.py", "tests/a.sh"):
            with self.subTest(file):
                self.refuses({file: "a=1  # of the last one\n"}, f"{file}:1: the trailing comment is no sentence of its own: of the last one")
                self.passes({file: "# of its own line\na=1  # noqa: F401\n"})

    def test_one_fragment_of_a_hundred_trailing_comments_is_permitted(self):
        self.passes({"base/a.h": 99 * WHOLE + "int b;  // Of a.\n"})
        self.refuses({"base/a.h": 98 * WHOLE + 2 * "int b;  // Of a.\n"}, "base/a.h:99:", "base/a.h:100:", "2 of 101 trailing comments (2.0 %)")

    def test_at_most_twenty_fragments_are_listed(self):
        status, errors = self.check({"base/a.h": 30 * "int b;  // Of a.\n"})
        self.assertEqual((status, errors.count("no sentence of its own")), (1, 20))

    def test_count_reports_kinds_per_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**SOUND, "docs/a.md": "Afresh, afresh.\n" + "a" * 121 + "\n", "base/a.h": "int a;  // Of b.\n"}.items():
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

#!/usr/bin/env python3
"""Goal: scripts/check_docs.py reports each name in the documents that does not exist, with file and line.
Method: small made-up trees in a temporary folder; the real documents by the test `docs`."""

import unittest

from made_up_tree import CheckerTest

HEAD = "# Guarantees\n\n| # | promise | test |\n|---|---|---|\n"
SOUND = {
    "record/store/schema.cc": 'CREATE TABLE runs(seed INTEGER, "update" TEXT);\n',
    "tests/run_test.cc": "class Witness {};\nTEST(Run, EndsWell) {\n}\nTEST_F(Door, StaysShut) {\n}\n",
    "tests/swarm.cc": 'FaultFact{Fault::kHeadCrash, "head-crash", true, ""},\n',
    "docs/proofs/guarantees.md": HEAD + "| G1 | `anything` | `Run.EndsWell`, `EndsW…`, `Door.*` in `tests/run_test.cc`; `head-crash`, `Witness` |\n",
    "docs/reference/run_database.md": "| table | a row is | columns |\n|---|---|---|\n| `runs` | a run | seed (of it, once), update |\n",
}


class CheckDocs(CheckerTest):
    SCRIPT = "check_docs.py"
    SOUND = SOUND

    def test_valid_documents_pass(self):
        self.assertEqual(self.check({}), (0, ""))

    def test_reports_names_that_do_not_exist(self):
        for word in ["Run.EndsBadly", "EndsBadly", "Endless…", "Window.*", "Door.EndsWell", "tests/walk_test.cc", "tail-crash", "Observer"]:
            with self.subTest(word):
                self.refuses({"docs/proofs/guarantees.md": f"{HEAD}| G1 | it holds | `EndsWell`, `{word}` |\n"}, "docs/proofs/guarantees.md:5:", f"`{word}`")

    def test_columns_match_the_schema_in_order(self):
        head = "| table | a row is | columns |\n|---|---|---|\n"
        for columns in ["seed", "update, seed", "seed, update, host"]:
            with self.subTest(columns):
                self.refuses({"docs/reference/run_database.md": f"{head}| `runs` | a run | {columns} |\n"}, "docs/reference/run_database.md:3: runs")
        self.assertEqual(self.check({"docs/reference/run_database.md": f"{head}| `runs` | a run | seed, |\n| | | update |\n"}), (0, ""))
        self.refuses({"docs/reference/run_database.md": f"{head}| `runs` | a run | seed, |\n| | | host |\n"}, "docs/reference/run_database.md:3: runs")
        self.refuses({"docs/reference/run_database.md": head}, "runs has the columns seed, update")
        added = {"record/store/schema.cc": SOUND["record/store/schema.cc"] + '    {"runs", "host TEXT,port INTEGER"},\n'}
        self.refuses(added, "runs has the columns seed, update, host, port")
        self.refuses({"record/store/schema.cc": ""}, "runs has the columns of no table")


if __name__ == "__main__":
    unittest.main()

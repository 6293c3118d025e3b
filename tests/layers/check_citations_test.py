#!/usr/bin/env python3
"""Goal: scripts/check_citations.py reports tags without an entry, entries without a citation, places that a paper lacks.
Method: small made-up trees in a temporary folder; the real sources and pages by the test `citations`."""

import re
import unittest

from made_up_tree import CheckerTest

PAGE = "docs/reference/equations.md"
TABLE = """
## What the papers have

| paper | sections | equations | tables | figures | algorithms |
|---|---|---|---|---|---|
| ColocRL 2017 | 1–5, 3.1–3.4, 4.1–4.5 | 1–3 | 1–2 | 1–9 | |
| Spotlight 2018 | 1–7, 3.1–3.5 | 1–15 | 1 | 1–6 | 1 |
"""
ENTRIES = """# Equations

**COL-3** (ColocRL 2017, 3.1, Eqs. 2–3)
- Rule: a sum.
- Code: `policy/loss`, `policy/loss.cc`
- Test: `tests/policy/loss_test.cc` (`Loss.IsASum`), `other_test.cc`

**SPO-B** (Spotlight 2018, 3.1, Eq. 1)
- Rule: a mean.
- Departure: none
  in particular.
- Code: `policy/loss`
- Test: `tests/policy/loss_test.cc`

**SWEEP** (Kool 2019, a title)
- Rule: ours.
- Code: `policy/loss`
- Test: `tests/policy/loss_test.cc`
"""
SOURCE = """/// A sum.   Paper: ColocRL 2017, section
/// 3.1, Eq. 3  [COL-3]; Spotlight 2018, Eq. 1
/// [SPO-B] (a mean)
/// Another.   [SWEEP]
"""
SOUND = {
    PAGE: ENTRIES + TABLE,
    "policy/loss.h": SOURCE,
    "policy/loss.cc": "// Numbers that are no citation: int a[3]; Placement, 4.7; [A-Z], [0-9].\n",
    "tests/policy/loss_test.cc": "TEST(Loss, IsASum) {\n}\n",
    "tests/policy/other_test.cc": "",
    "configs/papers/spotlight/cnn.toml": "# The numbers of the paper (sections 3 to 5), step (Eq. 15).\nrate = 9.9\n",
    "docs/results.md": "# ColocRL, table 2\nSpotlight 2018, 5; it took ColocRL 7.1 s, Spotlight, 9 hours.\n",
    "README.md": "Spotlight's KL-penalised objective (Eq. 15).\n",
}


class CheckCitations(CheckerTest):
    SCRIPT = "check_citations.py"
    SOUND = SOUND

    def source(self, line):
        """The sound source with a sixth line."""
        return {"policy/loss.h": f"{SOURCE}\n// {line}\n"}

    def test_valid_citations_pass(self):
        self.assertEqual(self.check({}), (0, ""))
        for line in ["ColocRL 2017, sections 3.1 and 4.2", "ColocRL 2017, section 4.1, table 1", "[COL-3]",
                     "ColocRL 2017, section 3.1, table 2 [COL-3]", "Spotlight 2018, algorithm 1",
                     "Spotlight 2018, Eqs. 1–15", "Paper: Other 2020, section 9", "Paper: 5."]:
            with self.subTest(line):
                self.assertEqual(self.check(self.source(line)), (0, ""))

    def test_a_tag_needs_an_entry(self):
        for tag in ["COL-4", "COL-B", "XYZ-1"]:
            with self.subTest(tag):
                self.refuses(self.source(f"A rule.  [{tag}]"), "policy/loss.h:6:", f"[{tag}] has no entry")
        self.refuses({"docs/results.md": "As [COL-4] has it.\n"}, "docs/results.md:1:", "[COL-4]")
        self.refuses({"tests/policy/other_test.cc": "\n// [SPO-9]\n"}, "tests/policy/other_test.cc:2:", "[SPO-9]")

    def test_an_entry_needs_a_source_that_cites_it(self):
        self.refuses({"policy/loss.h": SOURCE.replace("[SWEEP]", "")}, f"{PAGE}:15:", "no source cites [SWEEP]")
        # A page or a test is not a source.
        elsewhere = {"docs/results.md": "[SPO-B]\n", "tests/policy/other_test.cc": "// [SPO-B]\n"}
        self.refuses({"policy/loss.h": SOURCE.replace("[SPO-B]", ""), **elsewhere},
                     f"{PAGE}:8:", "no source cites [SPO-B]")

    def test_refuses_a_place_that_the_paper_lacks(self):
        for cited, missing in [("ColocRL 2017, Eq. 4", "equation 4"),
                               ("ColocRL 2017, section 3.5", "section 3.5"),
                               ("ColocRL 2017, 4.6", "section 4.6"),
                               ("ColocRL 2017, section 3.1, Eq. 9", "equation 9"),
                               ("ColocRL, table 3", "table 3"),
                               ("ColocRL 2017, figure 10", "figure 10"),
                               ("ColocRL 2017, algorithm 1", "algorithm 1"),
                               ("ColocRL 2017, section 3.1 and appendix A.1", "appendix A.1"),
                               ("Spotlight 2018, sections 3.1 and 4.1", "section 4.1"),
                               ("Spotlight 2018, Eqs. 14–16", "equation 16"),
                               ("Spotlight 2018, algorithm 2", "algorithm 2"),
                               ("Spotlight 2018 (section 8)", "section 8"),
                               ("Spotlight's objective (Eq. 16)", "equation 16"),
                               ("Spotlight 2018, appendix", "appendix")]:
            with self.subTest(cited):
                status, errors = self.check({**self.source(cited), "docs/results.md": f"# A page\n\n- First\n  {cited}.\n"})
                found = re.findall(rf"^error: (.*?): .* has no {re.escape(missing)}", errors, re.M)
                self.assertEqual((status, found), (1, ["policy/loss.h:6", "docs/results.md:4"]), errors)

    def test_a_citation_may_cross_lines(self):
        wrapped = "/// Paper: ColocRL\n/// 2017, section 3.2,\n/// Eq. 4\n"
        self.refuses({"policy/loss.h": SOURCE + wrapped}, "policy/loss.h:5:", "equation 4")

    def test_refuses_another_year_than_that_of_the_paper(self):
        self.refuses(self.source("Spotlight 2019, section 3"), "policy/loss.h:6:", "Spotlight is of 2018, not 2019")

    def test_a_citation_needs_a_place(self):
        for line in ["Paper: ColocRL 2017.", "Papers: ColocRL 2017, after it", "Paper: Spotlight 2018, chapter 3"]:
            with self.subTest(line):
                self.refuses(self.source(line), "policy/loss.h:6:", "without a section")

    def test_configs_of_a_paper_cite_it(self):
        for cited in ["section 8", "sections 3 to 8", "Eq. 16"]:
            with self.subTest(cited):
                config = {"configs/papers/spotlight/cnn.toml": f"# The paper's numbers\n# ({cited}).\n"}
                self.refuses(config, "configs/papers/spotlight/cnn.toml:2: Spotlight 2018 has no")
        self.assertEqual(self.check({"configs/other/cnn.toml": "# Section 99.\n"}), (0, ""))

    def test_a_citation_of_a_tag_matches_its_entry(self):
        for line, words in [("Spotlight 2018, section 3.1 [COL-3]", "[COL-3] is an entry of ColocRL, not of Spotlight"),
                            ("ColocRL 2017, section 3.2 [COL-3]", "[COL-3] is an entry of section 3.1, not 3.2"),
                            ("ColocRL 2017, Eq. 1 (there) [COL-3]", "[COL-3] is an entry of equation 2, 3, not 1"),
                            ("ColocRL 2017, Eq. 3 [COL-3] [SPO-B]", "[SPO-B] is an entry of Spotlight, not of ColocRL"),
                            ("Spotlight 2018, Eq. 1 [SWEEP]", "[SWEEP] is an entry of another paper, not of")]:
            with self.subTest(line):
                self.refuses(self.source(line), "policy/loss.h:6:", words)

    def test_an_entry_needs_a_place(self):
        page = ENTRIES.replace("3.1, Eqs. 2–3", "3.1, Eqs. 2–4") + TABLE
        self.refuses({PAGE: page}, f"{PAGE}:3:", "has no equation 4")

    def test_code_and_tests_of_an_entry_exist(self):
        for old, new, words in [("`policy/loss.cc`", "`policy/lost.cc`", "COL-3 names `policy/lost.cc`"),
                                ("`Loss.IsASum`", "`Loss.IsNoSum`", "COL-3 names the test `Loss.IsNoSum`"),
                                ("`other_test.cc`", "`another_test.cc`", "COL-3 names `another_test.cc`"),
                                ("- Test: `tests/policy/loss_test.cc`\n\n**SWEEP", "\n**SWEEP", "SPO-B names no test"),
                                ("- Code: `policy/loss`, `policy/loss.cc`", "- Code: some", "COL-3 names no file")]:
            with self.subTest(new):
                self.assertIn(old, ENTRIES)
                self.refuses({PAGE: ENTRIES.replace(old, new) + TABLE}, PAGE, words)

    def test_refuses_a_page_without_the_table(self):
        self.refuses({PAGE: ENTRIES}, "no table whose first column is paper")
        self.refuses({PAGE: ENTRIES + TABLE.replace("| figures ", "| pictures ")}, "the columns are paper, sections")

    def test_an_empty_tree_is_refused(self):
        status, errors = self.run_on({PAGE: ENTRIES + TABLE})
        self.assertEqual(status, 1)
        self.assertIn("no source file found", errors)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Goal: scripts/check_docs.py reports each name in the documents that does not exist, and each advice to install the package by a name
of PyPI, with file and line.
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

    def test_advice_names_no_package_of_ours_on_pypi(self):
        commands = [
            "pip install NAME", "see pip install NAME.", "pip3 install -U NAME==0.1", "python -m pip install 'NAME[torch]' numpy", "pip install torch NAME",
            "pip install --upgrade torch \\\n    NAME", "RUN pip install --no-cache-dir \\\n  torch \\\n  NAME", "uv add NAME", "uv pip install NAME",
            "uv run --with NAME python", "uvx NAME place", "pipx run NAME", "%pip install -q NAME", '["pip", "install", "NAME"]', '"cure: pip install "\n    "NAME torch"',
            "`pip install\nNAME`", "# `pip install\n# NAME`", "conda install -c forge NAME", "poetry add NAME>=0.1", "(pip install NAME)", '\'{"pip": ["NAME"]}\'',
            '"{\\"pip\\": [\\"NAME\\"]}"', '{"pip": {"packages": ["torch", "NAME[ray]"]}}', 'dependencies = [\n  "numpy",\n  "NAME",\n]']
        names = ["emplace", "emplace-placement", "emplace_placement", "Emplace"]
        pages = {f"docs/{number}-{name}.md": command.replace("NAME", name) for number, command in enumerate(commands) for name in names}
        files = ["launcher/a.cc", "python/b.py", "python/tour.ipynb", "Dockerfile", "configs/c.toml", ".ci/run", "README.md"]
        others = {file: f"\n{commands[0].replace('NAME', 'emplace')}\n" for file in files}
        lists = {"requirements-dev.txt": "\n" + "emplace[torch]>=0.1\n", "environment.yml": "dependencies:\n  - " + "emplace\n"}
        status, errors = self.check({**pages, **others, **lists})
        self.assertEqual(status, 1)
        for file in pages:
            self.assertIn(f"error: {file}:", errors, pages[file])
        for file in [*others, *lists]:
            self.assertIn(f"error: {file}:2: installs the package by a name", errors)
        self.refuses({"python/a.py": f"m.version('{'emplace'}')\n"}, "python/a.py:1: asks for the distribution")

    def test_advice_of_a_wheel_and_of_other_packages_passes(self):
        texts = [
            "pip install 'PATH/emplace_placement-….whl[torch]'", "pip install python/dist/emplace_*.whl", "pip install emplace_placement-0.1.0-py3-none-any.whl",
            "pip uninstall emplace", "pip install torch msgpack\nemplace doctor", "`pip install` of the wheel of emplace", "pip install torch; emplace doctor",
            "pip install 'ray>=2.9', or name a Python that emplace finds", "uv run emplace place",
            "pip install 'emplace-placement @ file:///tmp/x.whl'",
            'dependencies = ["numpy"]\n\n[project.scripts]\nemplace = "emplace.program:main"', 'packages = ["emplace"]', 'm.version("emplace-placement")']
        pages = {f"docs/{number}.md": text for number, text in enumerate(texts)}
        install = "pip install"  # Apart from the name: the checker reads this file, too.
        lists = {"requirements.txt": "torch==2.15.0\nonnx\n", "tests/fixtures/a.txt": f"{install} emplace"}
        self.assertEqual(self.check({**pages, **lists}), (0, ""))


if __name__ == "__main__":
    unittest.main()

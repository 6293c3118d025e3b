"""Goal: sampler and learner of a learned run may both come from outside; a killed learner continues with the
same bits. Method: runs of the real program with its tracker, recorder and executors; one process is
killed again and again.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from heads import config, head, python, wait_for

POLICY = '[[node]]\nname = "policy"\nroles = ["sampler", "learner"]\nstart = "join"\n'
PROGRAM = str(Path(__file__).parent / "learning_policy.py")


def rows(folder: Path, query: str) -> list[Any]:
    try:
        with sqlite3.connect(f"file:{folder}/run/run.db?mode=ro", uri=True) as db:
            return db.execute(query).fetchall()
    except sqlite3.Error:
        return []  # Not made yet.


def updates(folder: Path) -> int:
    return len(rows(folder, 'SELECT "update" FROM updates'))


def test_every_episode_is_learned_from_once_though_the_learner_is_killed(tmp_path: Path) -> None:
    settings = config(method="hierarchical", episodes=50).replace(
        "[policy]", "[record]\ncheckpoint_every = 7\n[policy]"
    )
    with head(tmp_path, settings, POLICY) as run:
        process = python(PROGRAM, run.endpoint)
        for enough in (10, 25):
            wait_for(lambda: updates(tmp_path) >= enough)
            process.kill()
            process.wait()
            process = python(PROGRAM, run.endpoint)
        found = run.result()
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, "the run is over\n"), err
    consumed = [
        str(row[0]) for row in rows(tmp_path, "SELECT episodes FROM updates")
    ]  # Updates of one episode each.
    episodes = [str(row[0]) for row in rows(tmp_path, "SELECT episode FROM episodes")]
    assert len(set(consumed)) == len(consumed) == found["updates"] and set(consumed) <= set(episodes)
    assert len(episodes) - len(consumed) <= 8 and len(consumed) >= 50
    taken = dict(rows(tmp_path, 'SELECT "update", sha256 FROM checkpoints'))
    made = dict(rows(tmp_path, 'SELECT "update", parameters_sha256 FROM updates'))
    assert 0 in taken and len(taken) >= 3 and all(made[update] == taken[update] for update in taken if update)

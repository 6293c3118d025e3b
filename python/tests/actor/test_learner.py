"""Goal: sampler and learner of a learned run may both come from outside; a killed learner continues with the
same bits. Method: runs of the real program with its tracker, recorder and executors; one process is
killed again and again. Recorded updates of two episodes, taken apart.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from heads import config, head, python, wait_for

from emplace.actor.learner import batch_of
from emplace.errors import EmplaceError
from emplace.wire.messages import UpdateReplayed

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


def recorded(advantages: list[float]) -> UpdateReplayed:
    return UpdateReplayed(
        update=7,
        episodes=np.array([1, 2], np.uint64),
        sizes=np.array([2, 3], np.uint64),
        counts=np.array([2, 3], np.uint32),
        advantages=np.array(advantages, np.float32),
    )


@pytest.mark.parametrize(
    ("advantages", "first", "second"),
    [([1, 2, 3, 4, 5], [1, 2], [3, 4, 5]), ([1, 3, 4], [1], [3, 4])],
    ids=["every placement was drawn", "one of each episode was not"],
)
def test_an_episode_of_a_recorded_update_has_its_own_advantages(
    advantages: list[float], first: list[float], second: list[float]
) -> None:
    batch = batch_of(recorded(advantages), b"abcde")
    found = [(scored.actions, scored.advantages.tolist()) for scored in batch]
    assert found == [(b"ab", first), (b"cde", second)]


@pytest.mark.parametrize("advantages", [[1, 2], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]])
def test_a_recorded_update_without_an_advantage_per_choice_is_refused(advantages: list[float]) -> None:
    with pytest.raises(EmplaceError, match="update 7: is incomplete"):
        batch_of(recorded(advantages), b"abcde")

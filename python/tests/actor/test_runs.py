"""Goal: an actor in Python takes part in a run of the real program as one in C++ does. Method: small runs on
loopback whose only executor, or whose sampler, is Python; some are killed, refused, or stopped. The
program's own count decides: nothing lost, nothing counted twice, and its leases balance.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from heads import ELSEWHERE, EXAMPLES, ROOT, config, head, program, python, wait_for

import emplace.actor as ea
from emplace.wire import frames

SLOW = str(Path(__file__).parent / "slow_executor.py")
MEASURE = ELSEWHERE.format(name="measure", role="executor")
POLICY = ELSEWHERE.format(name="policy", role="sampler")


def counts(folder: Path) -> tuple[int, int]:
    """Placements on disk, and how many of their ids are different."""
    import sqlite3

    with sqlite3.connect(f"file:{folder}/run/run.db?mode=ro", uri=True) as db:
        total, different = db.execute(
            "SELECT count(*), count(DISTINCT placement_id) FROM measurements"
        ).fetchone()
    return int(total), int(different)


def test_a_python_executor_does_a_whole_run(tmp_path: Path) -> None:
    with head(tmp_path, config(episodes=300), MEASURE) as run:
        worker = python(str(EXAMPLES / "actor_executor.py"), run.endpoint, "--insecure", "--count", "2")
        found = run.result()
        out, err = worker.communicate(timeout=10)
        assert (worker.returncode, out, err) == (0, "left: the run is over\n", "")
    assert found["measurements"] >= 1200 and found["refused_results"] == 0
    assert found["leases"]["expired"] == 0
    total, different = counts(tmp_path)
    assert total == different == found["measurements"]
    assert "lost" not in run.logged()


def test_down_in_the_first_of_two_starts_ends_an_executor_at_once(tmp_path: Path) -> None:
    two = config(episodes=1_000_000).replace(
        "seed = 1", 'seed = 1\nstarts = ["scratch", "best-heuristic"]', 1
    )
    with head(tmp_path, two, MEASURE) as run:
        worker = python(SLOW, run.endpoint, "0.005", str(tmp_path / "cache"))
        wait_for(lambda: progressed(tmp_path))
        subprocess.run([program(), "down", run.endpoint, "--insecure"], check=True, capture_output=True)
        found = run.result()
        ended = time.monotonic()
        assert worker.communicate(timeout=20)[0] == "the run is over\n" and worker.returncode == 0
        took = time.monotonic() - ended
    assert len(found["starts"]) == 1
    # Takes milliseconds on an idle machine. An executor that waits for another start waits 10 s.
    assert took < 5, f"{took:.2f} s"


def test_a_run_survives_a_killed_executor_and_counts_nothing_twice(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    with head(tmp_path, config(episodes=40), MEASURE) as run:
        first = python(SLOW, run.endpoint, "0.02", cache)
        wait_for(lambda: progressed(tmp_path))
        first.kill()  # In the middle of a lease: it always has one.
        first.wait()
        second = python(SLOW, run.endpoint, "0", cache)
        found = run.result(killed=True)
        assert second.wait(10) == 0
    assert found["leases"]["expired"] + found["leases"]["refused"] >= 1
    total, different = counts(tmp_path)
    assert total == different == found["measurements"] == 160


def progressed(folder: Path) -> bool:
    try:
        return counts(folder)[0] >= 8
    except Exception:  # Not made yet.
        return False


def test_a_lease_that_takes_longer_than_three_heartbeats_is_kept(tmp_path: Path) -> None:
    with head(tmp_path, config(episodes=1), MEASURE) as run:
        worker = python(SLOW, run.endpoint, "0.45", str(tmp_path / "cache"))  # Four placements.
        found = run.result()
        assert worker.wait(15) == 0
    assert found["leases"]["expired"] == found["refused_results"] == 0 and found["measurements"] >= 4


def test_an_executor_that_is_asked_to_end_returns_its_work(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    with head(tmp_path, config(episodes=40), MEASURE) as run:
        first = subprocess.Popen(
            [sys.executable, SLOW, run.endpoint, "0.02", cache],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: progressed(tmp_path))
        first.send_signal(signal.SIGTERM)
        assert first.communicate(timeout=10)[0] == "SIGTERM\n" and first.returncode == 0
        second = python(SLOW, run.endpoint, "0", cache)
        found = run.result()
        assert second.wait(10) == 0
    assert found["leases"]["expired"] == 0 and found["leases"]["refused"] >= 1
    assert "left: the node stops" in run.logged()


def test_a_stopped_executor_joins_again_as_a_new_incarnation(tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    with head(tmp_path, config(episodes=16), MEASURE) as run:
        first = subprocess.Popen(
            [sys.executable, SLOW, run.endpoint, "0.01", cache],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: progressed(tmp_path))
        first.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "silent for three heartbeats" in run.logged())
        finally:
            first.send_signal(signal.SIGCONT)
        found = run.result(killed=True)
        assert first.communicate(timeout=10)[0] == "the run is over\n"
    assert found["leases"]["expired"] >= 1
    total, different = counts(tmp_path)
    assert total == different == found["measurements"] == 64


def test_a_policy_in_python_learns_from_executors_of_the_program(tmp_path: Path) -> None:
    graph = "rnnlm-bs4-hidden512-steps10.json.gz"
    with head(tmp_path, config(graph, executors=2, episodes=200), POLICY) as run:
        policy = python(str(EXAMPLES / "actor_policy.py"), run.endpoint, "--insecure")
        found = run.result()
        out, err = policy.communicate(timeout=10)
        assert policy.returncode == 0, err
    words = out.split()
    first, last = float(words[words.index("time") + 1]), float(words[words.index("first,") + 1])
    assert last < 0.8 * first, out
    assert found["episodes"] >= 200
    total, different = counts(tmp_path)
    assert total == different == found["measurements"]


def test_a_killed_policy_continues_where_the_record_ends(tmp_path: Path) -> None:
    with head(tmp_path, config(executors=1, episodes=150), POLICY) as run:
        first = python(str(EXAMPLES / "actor_policy.py"), run.endpoint, "--insecure", "--numpy")
        wait_for(lambda: progressed(tmp_path))
        first.kill()
        first.wait()
        second = python(str(EXAMPLES / "actor_policy.py"), run.endpoint, "--insecure", "--numpy")
        found = run.result()
        out, err = second.communicate(timeout=10)
        assert second.returncode == 0, err
    total, different = counts(tmp_path)
    assert total == different == found["measurements"] == 8 * found["episodes"]
    assert int(out.split(";")[1].split()[0]) >= 150, "it relearns what an earlier process had proposed"


def test_a_file_is_fetched_in_pieces_and_an_interrupted_or_damaged_transfer_ends_well(tmp_path: Path) -> None:
    import gzip

    large = tmp_path / "large.json"
    source = ROOT / "configs" / "graphs" / "nmt-2layer-bs64.json.gz"
    large.write_bytes(gzip.decompress(source.read_bytes()))
    assert large.stat().st_size > 2 << 20
    digest = hashlib.sha256(large.read_bytes()).hexdigest()
    with head(tmp_path, config(str(large), episodes=1_000_000), MEASURE) as run:
        for kept in (b"", large.read_bytes()[: (1 << 20) + 17], b"x" * 1000, b"x" * (1 << 25)):
            cache = tmp_path / f"cache-{len(kept)}"
            (cache / "files").mkdir(parents=True)
            (cache / "files" / f"{digest}.part").write_bytes(kept)
            fetched = ea.fetch(run.endpoint, insecure=True, cache=cache)
            assert (cache / "files" / digest).read_bytes() == large.read_bytes()
            assert not list((cache / "files").glob("*.part*"))
        ops = inspected(large)
        assert fetched.graphs[0].sha256 == ops["graph_sha256"] and fetched.graphs[0].num_ops == ops["ops"]
        assert fetched.devices == ["cpu:0", "gpu:0", "gpu:1"] and not fetched.learns


def inspected(graph: Path) -> dict[str, object]:
    import json

    out = subprocess.run([program(), "inspect", str(graph), "--json"], check=True, capture_output=True).stdout
    found: dict[str, object] = json.loads(out)
    return found


def test_keys_are_those_of_keygen_and_a_wrong_one_is_refused_in_one_line(tmp_path: Path) -> None:
    def keygen(*arguments: str) -> None:
        subprocess.run([program(), "keygen", *arguments], check=True, capture_output=True, cwd=tmp_path)

    keygen("keys")
    keygen("keys", "--role", "executor", "--name", "rack7")
    keygen("other")
    keys = tmp_path / "keys"
    with head(tmp_path, config(episodes=60), MEASURE, keys / "head.key") as run:
        (tmp_path / "stranger.key").write_text(
            (tmp_path / "other" / "head.key").read_text()
            + f'head = "{ea.load_keys(keys / "head.key").public}"\n'
        )
        os.chmod(tmp_path / "stranger.key", 0o600)
        cache = tmp_path / "cache"
        for key, cure in (
            (tmp_path / "stranger.key", "the head refuses this key; is it in its allow-list?"),
            (tmp_path / "other" / "head.key", "is the head's public key the right one"),
        ):
            with pytest.raises(ea.EmplaceError) as refused:
                ea.fetch(run.endpoint, key, cache=cache, patience=0.5)
            assert cure in str(refused.value) and "\n" not in str(refused.value)
            assert refused.value.where == run.endpoint
        with pytest.raises(ea.EmplaceError, match="no message from the head for 0.5 s"):
            ea.fetch(run.endpoint, insecure=True, cache=cache, patience=0.5)
        with pytest.raises(
            ea.EmplaceError, match="the head refused: no actor called 'sampler/0' may come from rack7"
        ):
            ours = ea.fetch(run.endpoint, keys / "rack7.key", cache=cache)
            ours.join({"sampler/0": ea.Actor()}, "elsewhere")
        worker = python(str(EXAMPLES / "actor_executor.py"), run.endpoint, "--key", str(keys / "rack7.key"))
        found = run.result()
        assert worker.communicate(timeout=10)[0] == "left: the run is over\n"
    assert found["measurements"] == 240


def test_another_version_is_refused_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emplace.actor import link

    with head(tmp_path, config(episodes=1_000_000), MEASURE) as run:
        monkeypatch.setattr(link, "VERSION", 2)
        monkeypatch.setattr(link, "OLDEST_VERSION", 1)
        with pytest.raises(ea.EmplaceError) as refused:
            ea.fetch(run.endpoint, insecure=True, cache=tmp_path / "cache")
        assert str(refused.value) == (
            f"{run.endpoint}: the head refused: node uses wire version 2 and accepts 1 and later, "
            f"head uses {frames.VERSION} and accepts {frames.OLDEST_VERSION} and later; "
            "use the same release on both"
        )
        monkeypatch.undo()
        with pytest.raises(ea.EmplaceError, match="nodes that may join: measure"):
            ea.join(run.endpoint, lambda _: {}, insecure=True, node="nobody", cache=tmp_path / "cache")

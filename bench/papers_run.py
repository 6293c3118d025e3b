"""What every run of bench/papers.py is: a name, a seed, the digest of its settings, and what became of its policy."""
import abc
import hashlib
import itertools
import json
import sqlite3
import statistics

SATURATED = 50  # Updates in sequence with a gradient of exactly 0; `emplace` warns from here on.


def row_key(row):
    return row["run"], row["seed"]


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Run(abc.ABC):
    """One line of the results: a name, a seed, and `setup`, the digest of all that the result depends on."""

    name, seed, setup = "", 0, ""
    seeds = 1  # Seeds of the same row in the same stage.

    @property
    def key(self):
        return self.name, self.seed

    @abc.abstractmethod
    def execute(self, bench):
        """The values of the line."""

    def estimate(self, bench):
        """Core-seconds, from a pilot; 0 for what takes seconds."""
        return 0


def set_keys(values, keys):
    """Sets keys with dots, such as "policy.learning_rate", in the nested values of a config."""
    for key, value in keys.items():
        *sections, last = key.split(".")
        place = values
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return values


def confidence(database):
    """Of a run's updates: `entropy`, the mean entropy per choice [nat] of each tenth of them, and `still`, the largest
    number of updates in sequence whose gradient was exactly 0."""
    with sqlite3.connect(database) as db:
        rows = db.execute('SELECT entropy, gradient_norm FROM updates ORDER BY "update"').fetchall()
    tenths = [rows[k * len(rows) // 10:(k + 1) * len(rows) // 10] for k in range(10)]
    still = (len(list(same)) for zero, same in itertools.groupby(rows, lambda row: row[1] == 0) if zero)
    return {"entropy": [float("%.3g" % statistics.fmean(row[0] for row in tenth)) for tenth in tenths if tenth],
            "still": max(still, default=0)}

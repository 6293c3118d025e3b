"""What every run of bench/papers.py is: a name, a seed, and the digest of its settings."""
import abc
import hashlib
import json


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

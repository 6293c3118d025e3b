"""What all tests share: the program, small graphs, and a placement of one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if "EMPLACE_PROGRAM" not in os.environ and (ROOT / "build/release/emplace").is_file():
    os.environ["EMPLACE_PROGRAM"] = str(ROOT / "build/release/emplace")

import emplace as em  # noqa: E402

MACHINE = "k80 x 2, epyc9654"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--newest", action="store_true", help="run the long tests, too")


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """True if all models shall be run: ``--newest``."""
    return bool(request.config.getoption("--newest"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def graphs() -> Path:
    return ROOT / "tests/fixtures/graphs"


@pytest.fixture(scope="session")
def cnn(graphs: Path) -> em.Graph:
    """A training step of 91 ops."""
    return em.read(graphs / "cifar10_cnn-bs4.json.gz")


@pytest.fixture(scope="session")
def machine() -> em.Machine:
    return em.machine(MACHINE)


@pytest.fixture(scope="session")
def placed(cnn: em.Graph, machine: em.Machine) -> em.Placement:
    return em.place(cnn, machine, method="round-robin", progress=False)

"""Graphs and machines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import emplace as em


@pytest.mark.parametrize(
    "name",
    [
        "cifar10_cnn-bs4.json.gz",
        "cifar10_cnn-bs128.msgpack",
        "resnet50.onnx",
        "bert-tiny.onnx.gz",
        "pipedream-alexnet.json",
    ],
)
def test_graphs_in_every_form_have_their_ops(graphs: Path, name: str) -> None:
    graph = em.read(graphs / name)
    assert len(graph.ops) == len(graph) > 40
    assert [op.id for op in graph.ops] == list(range(len(graph)))
    for op in graph:
        for producer, output in op.inputs:
            assert producer < op.id and output < len(graph.ops[producer].outputs)
    again = em.Graph._from_dict(graph.document)
    assert again.sha256 == graph.sha256


def test_a_graph_is_saved(cnn: em.Graph, tmp_path: Path) -> None:
    cnn.save(tmp_path / "g.json.gz")
    with gzip.open(tmp_path / "g.json.gz") as file:
        assert json.load(file)["ops"][0]["name"] == cnn.ops[0].name
    assert em.read(tmp_path / "g.json.gz").sha256 == cnn.sha256


def test_errors_about_a_graph_from_python_name_it() -> None:
    ops = [{"id": 0, "name": "x", "type": "aten::relu", "inputs": [[5, 0]], "outputs": []}]
    graph = em.Graph._from_dict({"format": "emplace-graph v1", "name": "bad", "ops": ops})
    with pytest.raises(em.EmplaceError) as caught:
        len(graph)
    assert caught.value.where.startswith("graph 'bad'")
    with pytest.raises(em.EmplaceError):
        em.Graph._from_dict({"format": "other"})


def test_sizes_of_open_dimensions(root: Path, graphs: Path) -> None:
    one = em.read(graphs / "resnet50.onnx")
    assert "assumed" in one.inspection
    with pytest.raises(em.EmplaceError):
        em.read(graphs / "resnet50.onnx", shape={"no such dimension": 4})


def test_temporary_files_go_with_their_graph(tmp_path: Path) -> None:
    ops = [{"id": 0, "name": "x", "type": "Input", "inputs": [], "outputs": [{"dtype": "f32", "shape": [4]}]}]
    graph = em.Graph._from_dict({"format": "emplace-graph v1", "name": "one", "ops": ops})
    path = graph.path
    assert path.is_file()
    del graph
    assert not path.exists()


def test_machines(machine: em.Machine, root: Path) -> None:
    assert [device.name for device in machine] == ["gpu:0", "gpu:1", "cpu:0"]
    assert machine.devices[0].profile == "k80_gk210" and machine.devices[0].memory_bytes == 12 * 2**30
    assert em.machine("k80x2,epyc9654").names == machine.names
    assert em.machine(root / "configs/devices/quickstart.toml").names
    assert em.machine.here().names[0] == "cpu:0"
    assert "gpu:1" in repr(machine)

"""Device maps of bodies in the forms of transformers: every block has an entry, ties are together, GPUs hold
what they get. The bodies of transformers themselves are long: ``--newest`` runs them, with accelerate."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.utils.parametrize  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, str(Path(__file__).parent))
import bodies  # noqa: E402

import emplace as em  # noqa: E402


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 4 * width),
            nn.Linear(4 * width, width),
        )

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Body(nn.Module):
    """``form``: what its own code adds to the words: nothing, positions, a table of its own, or a mask."""

    def __init__(self, form: str, layers: int) -> None:
        super().__init__()
        self.form = form
        self.words = nn.Embedding(100, 128)
        if form == "positions":
            self.places = nn.Embedding(16, 128)
        if form == "table":
            self.table = nn.Parameter(torch.zeros(16, 128))
        self.layers = nn.ModuleList(Block(128) for _ in range(layers))

    def forward(self, ids: Any) -> Any:
        h = self.words(ids)
        if self.form == "positions":
            h = h + self.places(torch.arange(ids.shape[1]))
        if self.form == "table":
            h = h + self.table
        if self.form == "mask":
            h = h * (ids > 0).unsqueeze(-1)
        for layer in self.layers:
            h = layer(h)
        return h


class Net(nn.Module):
    def __init__(self, form: str = "positions", layers: int = 8, tied: bool = False) -> None:
        super().__init__()
        self.body, self.head = Body(form, layers), nn.Linear(128, 100, bias=False)
        if tied:
            self.head.weight = self.body.words.weight

    def forward(self, ids: Any) -> Any:
        return self.head(self.body(ids))


def device_map_of(
    net: Any, tmp_path: Path, share: float = 0.6, training: bool = False
) -> tuple[Any, Any, Any]:
    """The map on two unlike GPUs and a CPU, the export's JSON, and the machine."""
    ids = torch.ones(2, 16, dtype=torch.long)
    options: dict[str, Any] = {}
    if training:
        options["loss"] = lambda model, batch: model(batch).square().mean()
        options["optimizer"] = torch.optim.AdamW(net.parameters())
    graph = em.trace(net, ids, **options)
    machine = bodies.machine(("h100", "rtx3060"), graph, tmp_path / "machine.toml", share)
    placed = em.place(graph, machine, method="m-etf", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        result = placed.export("accelerate", tmp_path / "map.json")
        assert json.loads((tmp_path / "map.json").read_text()) == placed.device_map()
    return json.loads((tmp_path / "map.json").read_text()), result, machine


def check(net: Any, device_map: dict[str, Any], result: Any) -> None:
    """Every tensor has a device, every block has one, and the map fits."""
    assert all(bodies.entry_of(device_map, name) is not None for name in net.state_dict())
    blocks = bodies.blocks_of(net)
    assert len(blocks) > 1 and not [key for key in device_map if any(key.startswith(b + ".") for b in blocks)]
    assert set(device_map) <= {name for name, _ in net.named_modules()} | set(net.state_dict())
    assert result["applied_step_time_s"] is not None


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("form", ["plain", "positions", "table", "mask"])
def test_a_body_is_split_between_its_blocks(form: str, training: bool, tmp_path: Path) -> None:
    net = Net(form).eval()
    device_map, result, _ = device_map_of(net, tmp_path, training=training)
    check(net, device_map, result)
    if form == "positions":
        assert bodies.entry_of(device_map, "body.words") == bodies.entry_of(device_map, "body.places")
    if form == "table":  # accelerate moves a module's own weights to the device of its entry.
        assert "body" in device_map or set(device_map) == {""}
    if form == "mask":  # The mask is where accelerate puts the model's inputs.
        gpus = sorted(device for device in device_map.values() if device != "cpu")
        assert bodies.entry_of(device_map, "body.words") == (gpus[0] if gpus else "cpu")


class Residual(nn.Module):
    """As torchvision's vision transformer has it: the perceptron is a list of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.mlp = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))

    def forward(self, x: Any) -> Any:
        return x + self.mlp(self.norm(x))


def test_blocks_that_are_numbered_without_a_list_are_whole(tmp_path: Path) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(16, 64))
            self.layers = nn.Sequential(OrderedDict((f"layer_{k}", Residual()) for k in range(6)))

        def forward(self, x: Any) -> Any:
            return self.layers(x + self.table)

    net = nn.Sequential(
        OrderedDict(first=nn.Linear(64, 64), encoder=Encoder(), head=nn.Linear(64, 10))
    ).eval()
    graph = em.trace(net, torch.ones(2, 16, 64))
    machine = bodies.gpus("h100", 3, 700_000, tmp_path / "machine.toml")
    placed = em.place(graph, machine, method="m-etf", progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        device_map, starts = placed.device_map(), [stage.starts_at for stage in placed.stages(3)]
    blocks = [f"encoder.layers.layer_{k}" for k in range(6)]
    assert all(bodies.entry_of(device_map, name) is not None for name in net.state_dict())
    assert not [key for key in device_map if any(key.startswith(block + ".") for block in blocks)]
    assert len({bodies.entry_of(device_map, block) for block in blocks}) > 1
    assert set(starts[1:]) <= {*blocks, "head"}


def test_modules_without_tensors_that_read_weights_belong_to_those_around(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def forward(self, weight: Any) -> Any:
            return 2 * weight

    net = Net(layers=2).eval()
    nn.utils.parametrize.register_parametrization(net.body.layers[1].up, "weight", Twice())
    device_map, result, _ = device_map_of(net, tmp_path, training=True)
    check(net, device_map, result)


def test_modules_of_a_tied_weight_are_on_one_device(tmp_path: Path) -> None:
    net = Net(tied=True).eval()
    device_map, result, _ = device_map_of(net, tmp_path, training=True)
    check(net, device_map, result)
    assert bodies.entry_of(device_map, "head") == bodies.entry_of(device_map, "body.words")


def test_rules_and_reserve_hold(tmp_path: Path) -> None:
    net = Net().eval()
    graph = em.trace(net, torch.ones(2, 16, dtype=torch.long))
    machine = bodies.machine(("h100", "rtx3060"), graph, tmp_path / "machine.toml", 2)
    rules = {"body.layers.3": "gpu:1", "head": "cpu:0"}
    placed = em.place(graph, machine, method="m-etf", rules=rules, progress=False)
    with pytest.warns(em.LossyExport, match="'cpu'"):
        device_map = placed.device_map()
    assert bodies.entry_of(device_map, "body.layers.3.up") == 1
    assert bodies.entry_of(device_map, "head") == "cpu"
    free = em.place(graph, machine, method="m-etf", progress=False, reserve="75%")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        peaks = free.export("accelerate", tmp_path / "map.json")["peak_memory_bytes"]
    memory = [device.memory_bytes for device in machine.devices]
    assert all(peak <= 0.25 * size for peak, size in zip(peaks, memory))


def test_a_map_that_does_not_fit_is_a_warning(tmp_path: Path) -> None:
    graph = em.trace(Net().eval(), torch.ones(2, 16, dtype=torch.long))
    placed = em.place(graph, em.machine("h100 x 2"), method="single-gpu", progress=False)
    placed.save(tmp_path / "p.json")
    small = em.open_placement(
        tmp_path / "p.json", graph, bodies.gpus("h100", 2, 2**20, tmp_path / "small.toml")
    )
    with pytest.warns(em.LossyExport, match="does not fit: gpu:0 needs"):
        small.device_map()


def test_stages_fit_and_have_a_device_each(tmp_path: Path) -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(4000, 64)
            self.layers = nn.ModuleList(Block(64) for _ in range(29))
            self.head = nn.Linear(64, 4000, bias=False)

        def forward(self, ids: Any) -> Any:
            h = self.words(ids)
            for layer in self.layers:
                h = layer(h)
            return self.head(h)

    graph = em.trace(Chain().eval(), torch.zeros(1, 16, dtype=torch.long))
    machine = bodies.gpus("rtx3090", 5, int(1.65 * 2**20), tmp_path / "machine.toml")
    placed = em.place(graph, machine, method="m-etf", progress=False)
    stages = placed.stages(5)
    assert len({stage.device for stage in stages}) == 5
    assert all(stage.memory_bytes <= 1.65 * 2**20 for stage in stages), [s.memory_bytes for s in stages]
    made = {to: placed.export(to, tmp_path / to, stages=5) for to in ("vllm", "deepspeed", "pipelining")}
    cuts = {to: [each["starts_at"] for each in result["stages"]] for to, result in made.items()}
    assert list(stages.split_spec) == cuts["vllm"][1:] == cuts["deepspeed"][1:] == cuts["pipelining"][1:]
    counts = (tmp_path / "vllm").read_text().strip().rpartition("=")[2].split(",")
    assert sum(int(count) for count in counts) == 29 and len(counts) == 5


def test_a_tied_weight_in_two_stages_is_named(tmp_path: Path) -> None:
    net = Net(tied=True, layers=4).eval()
    graph = em.trace(net, torch.ones(2, 16, dtype=torch.long))
    placed = em.place(graph, em.machine("h100 x 2"), method="m-etf", progress=False)
    with pytest.warns(em.LossyExport, match="'body.words.weight' is read in 2 stages"):
        stages = placed.stages(2)
    table = net.head.weight.numel() * 4
    weights = sum(p.numel() * 4 for p in net.parameters())
    assert sum(stage.state_bytes for stage in stages) == weights + 2 * table
    with pytest.warns(em.LossyExport):
        assert not placed.export("pipelining", tmp_path / "stages.json", stages=2)["exact"]


@pytest.mark.parametrize("machine", bodies.MACHINES)
@pytest.mark.parametrize("name", bodies.BODIES)
def test_bodies_of_transformers(
    name: str, machine: str, request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if not request.config.getoption("--newest"):
        pytest.skip("long: --newest runs it")
    pytest.importorskip("transformers")
    accelerate = pytest.importorskip("accelerate")
    from accelerate.utils.modeling import check_tied_parameters_on_same_device, find_tied_parameters

    net = bodies.made(name)
    graph = bodies.traced(name, net)
    placed = em.place(
        graph,
        bodies.machine(bodies.MACHINES[machine], graph, tmp_path / "machine.toml"),
        method="m-etf",
        progress=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", em.LossyExport)
        result = placed.export("accelerate", tmp_path / "map.json")
    device_map = json.loads((tmp_path / "map.json").read_text())
    check(net, device_map, result)
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_tied_parameters_on_same_device(find_tied_parameters(net), device_map)
        assert "Tied" not in caplog.text
        # Without GPUs here, the first device is the CPU and the others hold no data.
        kinds = {
            device: "meta" if k else "cpu"
            for k, device in enumerate(sorted(set(device_map.values()), key=str))
        }
        accelerate.dispatch_model(net, {key: kinds[device] for key, device in device_map.items()})

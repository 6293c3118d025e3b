"""Stages and schedules run in torch.distributed.pipelining, with the gradients of one process."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import torch

import emplace as em

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
if not hasattr(getattr(schedules, "_PipelineScheduleRuntime", None), "_load_csv"):
    pytest.skip("this PyTorch runs no schedules of files", allow_module_level=True)

COUNT, ROWS, WIDTH = 6, 4, 16


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    blocks = (torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(8))
    return torch.nn.Sequential(*blocks)


def batches() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(5)
    return torch.randn(COUNT * ROWS, WIDTH), torch.randn(COUNT * ROWS, WIDTH)


def run_rank(rank: int, plan: Any, port: int, folder: str) -> None:
    """One process of the pipeline; it writes its losses and gradients."""
    import torch.distributed as dist
    from torch.distributed.pipelining import SplitPoint, pipeline

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    x, target = batches()
    spec = {module: SplitPoint[point] for module, point in plan["split_spec"].items()}
    pipe = pipeline(network(), mb_args=(x[:ROWS],), split_spec=spec)
    own = [one["stage"] for one in plan["stages"] if one["rank"] == rank]
    stages = [pipe.build_stage(stage, torch.device("cpu")) for stage in own]
    schedule = schedules._PipelineScheduleRuntime(
        stages, plan["micro_batches"], loss_fn=torch.nn.functional.mse_loss, scale_grads=False
    )
    file = Path(folder, f"{rank}.csv")
    file.write_text(plan["schedule_csv"])
    schedule._load_csv(str(file))
    losses: list[torch.Tensor] = []
    last = len(plan["stages"]) - 1
    schedule.step(*([x] if 0 in own else []), target=target if last in own else None, losses=losses)
    grads = {n: p.grad for stage in stages for n, p in stage.submod.named_parameters()}
    torch.save((losses, grads), Path(folder, f"{rank}.pt"))
    dist.destroy_process_group()


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("turns", [1, 2])
def test_exported_schedules_have_the_gradients_of_one_process(
    schedule: str, turns: int, tmp_path: Path
) -> None:
    """With one and with two stages per process."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = batches()
    graph = em.trace(
        model,
        (x[:ROWS], target[:ROWS]),
        loss=lambda m, b: torch.nn.functional.mse_loss(m(b[0]), b[1]),
        optimizer=optimizer,
    )
    rules = {f"{k}": f"gpu:{k * turns // 4 % 2}" for k in range(8)} | {"*": "gpu:1"}
    options: Any = {"micro_batches": COUNT, "schedule": schedule, "progress": False}
    placement = em.place(graph, "h100 x 2", method="random", rules=rules, **options)
    file = tmp_path / "stages.json"
    with pytest.warns(em.LossyExport):  # The targets and the learning rate are elsewhere.
        found = placement.export("pipelining", file)
    assert found["moved_ops"] < 5 and len(found["stages"]) == 2 * turns
    assert found["strategy"] == {"micro_batches": COUNT, "schedule": schedule}
    # Both steps are those of all micro-batches.
    assert found["step_time_s"] == placement.step_time
    assert found["applied_step_time_s"] == pytest.approx(placement.step_time, rel=0.05)

    plan = json.loads(file.read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(run_rank, (plan, port, str(tmp_path)), nprocs=2)

    plain = network()
    losses = []
    for rows, wanted in zip(x.chunk(COUNT), target.chunk(COUNT)):
        loss = torch.nn.functional.mse_loss(plain(rows), wanted)
        loss.backward()
        losses.append(loss.detach())
    (first, grads), (last, more) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert not first and all(torch.equal(a, b) for a, b in zip(last, losses, strict=True))
    assert {**grads, **more}.keys() == dict(plain.named_parameters()).keys()
    assert all(torch.equal({**grads, **more}[n], p.grad) for n, p in plain.named_parameters())

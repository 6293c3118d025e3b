"""ResNet-18 trained on two devices: trace a step, place it, run it as placed, and compare with plain PyTorch.

usage: python resnet_two_devices.py [DEVICE [DEVICE]]
Without arguments the devices are cuda:0 and cuda:1 if they are there, else two logical ones on the CPU.
"""

import sys

import torch
import torchvision  # type: ignore[import-untyped,unused-ignore]

import emplace as em


def make_step() -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor], torch.optim.Optimizer]:
    """A model, a batch and an optimizer."""
    torch.manual_seed(1)
    model = torchvision.models.resnet18(num_classes=10)
    batch = torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))
    return model, batch, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def loss_of(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    images, labels = batch
    return torch.nn.functional.cross_entropy(model(images), labels)


def main() -> None:
    two = [f"cuda:{k}" for k in range(2)] if torch.cuda.device_count() > 1 else ["cpu", "cpu"]
    first, second = (sys.argv[1:] + two)[:2]

    model, batch, optimizer = make_step()
    graph = em.trace(model, batch, loss=loss_of, optimizer=optimizer)
    placement = em.place(graph, em.machine("v100 x 2"), budget="5s", progress=False)
    above = 100 * (placement.step_time / placement.bound - 1)
    simulated = 1e3 * placement.step_time
    print(f"{len(graph)} ops, simulated step {simulated:.2f} ms, {above:.1f} % above the bound")
    print(em.verify(graph, placement))

    step = placement.apply(devices={"gpu:0": first, "gpu:1": second})
    losses = [float(step(batch)) for _ in range(3)]

    plain, _, same = make_step()
    expected = []
    for _ in range(3):
        same.zero_grad()
        loss = loss_of(plain, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        same.step()
        expected.append(float(loss.detach()))
    print("losses as placed:", *[f"{loss:.6f}" for loss in losses])
    print("plain PyTorch:   ", *[f"{loss:.6f}" for loss in expected])
    mine, theirs = model.state_dict().values(), plain.state_dict().values()
    equal = all(torch.equal(a.cpu(), b) for a, b in zip(mine, theirs))
    print("parameters and statistics after three steps:", "equal bits" if equal else "different")


if __name__ == "__main__":
    main()

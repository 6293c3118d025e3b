#!/usr/bin/env python3
"""Time of one ResNet-50 training step (batch 32, momentum, TF32 allowed) in PyTorch on this machine's GPU, as JSON.

    usage: bench/gpu_pytorch.py [--batch 32] [--steps 15]

scripts/gpu.sh compares it with the CUDA executor's time for the same network. Exit status 77: no torch, or no GPU.
"""

import argparse
import json
import statistics
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    try:
        import torch
        import torchvision
    except ImportError as missing:
        print(missing, file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return 77
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    network = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(options.batch, 3, 224, 224, device="cuda")
    labels = torch.randint(1000, (options.batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()
        torch.cuda.synchronize()

    times = []
    for number in range(5 + options.steps):
        start = time.perf_counter()
        step()
        if number >= 5:
            times.append(time.perf_counter() - start)
    print(json.dumps({"network": f"resnet50-bs{options.batch}", "torch": torch.__version__,
                      "gpu": torch.cuda.get_device_name(), "step_s": statistics.median(times), "samples_s": times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())

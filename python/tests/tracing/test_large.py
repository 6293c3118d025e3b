"""A step of the size of Llama 3 8B with Adam: traced in 30 s and 2 GiB. ``--newest`` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, time, torch, transformers
from emplace.tracing import trace
config = transformers.LlamaConfig(vocab_size=128256, hidden_size=4096, intermediate_size=14336,
    num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192,
    use_cache=False)
with torch.device("meta"):
    model = transformers.LlamaForCausalLM(config).train()
tokens = torch.zeros(1, 2048, dtype=torch.int64)
start = time.perf_counter()
document = trace(model, {"input_ids": tokens, "labels": tokens}, lambda m, b: m(**b).loss,
                 torch.optim.Adam(model.parameters())).document
seconds = time.perf_counter() - start
# Not getrusage's peak: that starts with the peak of the process that forked this one.
kib = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"seconds": seconds, "kib": kib,
    "ops": len(document["ops"]), "state": sum(op["param_bytes"] for op in document["ops"]),
    "scoped": all(op["group"] for op in document["ops"])}))
"""


def test_llama_3_8b(thorough: bool) -> None:
    if not thorough:
        pytest.skip("long: --newest runs it")
    pytest.importorskip("transformers")
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] < 30 and found["kib"] < 2 << 20 and found["scoped"]
    assert found["ops"] > 10000 and found["state"] > 12 * 8.0e9, found

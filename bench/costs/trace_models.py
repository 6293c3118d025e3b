#!/usr/bin/env python3
"""Traces the whole models that ../shared/measured-gpus measured, as emplace graphs.

usage: PYTHONPATH=python EMPLACE_PROGRAM=build/release/emplace bench/costs/trace_models.py --out DIR NAME…

NAME is MODEL-MODE-SEQ-BATCH, such as bert_large-train-512-8; the graph is DIR/NAME.json.gz. The models are
made from configs on the device `meta`: nothing is downloaded or computed. Needs torch and transformers.

Inference is the model in eval(); training is forward and backward of the sum of all logits, no optimizer.
GPT-3 XL is that of the measured tables: 24 layers of width 3072. Attention is eager, as measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import emplace as em
import torch
import transformers

BERT: Any = transformers.BertConfig(
    vocab_size=30522,
    hidden_size=1024,
    num_hidden_layers=24,
    num_attention_heads=16,
    intermediate_size=4096,
    max_position_embeddings=512,
    num_labels=2,  # type: ignore[call-arg]
)
BERT_CLASSES = {
    "inf": transformers.BertForSequenceClassification,
    "train": transformers.BertForPreTraining,
}


def gpt2(width: int, layers: int, heads: int, positions: int) -> Any:
    """A config of the GPT-2 family."""
    return transformers.GPT2Config(
        n_embd=width, n_layer=layers, n_head=heads, n_positions=positions, use_cache=False
    )


GPTS = {"gpt2_large": gpt2(1280, 36, 20, 1024), "gpt3_xl": gpt2(3072, 24, 24, 2048)}


def made(model: str, mode: str) -> torch.nn.Module:
    """A model without values."""
    bert = model == "bert_large"
    config = BERT if bert else GPTS[model]
    config._attn_implementation = "eager"
    with torch.device("meta"):
        module = BERT_CLASSES[mode](config) if bert else transformers.GPT2LMHeadModel(config)
    module.train(mode == "train")
    return module


def sum_of_logits(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    """What is differentiated."""
    result = model(**batch)
    logits: list[torch.Tensor] = [value for key, value in result.items() if key.endswith("logits")]
    assert logits, list(result)
    return sum((each.sum() for each in logits[1:]), logits[0].sum())


def trace(name: str) -> em.Graph:
    """The graph of one step."""
    model, mode, seq, size = name.rsplit("-", 3)
    batch = {"input_ids": torch.zeros(int(size), int(seq), dtype=torch.int64)}
    if model == "bert_large":
        # The measured model adds a mask of ones. Without this argument today's transformers adds none.
        batch["attention_mask"] = torch.ones(int(size), int(seq), dtype=torch.int64)
    loss: Callable[[torch.nn.Module, Any], torch.Tensor] | None = sum_of_logits if mode == "train" else None
    return em.trace(made(model, mode), batch, loss, name=name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    for name in options.names:
        start = time.perf_counter()
        document = trace(name).document
        # No time of day in the file: equal graphs are equal files. It appears whole or not at all.
        partial = options.out / f"{name}.partial"
        with open(partial, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as out:
            out.write(json.dumps(document).encode())
        partial.rename(options.out / f"{name}.json.gz")
        seconds = time.perf_counter() - start
        print(f"{name}: {len(document['ops'])} ops, {seconds:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

"""Bodies of transformers, small and with random weights, and unlike GPUs that hold a part of one each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import emplace as em

WORDS, WIDTH, LAYERS, BATCH, LENGTH = 512, 64, 6, 4, 32
_ROWS: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": 4, "vocab_size": WORDS}
_DEEP: dict[str, Any] = {**_ROWS, "num_hidden_layers": LAYERS, "intermediate_size": 2 * WIDTH}
_GROUPED: dict[str, Any] = {**_DEEP, "num_key_value_heads": 2}
BODIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", dict(n_embd=WIDTH, n_layer=LAYERS, n_head=4, vocab_size=WORDS)),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        {**_ROWS, "num_hidden_layers": LAYERS, "ffn_dim": 2 * WIDTH, "word_embed_proj_dim": WIDTH},
    ),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**_ROWS, "num_hidden_layers": LAYERS}),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**_GROUPED, "head_dim": 16}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**_GROUPED, "num_local_experts": 4}),
    "bert": ("BertForMaskedLM", "BertConfig", _DEEP),
    "roberta": ("RobertaForSequenceClassification", "RobertaConfig", _DEEP),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        dict(
            d_model=WIDTH, d_kv=16, d_ff=2 * WIDTH, num_layers=4, num_heads=4, vocab_size=WORDS,
            decoder_start_token_id=0, pad_token_id=0,
        ),
    ),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        dict(
            hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=LAYERS, num_attention_heads=4,
            image_size=32, patch_size=8,
        ),
    ),
    "phi": ("PhiForCausalLM", "PhiConfig", _DEEP),
    "bloom": ("BloomForCausalLM", "BloomConfig", {**_ROWS, "n_layer": LAYERS, "n_head": 4}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**_GROUPED, "tie_word_embeddings": True}),
}  # fmt: skip
MACHINES = {
    "two": ("rtx3090", "rtx3060"),
    "two-fast": ("h100", "rtx3090"),
    "three": ("a100_40", "rtx3060", "rtx3090"),
    "four": ("h100", "rtx3060", "rtx3090", "a100_40"),
}
SHARE = 0.6


def made(name: str) -> Any:
    """The model, in the mode of inference: dropout would take no part in a comparison."""
    import transformers

    model, config, settings = BODIES[name]
    return getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()


def traced(name: str, model: Any) -> em.Graph:
    """A training step with AdamW."""
    first = torch.randn(BATCH, 3, 32, 32) if name == "vit" else torch.randint(0, WORDS, (BATCH, LENGTH))
    classes = torch.zeros(BATCH, dtype=torch.long) if name in ("vit", "roberta") else first.clone()
    words = "pixel_values" if name == "vit" else "input_ids"

    def loss(net: torch.nn.Module, batch: Any) -> Any:
        return net(**{words: batch[0], "labels": batch[1]}).loss

    return em.trace(model, (first, classes), loss=loss, optimizer=torch.optim.AdamW(model.parameters()))


def machine(gpus: tuple[str, ...], graph: em.Graph, path: Path, share: float = SHARE) -> em.Machine:
    """GPUs that hold a share of what the step needs on one, and a CPU that holds all of it."""
    whole = em.place(graph, em.machine("h100"), method="single-gpu", progress=False).peak
    memory = int(share * max(whole.values()))
    rows = [(f"gpu:{k}", profile, f"{memory}B") for k, profile in enumerate(gpus)]
    return _machine([*rows, ("cpu:0", "epyc9654", "64GiB")], path)


def gpus(profile: str, count: int, memory: int, path: Path) -> em.Machine:
    """Equal GPUs with `memory` bytes each, without a CPU."""
    return _machine([(f"gpu:{k}", profile, f"{memory}B") for k in range(count)], path)


def _machine(rows: list[tuple[str, str, str]], path: Path) -> em.Machine:
    text = "".join(f'[[device]]\nname = "{n}"\nprofile = "{p}"\nmemory = "{m}"\n' for n, p, m in rows)
    path.write_text(text, encoding="utf-8")
    return em.machine(str(path))


def blocks_of(model: Any) -> list[str]:
    """The elements of the outermost lists of modules."""
    lists = [name for name, module in model.named_modules() if type(module).__name__ == "ModuleList"]
    outermost = [name for name in lists if not any(name.startswith(other + ".") for other in lists)]
    return [f"{name}.{k}" for name in outermost for k in range(len(model.get_submodule(name)))]


def entry_of(device_map: dict[str, Any], module: str) -> Any:
    """The device of a module by accelerate's rule, the longest matching name; None without an entry."""
    found = [key for key in device_map if key == "" or module == key or module.startswith(key + ".")]
    return device_map[max(found, key=len)] if found else None

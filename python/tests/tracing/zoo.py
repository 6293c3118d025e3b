"""Twenty models by name, small, with a batch, a loss and an optimizer each.

torchvision's have its own sizes of layers on small images; those of transformers are small configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Case:
    """A model to train: each call makes new parts."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Any]
    loss: Callable[[nn.Module, Any], torch.Tensor]
    optimizer: Callable[[Any], torch.optim.Optimizer]


def _sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)


def _adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=1e-3)


def _adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def _rmsprop(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.RMSprop(parameters, lr=1e-3, momentum=0.9)


def classify(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross entropy of an image classifier, with its auxiliary outputs if it has some."""
    images, labels = batch
    result = model(images)
    if isinstance(result, tuple):
        loss = F.cross_entropy(result[0], labels)
        for auxiliary in result[1:]:
            if auxiliary is not None:
                loss = loss + 0.3 * F.cross_entropy(auxiliary, labels)
        return loss
    return F.cross_entropy(result, labels)


def _vision(name: str, size: int = 64, optimizer: Any = _sgd, **options: Any) -> Case:
    def model() -> nn.Module:
        import torchvision

        made: nn.Module = getattr(torchvision.models, name)(num_classes=10, **options)
        return made.train()

    return Case(
        model, lambda: (torch.randn(4, 3, size, size), torch.tensor([1, 2, 3, 4])), classify, optimizer
    )


class WordModel(nn.Module):
    """A language model of LSTM cells, unrolled in Python."""

    def __init__(self, words: int = 50, width: int = 16, steps: int = 6) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.cells = nn.ModuleList([nn.LSTMCell(width, width) for _ in range(2)])
        self.project = nn.Linear(width, words)
        self.steps, self.width = steps, width

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, steps) to scores (batch, steps, words)."""
        states = [
            (torch.zeros(tokens.shape[0], self.width), torch.zeros(tokens.shape[0], self.width))
            for _ in self.cells
        ]
        scores = []
        for step in range(self.steps):
            x = self.embed(tokens[:, step])
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            scores.append(self.project(x))
        return torch.stack(scores, 1)


class Tagger(nn.Module):
    """A tagger with nn.GRU, or nn.LSTM, in both directions."""

    def __init__(
        self, kind: type[nn.RNNBase] = nn.GRU, words: int = 50, width: int = 16, tags: int = 7
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.recurrent = kind(width, width, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.project = nn.Linear(2 * width, tags)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, steps) to scores (batch, steps, tags)."""
        result: torch.Tensor = self.project(self.recurrent(self.embed(tokens))[0])
        return result


def tag_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Cross entropy of each position."""
    tokens, tags = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())


def _tokens(count: int = 50, rows: int = 4, steps: int = 6) -> torch.Tensor:
    return torch.randint(0, count, (rows, steps))


def own_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """The loss that a model of transformers computes."""
    loss: torch.Tensor = model(**batch).loss
    return loss


def _text(name: str, optimizer: Any = _adamw, labels: str = "tokens", **options: Any) -> Case:
    def model() -> nn.Module:
        import transformers

        kind, _, head = name.partition(".")
        config = getattr(transformers, kind + "Config")(**options)
        config._attn_implementation = config.attn_implementation = options.get("attn_implementation", "eager")
        made: nn.Module = getattr(transformers, kind + head)(config)
        return made.train()

    def batch() -> dict[str, torch.Tensor]:
        tokens = _tokens(64, 2, 16)
        if labels == "image":
            return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}
        if labels == "audio":
            return {"input_features": torch.randn(2, 16, 64), "labels": _tokens(60, 2, 8)}
        if labels == "class":
            return {
                "input_ids": tokens,
                "attention_mask": torch.ones_like(tokens),
                "labels": torch.tensor([0, 1]),
            }
        return {"input_ids": tokens, "labels": tokens.clone()}

    return Case(model, batch, own_loss, optimizer)


VISION: dict[str, Case] = {
    "alexnet": _vision("alexnet"),
    "vgg11_bn": _vision("vgg11_bn", 32),
    "resnet18": _vision("resnet18"),
    "densenet121": _vision("densenet121", optimizer=_adam),
    "googlenet": _vision("googlenet", 96, _rmsprop, init_weights=False, aux_logits=True),
    "mobilenet_v3_large": _vision("mobilenet_v3_large", optimizer=_rmsprop),
    "efficientnet_b0": _vision("efficientnet_b0", optimizer=_adamw),
    "vit_b_16": _vision("vit_b_16", 32, _adamw, image_size=32),
}
_SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_ROPE = {**_SMALL, "intermediate_size": 48, "num_key_value_heads": 2, "use_cache": False, "pad_token_id": 0}
TEXT: dict[str, Case] = {
    "gpt2": _text(
        "GPT2.LMHeadModel", vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False
    ),
    "llama": _text("Llama.ForCausalLM", **_ROPE),
    "mixtral": _text(
        "Mixtral.ForCausalLM", **_ROPE, num_local_experts=4, experts_implementation="batched_mm"
    ),
    "qwen2": _text("Qwen2.ForCausalLM", **_ROPE),
    "t5": _text(
        "T5.ForConditionalGeneration",
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        use_cache=False,
        decoder_start_token_id=0,
    ),
    "bert": _text(
        "Bert.ForSequenceClassification",
        labels="class",
        **_SMALL,
        intermediate_size=48,
        max_position_embeddings=32,
    ),
    "distilbert": _text(
        "DistilBert.ForSequenceClassification",
        labels="class",
        vocab_size=64,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=32,
    ),
    "opt": _text(
        "OPT.ForCausalLM",
        **_SMALL,
        ffn_dim=48,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        use_cache=False,
    ),
    "vit": _text(
        "ViT.ForImageClassification",
        labels="image",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
    ),
    "whisper": _text(
        "Whisper.ForConditionalGeneration",
        labels="audio",
        vocab_size=64,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=16,
        max_source_positions=32,
        max_target_positions=32,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
}
RECURRENT: dict[str, Case] = {
    "lstm_cells": Case(WordModel, lambda: (_tokens(), _tokens()), tag_loss, _sgd),
    "gru": Case(Tagger, lambda: (_tokens(), _tokens(7)), tag_loss, _adam),
}
CASES = {**VISION, **TEXT, **RECURRENT}

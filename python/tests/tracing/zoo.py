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


class Recurrent(nn.Module):
    """Tokens through nn.LSTM; the head may be the table of the words itself."""

    def __init__(self, width: int = 16, words: int = 50, tied: bool = False, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.recurrent = nn.LSTM(width, width, batch_first=True, **options)
        wide = options.get("proj_size") or width * (2 if options.get("bidirectional") else 1)
        self.head = nn.Linear(wide, words, bias=not tied)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, steps) to scores (batch, steps, words)."""
        result: torch.Tensor = self.head(self.recurrent(self.embed(tokens))[0])
        return result


class Translator(nn.Module):
    """Two LSTMs: the state of the first starts the second."""

    def __init__(self, words: int = 50, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.encoder, self.decoder = nn.LSTM(width, width, 2), nn.LSTM(width, width, 2)
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, steps) to scores (batch, steps, words)."""
        x = self.embed(tokens).transpose(0, 1)
        result: torch.Tensor = self.head(self.decoder(x, self.encoder(x.flip(0))[1])[0]).transpose(0, 1)
        return result


class Experts(nn.Module):
    """A mixture that computes every expert and weights the two best for each token."""

    def __init__(self, words: int = 50, width: int = 16, count: int = 4) -> None:
        super().__init__()
        self.embed, self.gate = nn.Embedding(words, width), nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width)) for _ in range(count)
        )
        self.head = nn.Linear(width, words)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens (batch, steps) to scores (batch, steps, words)."""
        x = self.embed(tokens)
        best, which = self.gate(x).softmax(-1).topk(2, -1)
        weight = torch.zeros(*x.shape[:-1], len(self.experts)).scatter(-1, which, best)
        mixed = torch.stack([expert(x) for expert in self.experts], -1) * weight.unsqueeze(-2)
        result: torch.Tensor = self.head(x + mixed.sum(-1))
        return result


def separable() -> nn.Module:
    """Depthwise and grouped convolutions with batch norms."""

    def block(before: int, after: int, stride: int) -> list[nn.Module]:
        return [
            nn.Conv2d(before, before, 3, stride, 1, groups=before, bias=False),
            nn.BatchNorm2d(before),
            nn.ReLU6(inplace=True),
            nn.Conv2d(before, after, 1, groups=2),
            nn.BatchNorm2d(after),
            nn.Hardswish(inplace=True),
        ]

    layers = [nn.Conv2d(3, 8, 3, 2, 1), *block(8, 16, 1), *block(16, 32, 2), *block(32, 32, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def _words(optimizer: Any = _sgd, kind: Any = Recurrent, **options: Any) -> Case:
    return Case(lambda: kind(**options), lambda: (_tokens(), _tokens()), tag_loss, optimizer)


_MOE = {**_ROPE, "num_experts_per_tok": 2}
#: Twelve more: ties, nn.LSTM, experts and depthwise convolutions.
MORE: dict[str, Case] = {
    "lstm": _words(),
    "lstm_tied": _words(_adam, tied=True),
    "lstm_deep": _words(num_layers=3, dropout=0.2, bidirectional=True),
    "lstm_projected": _words(_adamw, num_layers=2, proj_size=8),
    "lstm_translator": _words(kind=Translator),
    "experts": _words(_adam, kind=Experts),
    "mixtral_grouped": _text("Mixtral.ForCausalLM", **_MOE, num_local_experts=4),
    "qwen3_moe": _text(
        "Qwen3Moe.ForCausalLM",
        **_MOE,
        num_experts=4,
        moe_intermediate_size=16,
        head_dim=8,
        tie_word_embeddings=True,
    ),
    "albert": _text(
        "Albert.ForSequenceClassification",
        labels="class",
        **_SMALL,
        embedding_size=16,
        intermediate_size=48,
        max_position_embeddings=32,
        attn_implementation="sdpa",
    ),
    "separable": Case(
        separable, lambda: (torch.randn(4, 3, 16, 16), torch.tensor([1, 2, 3, 4])), classify, _rmsprop
    ),
    "mobilenet_v2": _vision("mobilenet_v2", 32),
    "convnext_tiny": _vision("convnext_tiny", 32, _adamw),
}

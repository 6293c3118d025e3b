"""Forty models of small sizes with random weights: dense, recurrent, mixtures of experts, grouped
convolutions.

Each is a function that returns a model and the arguments of its ``forward``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Model = tuple[nn.Module, tuple[Any, ...]]


class First(nn.Module):
    """The first output of a module that returns several."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.inner(*inputs)[0]  # type: ignore[no-any-return]


class Text(nn.Module):
    """The first output of a body of transformers, without a cache of earlier tokens."""

    def __init__(self, body: nn.Module, **more: Any) -> None:
        super().__init__()
        self.body, self.more = body, more

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.body(*inputs, **self.more, return_dict=False)[0]  # type: ignore[no-any-return]


def vision(name: str, size: int = 64, batch: int = 2, **config: Any) -> Callable[[], Model]:
    """A network of torchvision on images of `size` x `size`."""

    def make() -> Model:
        import torchvision

        if name in ("googlenet", "inception_v3"):
            config.update(aux_logits=False, init_weights=False)
        return getattr(torchvision.models, name)(num_classes=10, **config), (
            torch.rand(batch, 3, size, size),
        )

    return make


def image_transformer() -> Model:
    """A vision transformer of two layers."""
    import torchvision

    model = torchvision.models.VisionTransformer(64, 16, 2, 4, 128, 256, num_classes=10)
    return model, (torch.rand(2, 3, 64, 64),)


IDS = (2, 48)


def text(name: str, head: bool = False, shape: tuple[int, int] = IDS, **config: Any) -> Callable[[], Model]:
    """A body of transformers, of two layers unless `config` differs."""

    def make() -> Model:
        import transformers

        made = getattr(transformers, name + "Config")(**config)
        auto = transformers.AutoModelForCausalLM if head else transformers.AutoModel
        made.use_cache = False
        return Text(auto.from_config(made)), (torch.randint(0, 90, shape),)

    return make


WIDE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 96}  # fmt: skip
GQA = {**WIDE, "num_key_value_heads": 2}
EXPERTS = {**GQA, "num_experts_per_tok": 2}


def encoder_decoder() -> Model:
    """T5: the text of both sides."""
    import transformers

    config = transformers.T5Config(
        d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=96, use_cache=False
    )

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = transformers.T5Model(config)

        def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            made = self.body(input_ids=ids, decoder_input_ids=targets, use_cache=False, return_dict=False)
            return made[0]  # type: ignore[no-any-return]

    return Both(), (torch.randint(0, 90, IDS), torch.randint(0, 90, (2, 24)))


def speech() -> Model:
    """wav2vec 2.0: a grouped convolution gives the positions."""
    import transformers

    config = transformers.Wav2Vec2Config(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, conv_dim=(64, 64),
        conv_stride=(5, 4), conv_kernel=(10, 8), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        num_feat_extract_layers=2,
    )  # fmt: skip
    return Text(transformers.AutoModel.from_config(config)), (torch.randn(2, 4000),)


def image_text_transformer() -> Model:
    """ViT of transformers."""
    import transformers

    config = transformers.ViTConfig(
        image_size=64, patch_size=16, **{k: v for k, v in WIDE.items() if k != "vocab_size"}
    )
    return Text(transformers.AutoModel.from_config(config)), (torch.rand(2, 3, 64, 64),)


def perceptron() -> Model:
    """Three layers."""
    net = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64))
    return net, (torch.randn(32, 128),)


def autoencoder() -> Model:
    """Strided convolutions, then transposed ones, one of them in groups."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1, groups=4), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1),
    )  # fmt: skip
    return net, (torch.randn(2, 3, 64, 64),)


def depthwise() -> Model:
    """Depthwise and pointwise convolutions in one dimension."""
    layers: list[nn.Module] = [nn.Conv1d(16, 128, 7, padding=3)]
    for _ in range(3):
        layers += [
            nn.Conv1d(128, 128, 9, padding=4, groups=128),
            nn.ReLU(),
            nn.Conv1d(128, 128, 1),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers), (torch.randn(2, 16, 200),)


def volume() -> Model:
    """Grouped convolutions in three dimensions."""
    net = nn.Sequential(nn.Conv3d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv3d(32, 32, 3, groups=8), nn.ReLU())
    return net, (torch.randn(2, 4, 8, 16, 16),)


def recurrent(kind: str, **config: Any) -> Callable[[], Model]:
    """nn.LSTM, nn.GRU or nn.RNN of two layers."""

    def make() -> Model:
        return First(getattr(nn, kind)(96, 128, num_layers=2, batch_first=True, **config)), (
            torch.randn(4, 12, 96),
        )

    return make


class Unrolled(nn.Module):
    """Cells that a loop of Python calls."""

    def __init__(self, cell: nn.Module, states: int) -> None:
        super().__init__()
        self.cell, self.states = cell, states

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state: Any = x.new_zeros(x.shape[0], 128)
        if self.states == 2:
            state = (state, state)
        for step in x.unbind(1):
            state = self.cell(step, state)
        return state[0] if self.states == 2 else state  # type: ignore[no-any-return]


def cells(kind: str) -> Callable[[], Model]:
    """nn.LSTMCell or nn.GRUCell over six steps."""
    return lambda: (
        Unrolled(getattr(nn, kind)(96, 128), 2 if kind == "LSTMCell" else 1),
        (torch.randn(16, 6, 96),),
    )


def tagger() -> Model:
    """An embedding, two directions of an LSTM, and a layer of classes."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(500, 96)
            self.rnn = nn.LSTM(96, 128, bidirectional=True, batch_first=True)
            self.head = nn.Linear(256, 20)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.words(ids))[0])  # type: ignore[no-any-return]

    return Net(), (torch.randint(0, 500, (8, 16)),)


def pairs() -> Model:
    """nn.Bilinear between two inputs."""
    return nn.Bilinear(64, 48, 32), (torch.randn(64, 64), torch.randn(64, 48))


def encoder() -> Model:
    """nn.TransformerEncoder."""
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 48, 128),)


MODELS: dict[str, Callable[[], Model]] = {
    "resnet18": vision("resnet18"),
    "alexnet": vision("alexnet"),
    "vgg11": vision("vgg11"),
    "squeezenet": vision("squeezenet1_1"),
    "densenet121": vision("densenet121"),
    "googlenet": vision("googlenet"),
    "resnext50": vision("resnext50_32x4d"),
    "mobilenet_v2": vision("mobilenet_v2", width_mult=1.4),
    "mobilenet_v3": vision("mobilenet_v3_small"),
    "efficientnet": vision("efficientnet_b0"),
    "shufflenet": vision("shufflenet_v2_x1_0"),
    "mnasnet": vision("mnasnet1_3"),
    "regnet": vision("regnet_y_400mf"),
    "convnext": vision("convnext_tiny"),
    "image_transformer": image_transformer,
    "perceptron": perceptron,
    "autoencoder": autoencoder,
    "depthwise": depthwise,
    "volume": volume,
    "pairs": pairs,
    "encoder": encoder,
    "lstm": recurrent("LSTM"),
    "lstm_both_ways": recurrent("LSTM", bidirectional=True),
    "gru": recurrent("GRU"),
    "rnn": recurrent("RNN"),
    "lstm_cells": cells("LSTMCell"),
    "gru_cells": cells("GRUCell"),
    "tagger": tagger,
    "bert": text("Bert", **WIDE),
    "gpt2": text("GPT2", n_embd=128, n_layer=2, n_head=4, vocab_size=96, head=True),
    "llama": text("Llama", head=True, **GQA),
    "opt": text("OPT", head=True, hidden_size=128, ffn_dim=256, num_hidden_layers=2, num_attention_heads=4,
                vocab_size=96, word_embed_proj_dim=128),
    "gemma2": text("Gemma2", head=True, head_dim=32, **GQA),
    "qwen2": text("Qwen2", head=True, **GQA),
    "t5": encoder_decoder,
    "vit": image_text_transformer,
    "wav2vec2": speech,
    "mixtral": text("Mixtral", head=True, num_local_experts=4, **EXPERTS),
    "qwen3_moe": text(
        "Qwen3Moe", head=True, num_experts=4, moe_intermediate_size=128, head_dim=32, **EXPERTS
    ),
    "olmoe": text("Olmoe", head=True, num_experts=4, **EXPERTS),
}  # fmt: skip

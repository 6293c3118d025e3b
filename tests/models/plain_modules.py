"""The modules of export_models.py that no library brings."""
import torch
from torch import nn
from torch.nn import functional


def transformer():
    return nn.Transformer(d_model=128, nhead=4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=256, batch_first=True)


class Recurrent(nn.Module):
    def __init__(self, cell, embedding, head):
        super().__init__()
        self.embedding, self.cell, self.head = embedding, cell, head

    def forward(self, x):
        return self.head(self.cell(self.embedding(x))[0])


def lstm():
    """Two layers, the tokens embedded."""
    return Recurrent(nn.LSTM(64, 96, num_layers=2, batch_first=True), nn.Embedding(500, 64), nn.Linear(96, 500))


def gru():
    """Both directions."""
    return Recurrent(nn.GRU(64, 96, bidirectional=True, batch_first=True), nn.Identity(), nn.Linear(192, 10))


class UNet(nn.Module):
    """Two levels; convolutions, a grouped one, transposed ones, batch and group norm."""
    def __init__(self, base=16):
        super().__init__()

        def block(inputs, outputs):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                                 nn.Conv2d(outputs, outputs, 3, padding=1, groups=4), nn.GroupNorm(4, outputs), nn.SiLU())
        self.down1, self.down2, self.bottom = block(3, base), block(base, 2 * base), block(2 * base, 4 * base)
        self.raise2, self.raise1 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2), nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.up2, self.up1, self.head = block(4 * base, 2 * base), block(2 * base, base), nn.Conv2d(base, 2, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(functional.max_pool2d(one, 2))
        bottom = self.bottom(functional.max_pool2d(two, 2))
        two = self.up2(torch.cat([self.raise2(bottom), two], 1))
        one = self.up1(torch.cat([self.raise1(two), one], 1))
        return functional.interpolate(self.head(one), scale_factor=2.0, mode="bilinear")


class MoE(nn.Module):
    """Four experts, the two best of each token, computed densely as one batch of matrix products."""
    def __init__(self, width=64, hidden=128, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / 8)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / 8)

    def forward(self, x):
        scores, chosen = torch.topk(self.gate(x).softmax(-1), 2)
        weights = torch.zeros(*x.shape[:-1], self.gate.out_features, dtype=x.dtype).scatter(-1, chosen, scores)
        hidden = functional.gelu(torch.einsum("btw,ewh->ebth", x, self.up))
        return torch.einsum("ebth,ehw,bte->btw", hidden, self.down, weights)


class RmsAttention(nn.Module):
    """Causal attention with rotary positions, RMS norm and a gated feed-forward layer."""
    def __init__(self, width=128, heads=4, length=32):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = nn.Linear(width, 344), nn.Linear(width, 344), nn.Linear(344, width)
        half = width // heads // 2
        angle = torch.arange(length)[:, None] / 10000 ** (torch.arange(half) / half)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotated(self, x):
        a, b = x.chunk(2, -1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], -1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(self.rotated(q), self.rotated(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

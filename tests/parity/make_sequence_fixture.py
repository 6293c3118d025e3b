#!/usr/bin/env python3
"""The networks of ColocRL and Spotlight in PyTorch, float64: an independent implementation for comparison with the sequence placer.
Needs torch (Debian: python3-torch).

usage: make_sequence_fixture.py OUT
ColocRL: tunable type embeddings, one-way encoder, attention decoder started from the encoder, plain logits, REINFORCE.
Spotlight: tunable name embeddings, two layers each, and Eq. 15 with beta = 0.7 against a drawing policy of its own; once
with additive attention, once ("chan") with the dot product of Chan 2015, <phi(s), psi(h)>, phi and psi a layer with tanh.
Both are torch.nn.LSTM / LSTMCell modules; their weights are written in the order and layout of the store (column by column),
then inputs, choices, log-probabilities, the loss and its gradients by torch.autograd.
"""
import sys
import torch
import torch.nn as nn

torch.manual_seed(5)
torch.set_default_dtype(torch.float64)
H, D, G, K, EMB = 4, 3, 5, 3, 3


class Network(nn.Module):
    def __init__(self, rows, columns, fixed_rows, layers, dot=False):
        super().__init__()
        self.layers = layers
        self.input = nn.Parameter(torch.empty(rows, columns))
        self.encoder = nn.LSTM(rows + fixed_rows, H, num_layers=layers)
        self.cells = nn.ModuleList(nn.LSTMCell(H, H) for _ in range(layers))
        self.embedding = nn.Embedding(D + 1, H)
        self.memory = nn.Linear(H, H, bias=False)
        self.query = nn.Linear(H, H, bias=False)
        self.score = None if dot else nn.Linear(H, 1, bias=False)
        self.out = nn.Linear(2 * H, D)
        self.start_h = nn.ModuleList(nn.Linear(H, H) for _ in range(layers))
        self.start_c = nn.ModuleList(nn.Linear(H, H) for _ in range(layers))
        self.table = nn.Parameter(torch.empty(D, G))
        for p in self.parameters():
            nn.init.uniform_(p, -0.7, 0.7)

    def forward(self, x, chosen):  # x [G, in], chosen [K, G] -> log p [K, G, D]
        E, (h_end, c_end) = self.encoder(x.unsqueeze(1))
        E = E.squeeze(1)  # [G, H]
        h = [torch.tanh(self.start_h[l](h_end[l])).expand(K, H) for l in range(self.layers)]
        c = [torch.tanh(self.start_c[l](c_end[l])).expand(K, H) for l in range(self.layers)]
        token = torch.full((K,), D, dtype=torch.long)
        steps = []
        for t in range(G):
            u = self.embedding(token)
            for l in range(self.layers):
                h[l], c[l] = self.cells[l](u, (h[l], c[l]))
                u = h[l]
            if self.score is None:
                score = torch.tanh(self.query(u)) @ torch.tanh(self.memory(E)).t()
            else:
                score = self.score(torch.tanh(self.memory(E).unsqueeze(0) + self.query(u).unsqueeze(1))).squeeze(-1)
            seen = torch.softmax(score, -1) @ E
            logits = self.out(torch.cat([u, seen], -1)) + self.table[:, t]
            steps.append(torch.log_softmax(logits, -1))
            token = chosen[:, t]
        return torch.stack(steps, 1)

    def in_store_order(self):
        """Tensors in the order of the store: [out, in] each; torch keeps two LSTM biases, whose sum is ours."""
        yield self.input
        for l in range(self.layers):
            w = "_l%d" % l
            yield from (getattr(self.encoder, "weight_ih" + w), getattr(self.encoder, "weight_hh" + w),
                        (getattr(self.encoder, "bias_ih" + w), getattr(self.encoder, "bias_hh" + w)))
        cell = self.cells[0]
        yield from (cell.weight_ih, cell.weight_hh, (cell.bias_ih, cell.bias_hh))
        yield ("transposed", self.embedding.weight)
        yield from (self.memory.weight, self.query.weight)
        if self.score is not None:
            yield ("transposed", self.score.weight)
        yield from (self.out.weight, self.out.bias)
        for cell in list(self.cells)[1:]:
            yield from (cell.weight_ih, cell.weight_hh, (cell.bias_ih, cell.bias_hh))
        yield self.table
        for l in range(self.layers):
            yield from (self.start_h[l].weight, self.start_h[l].bias, self.start_c[l].weight, self.start_c[l].bias)


def columns(matrix):
    return (matrix if matrix.dim() == 1 else matrix.t()).reshape(-1).tolist()


def value_of(entry):
    if not isinstance(entry, tuple):
        return columns(entry)
    return columns(entry[1].t()) if entry[0] == "transposed" else columns(entry[0] + entry[1])


def gradient_of(entry):
    if not isinstance(entry, tuple):
        return columns(entry.grad)
    return columns(entry[1].grad.t()) if entry[0] == "transposed" else columns(entry[0].grad)


def write(f, name, net, x, extra, chosen, advantage, behaviour, log_p, loss):
    def row(key, values):
        f.write(name + "." + key + " " + " ".join("%.12g" % v for v in values) + "\n")
    row("sizes", [H, D, G, K, net.layers, net.input.shape[0], net.input.shape[1]])
    for entry in net.in_store_order():
        row("parameter", value_of(entry))
    for key, matrix in extra.items():
        row(key, columns(matrix))
    row("chosen", chosen.reshape(-1).tolist())
    row("advantage", advantage.tolist())
    row("behaviour", behaviour.reshape(-1).tolist())
    row("log_p", log_p.reshape(-1).tolist())
    row("loss", [loss.item()])
    loss.backward()
    for entry in net.in_store_order():
        row("gradient", gradient_of(entry))


with open(sys.argv[1], "w") as f:
    V, FIXED = 4, 6
    chosen, advantage = torch.randint(0, D, (K, G)), torch.empty(K).uniform_(-1, 1)
    picked = lambda log_p: log_p.gather(2, chosen.unsqueeze(2)).squeeze(2)

    coloc = Network(EMB, V, FIXED, 1)
    types, fixed = torch.rand(V, G), torch.rand(FIXED, G)
    log_p = coloc(torch.cat([coloc.input @ types, fixed]).t(), chosen)
    loss = (advantage * picked(log_p).sum(1)).mean()
    write(f, "colocrl", coloc, None, {"types": types, "fixed": fixed}, chosen, advantage, torch.empty(0), log_p, loss)

    q = None
    for name, dot in (("spotlight", False), ("chan", True)):
        spotlight = Network(EMB, G, 0, 2, dot)
        if q is None:
            q = torch.log_softmax(torch.empty(K, G, D).uniform_(-1, 1), -1)
        log_p = spotlight(spotlight.input.t(), chosen)
        ratio = torch.exp(picked(log_p) - picked(q))
        kl = (q.exp() * (q - log_p)).sum(2)
        loss = (ratio * advantage.unsqueeze(1) + 0.7 * kl).mean()
        write(f, name, spotlight, None, {}, chosen, advantage, q, log_p, loss)

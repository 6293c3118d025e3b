#!/usr/bin/env python3
"""Placeto's network in PyTorch, float64, every state passed whole and the gradients by autograd. Needs torch.

usage: make_placeto_fixture.py OUT
Writes, as text, for each aggregator: sizes, edges, every parameter in the store's order (column by column), the features of
every state, the nodes decided on, which devices each node may use, weights, the log-probabilities, and the gradients of their
weighted sum.
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
N, D, E, H, ROUNDS, STEPS = 9, 3, 5, 6, 3, 7
FIN = 4 + D
EDGES = [(0, 1), (0, 2), (1, 3), (2, 3), (2, 4), (4, 5), (1, 6), (6, 7)]  # 8 stands alone.


def mlp(*widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class Messages(nn.Module):
    """As peers/placers.py: synchronous rounds each way, then pooling over ancestors, descendants and parallel nodes."""

    def __init__(self):
        super().__init__()
        self.inp = mlp(FIN, H, E)
        self.f_td, self.g_td, self.f_bu, self.g_bu = (mlp(E, H, E) for _ in range(4))
        self.pools = nn.ModuleList(nn.ModuleList([mlp(2 * E, H, E), mlp(E, H, E)]) for _ in range(3))
        self.pol = mlp(5 * E, H, H, D)

    def embed(self, x, A):
        e0 = self.inp(x)
        td, bu = e0, e0
        for _ in range(ROUNDS):
            td = self.g_td(A @ torch.relu(self.f_td(td))) + e0
            bu = self.g_bu(A.t() @ torch.relu(self.f_bu(bu))) + e0
        return torch.cat([td, bu], -1)

    def forward(self, x, A, masks, v):
        e = self.embed(x, A)
        parts = [h(masks[i][v] @ torch.relu(l(e))) for i, (l, h) in enumerate(self.pools)]
        return self.pol(torch.cat(parts + [e[v]], -1))


class SimplePartitioner(Messages):
    def __init__(self):
        nn.Module.__init__(self)
        self.pools = nn.ModuleList(nn.ModuleList([mlp(FIN, H, E), mlp(E, H, E)]) for _ in range(3))
        self.pol = mlp(3 * E + FIN, H, H, D)

    def embed(self, x, A):
        return x


class SimpleAggregator(nn.Module):
    def __init__(self):
        super().__init__()
        self.pools = nn.ModuleList([nn.ModuleList([mlp(FIN, H, E), mlp(E, H, E)])])
        self.pol = mlp(E, H, H, D)

    def forward(self, x, A, masks, v):
        l, h = self.pools[0]
        return self.pol(h(torch.relu(l(x)).sum(0)))


A = torch.zeros(N, N)
for u, v in EDGES:
    A[v, u] = 1
reach = A.clone()
for _ in range(N):
    reach = ((reach + reach @ A) > 0).to(A.dtype)
parallel = 1 - ((reach + reach.t() + torch.eye(N)) > 0).to(A.dtype)
masks = torch.stack([reach, reach.t(), parallel])

with open(sys.argv[1], "w") as out:
    def row(name, values, digits=9):  # Nine digits determine any float32.
        out.write(name + " " + " ".join("%.*g" % (digits, float(v)) for v in values) + "\n")

    for model in (Messages, SimplePartitioner, SimpleAggregator):
        net = model()
        out.write("model " + model.__name__ + "\n")
        row("sizes", [N, D, E, H, ROUNDS, STEPS])
        row("edges", [i for edge in EDGES for i in edge])
        # float32 values, so that both sides compute with the same numbers.
        for p in net.parameters():
            p.data = (1.5 * p.data).float().double()
            row("parameter", p.data.t().reshape(-1) if p.dim() == 2 else p.data)
        nodes = torch.tensor([0, 3, 2, 8, 5, 5, 1])
        x = torch.rand(N, FIN).float().double()
        allowed = torch.ones(N, D, dtype=torch.bool)
        allowed[5, 1] = False
        states, logs = [], []
        for t in range(STEPS):
            if t > 0:  # The node before and the node at hand differ, as in an episode.
                for v in (nodes[t - 1], nodes[t]):
                    x = x.clone()
                    x[v] = torch.rand(FIN).float().double()
            states.append(x)
            logits = net(x, A, masks, nodes[t]).masked_fill(~allowed[nodes[t]], -1e30)
            logs.append(F.log_softmax(logits, -1))
        log_p = torch.stack(logs)
        weights = torch.rand(STEPS, D) * allowed[nodes]
        (torch.where(allowed[nodes], log_p, 0) * weights).sum().backward()
        row("allowed", allowed.reshape(-1))
        row("nodes", nodes)
        for s in states:
            row("state", s.reshape(-1))
        row("weights", weights.reshape(-1))
        row("log_p", log_p.detach().reshape(-1))
        for p in net.parameters():
            row("gradient", p.grad.t().reshape(-1) if p.dim() == 2 else p.grad)

#!/usr/bin/env python3
"""An independent forward pass of the planner's decoder and encoder in float64, written from the equations in
policy/nn/attention_decoder.h and policy/nn/lstm.h. Needs numpy.

usage: make_hierarchical_fixture.py OUT
Writes, as text: sizes, every parameter in the store's order (column by column), the memory-making input, the shift, the
chosen devices, and the resulting log-probabilities and entropies; the gradients of their weighted sum come from central
differences in float64.
"""
import sys
import numpy as np

rng = np.random.default_rng(7)
IN, H, D, G, K = 3, 4, 3, 5, 2
C, T = 2.0, 0.7


def sig(x):
    return 1 / (1 + np.exp(-x))


shapes = [("fwx", (4 * H, IN)), ("fwh", (4 * H, H)), ("fb", (4 * H, 1)), ("bwx", (4 * H, IN)), ("bwh", (4 * H, H)), ("bb", (4 * H, 1)),
          ("wx", (4 * H, H)), ("wh", (4 * H, H)), ("b", (4 * H, 1)), ("embedding", (H, D + 1)), ("group", (H, 2 * H)), ("memory", (H, 2 * H)),
          ("query", (H, H)), ("score", (H, 1)), ("out", (D, 3 * H)), ("bias", (D, 1))]
params = {n: rng.uniform(-0.7, 0.7, s) for n, s in shapes}
x = rng.uniform(-1, 1, (IN, G))
shift = rng.uniform(-0.5, 0.5, (D, G))
chosen = rng.integers(0, D, (K, G))
weights = rng.uniform(-1, 1, (2, K))


def cell(s, c):
    i, f, g, o = s[:H], s[H:2 * H], s[2 * H:3 * H], s[3 * H:]
    c = sig(f) * c + sig(i) * np.tanh(g)
    return sig(o) * np.tanh(c), c


def lstm(p, pre, seq):
    h, c, out = np.zeros(H), np.zeros(H), []
    for col in seq:
        h, c = cell(p[pre + "wx"] @ col + p[pre + "wh"] @ h + p[pre + "b"][:, 0], c)
        out.append(h)
    return out


def forward(p):
    cols = [x[:, t] for t in range(G)]
    E = np.vstack([np.array(lstm(p, "f", cols)).T, np.array(lstm(p, "b", cols[::-1])[::-1]).T])
    res = np.zeros((2, K))
    for s in range(K):
        h, c, prev = np.zeros(H), np.zeros(H), D
        for t in range(G):
            u = p["embedding"][:, prev] + p["group"] @ E[:, t]
            h, c = cell(p["wx"] @ u + p["wh"] @ h + p["b"][:, 0], c)
            q = p["query"] @ h
            score = np.array([p["score"][:, 0] @ np.tanh(p["memory"] @ E[:, g] + q) for g in range(G)])
            a = np.exp(score - score.max())
            a /= a.sum()
            logits = C * np.tanh((p["out"] @ np.concatenate([h, E @ a]) + p["bias"][:, 0]) / T) + shift[:, t]
            lp = logits - np.log(np.exp(logits).sum())
            prev = chosen[s, t]
            res[0, s] += lp[prev]
            res[1, s] -= (np.exp(lp) * lp).sum()
    return res


base = forward(params)
with open(sys.argv[1], "w") as f:
    def row(name, values):
        f.write(name + " " + " ".join("%.17g" % v for v in values) + "\n")
    row("sizes", [IN, H, D, G, K])
    row("constants", [C, T])
    for n, _ in shapes:
        row("parameter", params[n].T.ravel())
    row("x", x.T.ravel())
    row("shift", shift.T.ravel())
    row("chosen", chosen.ravel())
    row("weights", weights.T.ravel())
    row("value", base.T.ravel())
    for n, s in shapes:
        grad = np.zeros(s)
        for i in np.ndindex(*s):
            kept = params[n][i]
            params[n][i] = kept + 1e-6
            above = (forward(params) * weights).sum()
            params[n][i] = kept - 1e-6
            below = (forward(params) * weights).sum()
            params[n][i] = kept
            grad[i] = (above - below) / 2e-6
        row("gradient", grad.T.ravel())

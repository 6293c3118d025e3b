"""Some of the networks of models.py, written again in jax: the way to HLO, which torch has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, nn

Twin = tuple[Callable[..., Any], tuple[Any, ...]]


def of(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def perceptron() -> Twin:
    def run(x: Any, a: Any, ab: Any, b: Any, bb: Any, c: Any, cb: Any) -> Any:
        hidden = nn.relu(x @ a + ab) @ b + bb
        # nn.gelu would take the error function apart into some sixty operations.
        return hidden * 0.5 * (1 + lax.erf(hidden / 2**0.5)) @ c + cb

    return run, (of(32, 128), of(128, 256), of(256), of(256, 256), of(256), of(256, 64), of(64))


def convolution(x: Any, w: Any, b: Any, *, stride: int = 1, pad: int = 0, groups: int = 1) -> Any:
    space = x.ndim - 2
    made = lax.conv_general_dilated(x, w, [stride] * space, [(pad, pad)] * space, feature_group_count=groups)
    return made + b.reshape(-1, *[1] * space)


def depthwise() -> Twin:
    def run(x: Any, first: Any, layers: Any) -> Any:
        x = convolution(x, *first, pad=3)
        for deep, point in layers:
            x = nn.relu(convolution(x, *deep, pad=4, groups=128))
            x = nn.relu(convolution(x, *point))
        return x

    layer = ((of(128, 1, 9), of(128)), (of(128, 128, 1), of(128)))
    return run, (of(2, 16, 200), (of(128, 16, 7), of(128)), [layer] * 3)


def volume() -> Twin:
    def run(x: Any, a: Any, b: Any) -> Any:
        return nn.relu(convolution(nn.relu(convolution(x, *a, pad=1)), *b, groups=8))

    weights = (of(32, 4, 3, 3, 3), of(32)), (of(32, 4, 3, 3, 3), of(32))
    return run, (of(2, 4, 8, 16, 16), *weights)


def pairs() -> Twin:
    def run(x: Any, y: Any, w: Any, b: Any) -> Any:
        return jnp.einsum("noj,nj->no", jnp.einsum("ni,oij->noj", x, w), y) + b

    return run, (of(64, 64), of(64, 48), of(32, 64, 48), of(32))


def recurrent(kind: str) -> Callable[[], Twin]:
    """Two layers, a scan over the steps in each. As jax's libraries have it, an LSTM has one bias."""
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]

    def cell(state: Any, x: Any, wi: Any, wh: Any, bi: Any, bh: Any) -> Any:
        h, c = state
        inner, outer = x @ wi + bi, h @ wh + bh
        if kind == "rnn":
            return (jnp.tanh(inner + outer), c), None
        if kind == "gru":
            (ir, iz, n), (hr, hz, hn) = jnp.split(inner, 3, 1), jnp.split(outer, 3, 1)
            r, z = nn.sigmoid(ir + hr), nn.sigmoid(iz + hz)
            new = jnp.tanh(n + r * hn)
            return (new + z * (h - new), c), None
        i, f, g, o = jnp.split(x @ wi + h @ wh + bi, 4, 1)
        c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return (nn.sigmoid(o) * jnp.tanh(c), c), None

    def run(xs: Any, layers: Any) -> Any:
        for weights in layers:
            zero = jnp.zeros((xs.shape[1], 128))

            def step(state: Any, x: Any, weights: Any = weights) -> Any:
                state, _ = cell(state, x, *weights)
                return state, state[0]

            _, xs = lax.scan(step, (zero, zero), xs)
        return xs

    def layer(width: int) -> Any:
        return of(width, gates * 128), of(128, gates * 128), of(gates * 128), of(gates * 128)

    return lambda: (run, (of(12, 4, 96), [layer(96), layer(128)]))


def encoder() -> Twin:
    """Two layers of attention and a perceptron, normalised behind each."""

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def run(x: Any, layers: Any) -> Any:
        for qkv, qb, out, ob, up, ub, down, db, s1, t1, s2, t2 in layers:
            q, k, v = (each.reshape(2, 48, 4, 32) for each in jnp.split(x @ qkv + qb, 3, -1))
            scores = nn.softmax(jnp.einsum("blhd,bmhd->bhlm", q, k) / 32**0.5)
            mixed = jnp.einsum("bhlm,bmhd->blhd", scores, v).reshape(2, 48, 128)
            x = norm(x + mixed @ out + ob, s1, t1)
            x = norm(x + nn.relu(x @ up + ub) @ down + db, s2, t2)
        return x

    layer = (
        of(128, 384),
        of(384),
        of(128, 128),
        of(128),
        of(128, 256),
        of(256),
        of(256, 128),
        *[of(128)] * 5,
    )
    return run, (of(2, 48, 128), [layer] * 2)


TWINS: dict[str, Callable[[], Twin]] = {
    "perceptron": perceptron,
    "depthwise": depthwise,
    "volume": volume,
    "pairs": pairs,
    "rnn": recurrent("rnn"),
    "gru": recurrent("gru"),
    "lstm": recurrent("lstm"),
    "encoder": encoder,
}


def hlo(name: str) -> str:
    """The network as jax hands it to XLA; one with loops as XLA compiles it, with their counts."""
    run, arguments = TWINS[name]()
    lowered = jax.jit(run).lower(*arguments)
    if name in ("rnn", "gru", "lstm"):
        return str(lowered.compile().as_text())
    return str(lowered.compiler_ir("hlo").as_hlo_text())

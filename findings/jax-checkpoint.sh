#!/usr/bin/env bash
# Library: jax 0.10.2 on a CPU.
# Guess: jax.checkpoint under jit computes products twice, and the compiled gradient needs less temporary memory.
# Behaviour: the compiler for CPUs finds that the second computation equals the first and drops it: the work is that
#   without checkpoint, and the temporary memory is larger, not smaller.
# Output seen: eight layers of tanh(x @ w), in checkpoints of two: 29.3 products lowered, 23.3 compiled, as without
#   checkpoint; temporary memory 12 activations, 9 without.
# Source: found by running; https://docs.jax.dev/en/latest/gradient-checkpointing.html describes what it is for.
# Consequence: memory and work of a step with recomputation cannot be had from a compilation on a CPU. emplace reads the
#   lowered text for what was written, and the compiled text of the device that will run it.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" numpy==2.4.6 jax==0.10.2
python - <<'PYTHON'
import jax
import jax.numpy as jnp
from finding import seen

ROWS, WIDTH = 4096, 64
weights, x = [jnp.ones((WIDTH, WIDTH))] * 8, jnp.ones((ROWS, WIDTH))


def two_layers(x, first, second):
    return jnp.tanh(jnp.tanh(x @ first) @ second)


def network(pair):
    def run(weights, x):
        for i in range(0, len(weights), 2):
            x = pair(x, weights[i], weights[i + 1])
        return x.sum()

    return jax.jit(jax.grad(run)).lower(weights, x)


def products(cost):
    return round(cost["flops"] / (2 * ROWS * WIDTH * WIDTH), 1)


plain, recomputed = network(two_layers), network(jax.checkpoint(two_layers))
seen("products, plain and with checkpoint, lowered", (products(plain.cost_analysis()), products(recomputed.cost_analysis())), (23.2, 29.2))
plain, recomputed = plain.compile(), recomputed.compile()
seen("products, plain and with checkpoint, compiled", (products(plain.cost_analysis()), products(recomputed.cost_analysis())), (23.2, 23.2))
memory = [c.memory_analysis().temp_size_in_bytes / (4 * ROWS * WIDTH) for c in (plain, recomputed)]
print(f"temporary memory in activations: {memory}")
seen("checkpoint needs less memory", memory[1] < memory[0], False)
PYTHON

#!/usr/bin/env bash
# Library: jax 0.10.2 on a CPU.
# Guess: the gradient of a grouped convolution counts the same share of a dense one for any number of groups.
# Behaviour: with a group for each channel, the compiled gradient counts as if a part of it were dense; with fewer groups it
#   does not, nor does the lowered form.
# Output seen: 32 channels of 16 x 16: gradient / forward 3 with 1 and 8 groups, 34 with 32 groups compiled, and 3
#   lowered.
# Source: found by running.
# Consequence: MobileNets and the like are ten times too expensive in the backward pass where costs come from a compiled
#   module. emplace takes the groups from the op, which the text states.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" numpy==2.4.6 jax==0.10.2
python - <<'PYTHON'
import jax
import jax.numpy as jnp
from finding import seen

x = jnp.ones((1, 32, 16, 16))


def lowered(groups, gradient):
    def convolve(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", feature_group_count=groups)

    run = jax.grad(lambda x, kernel: (convolve(x, kernel) ** 2).sum(), argnums=(0, 1)) if gradient else convolve
    return jax.jit(run).lower(x, jnp.ones((32, 32 // groups, 3, 3)))


for groups, before in ((1, (3, 3)), (8, (3, 3)), (32, (3, 34))):
    forward, backward = lowered(groups, False), lowered(groups, True)
    ratios = tuple(round(stage(backward).cost_analysis()["flops"] / stage(forward).cost_analysis()["flops"]) for stage in (lambda l: l, lambda l: l.compile()))
    seen(f"{groups} groups: gradient / forward, lowered and compiled", ratios, before)
PYTHON

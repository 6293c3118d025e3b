#!/usr/bin/env bash
# Library: jax 0.10.2 on a CPU.
# Guess: cost_analysis() of a compiled function multiplies the body of a scan by the number of its iterations.
# Behaviour: a loop counts once, whatever its length; and of a function that is sharded, the lowered form counts the
#   whole program, the compiled one the part of one device.
# Output seen: 4,194,304 flops (one product of 128 x 128 matrices) for 1, 10 and 100 iterations; with four devices
#   4,194,303 lowered and 1,048,576 compiled.
# Source: https://github.com/openxla/xla, HloCostAnalysis, treats a while loop of unknown length as one iteration; here the
#   length is known.
# Consequence: work of a network that scans over its layers is short by the number of layers. emplace multiplies by the
#   trip count that the HLO text states, and reads the flops of a sharded text as those of one device.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" numpy==2.4.6 jax==0.10.2
XLA_FLAGS=--xla_force_host_platform_device_count=4 python - <<'PYTHON'
import jax
import jax.numpy as jnp
import numpy as np
from finding import seen
from jax.sharding import Mesh, NamedSharding, PartitionSpec

x = jnp.ones((128, 128))
ONE = 2 * 128**3


def layers(number):
    def body(carry, weight):
        return carry @ weight, None

    return jax.jit(lambda x, weights: jax.lax.scan(body, x, weights, length=number)[0])


for number in (1, 10, 100):
    compiled = layers(number).lower(x, jnp.ones((number, 128, 128))).compile()
    seen(f"products counted in a scan of {number}", round(compiled.cost_analysis()["flops"] / ONE, 3), 1.0)
mesh = Mesh(np.array(jax.devices()), ("device",))
rows, whole = NamedSharding(mesh, PartitionSpec("device", None)), NamedSharding(mesh, PartitionSpec())
lowered = jax.jit(lambda x, w: x @ w, in_shardings=(rows, whole), out_shardings=rows).lower(x, x)
seen("sharded four ways, lowered", round(lowered.cost_analysis()["flops"] / ONE, 3), 1.0)
seen("sharded four ways, compiled", round(lowered.compile().cost_analysis()["flops"] / ONE, 3), 0.25)
PYTHON

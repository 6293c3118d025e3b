#!/usr/bin/env bash
# Library: jax 0.10.2.
# Guess: memory_analysis() of a compiled function counts all arguments that it is called with.
# Behaviour: arguments that the function does not use are dropped before compilation, and so is their memory, though the
#   caller holds them on the device.
# Output seen: 262,144 bytes for a used matrix of 256 x 256 and an unused one of 1,024 x 1,024; 4,456,448 with
#   keep_unused=True.
# Source: https://docs.jax.dev/en/latest/_autosummary/jax.jit.html (keep_unused); that the analysis follows it was found by
#   running.
# Consequence: a step that gets all parameters but reads some (frozen adapters, the other tower) seems to need less than
#   the device must hold. A placer that reads HLO adds what the caller keeps, or compiles with keep_unused=True.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" numpy==2.4.6 jax==0.10.2
python - <<'PYTHON'
import jax
import jax.numpy as jnp
from finding import seen

used, unused = jnp.ones((256, 256)), jnp.ones((1024, 1024))
for keep, before in ((False, used.nbytes), (True, used.nbytes + unused.nbytes)):
    compiled = jax.jit(lambda a, b: a @ a, keep_unused=keep).lower(used, unused).compile()
    seen(f"bytes of arguments, keep_unused={keep}", compiled.memory_analysis().argument_size_in_bytes, before)
PYTHON

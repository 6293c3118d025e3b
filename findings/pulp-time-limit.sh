#!/usr/bin/env bash
# Library: PuLP 3.3.2 with the CBC that it brings.
# Guess: where CBC stops at its time limit, the status of the problem is not "Optimal".
# Behaviour: the status is "Optimal" as soon as there is any solution. That it is not proven stands in another field,
#   sol_status, as "Solution Found" instead of "Optimal Solution Found".
# Output seen: 40 ops on 5 devices, smallest load: after 2 s the status is "Optimal" (1), and exchanging ops at random
#   finds a placement that is better.
# Source: https://github.com/coin-or/pulp/issues/649, https://github.com/coin-or/pulp/issues/711.
# Consequence: a placement by PuLP is proven only where sol_status is 1; code that tests `status == LpStatusOptimal`
#   takes any placement for the best. Times of "exact" methods in tables may be those of the limit.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" pulp==3.3.2
python - <<'PYTHON'
import random

import pulp
from finding import seen

OPS, DEVICES = 40, 5
numbers = random.Random(5)
times = [numbers.randint(10**6, 10**7) for _ in range(OPS)]
problem = pulp.LpProblem("placement", pulp.LpMinimize)
at = [[pulp.LpVariable(f"at_{op}_{device}", cat="Binary") for device in range(DEVICES)] for op in range(OPS)]
load = pulp.LpVariable("load", lowBound=0)
problem += load
for op in range(OPS):
    problem += pulp.lpSum(at[op]) == 1
for device in range(DEVICES):
    problem += pulp.lpSum(times[op] * at[op][device] for op in range(OPS)) <= load
problem.solve(pulp.PULP_CBC_CMD(msg=0, timeLimit=2, threads=1))
print(f"load of the fullest device after 2 s: {pulp.value(load):.0f}")
seen("status, sol_status", (pulp.LpStatus[problem.status], pulp.LpSolution[problem.sol_status]), ("Optimal", "Solution Found"))

# The same by exchanging ops of two devices while that lowers the load of the fuller one.
parts = [times[device::DEVICES] for device in range(DEVICES)]
for _ in range(200_000):
    a, b = numbers.sample(range(DEVICES), 2)
    i, j = numbers.randrange(len(parts[a])), numbers.randrange(len(parts[b]))
    moved = parts[a][i] - parts[b][j]
    if 0 < moved < sum(parts[a]) - sum(parts[b]):
        parts[a][i], parts[b][j] = parts[b][j], parts[a][i]
exchanged = max(map(sum, parts))
print(f"by exchanges: {exchanged}")
seen("exchanges find a better one", exchanged < round(pulp.value(load)), True)
PYTHON

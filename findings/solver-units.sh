#!/usr/bin/env bash
# Library: SciPy 1.17.1 (HiGHS), OR-Tools 9.15.6755 (CP-SAT).
# Guess: an integer program of a placement has the same answer whether its times are in microseconds or in seconds.
# Behaviour: "optimal" is judged with absolute tolerances of about 1e-6 in the unit of the objective and of the rows. In
#   seconds, a step of 200 us is near that, and one of 200 ns below it: worse assignments are reported as optimal, with
#   a gap of 0 from HiGHS.
# Output seen: HiGHS: the best makespan in us; 0.06 % more in s; four times as much in units of 1000 s (an op of 50 us
#   is 5e-8 there), which it states as 0.0. CP-SAT: the best sum in us; 1.4 % more in s, called OPTIMAL, below it a
#   bound that is 11 % lower.
# Source: the defaults mip_abs_gap, mip_feasibility_tolerance (HiGHS, list of options) and mip_wanted_precision
#   (ortools/sat/sat_parameters.proto); that the status stays "optimal" was found by running.
# Consequence: scale times so that a step is 1e3 to 1e6, and simulate what a solver returns; never print its status as
#   a proof. emplace simulates every placement that it prints.
folder=$(mktemp -d)
. "$(dirname "$0")/environment.bash" numpy==2.4.6 scipy==1.17.1 ortools==9.15.6755
python - <<'PYTHON'
import itertools
import random

import numpy as np
from finding import seen
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp

OPS, DEVICES = 12, 3
numbers = random.Random(3)
MICROSECONDS = [[numbers.uniform(20, 100) for _ in range(DEVICES)] for _ in range(OPS)]


def makespan(choice, times):
    return max(sum(times[op][device] for op in range(OPS) if choice[op] == device) for device in range(DEVICES))


def highs(times):
    """Smallest load of the fullest device: the message, the gap, the objective, and the load of the answer."""
    size = OPS * DEVICES + 1
    rows, low, high = [], [], []
    for op in range(OPS):
        row = np.zeros(size)
        row[op * DEVICES : (op + 1) * DEVICES] = 1
        rows, low, high = [*rows, row], [*low, 1], [*high, 1]
    for device in range(DEVICES):
        row = np.zeros(size)
        row[device : size - 1 : DEVICES] = [times[op][device] for op in range(OPS)]
        row[-1] = -1
        rows, low, high = [*rows, row], [*low, -np.inf], [*high, 0]
    whole = np.ones(size)
    whole[-1] = 0
    goal, top = 1 - whole, np.append(np.ones(size - 1), np.inf)
    found = milp(goal, constraints=LinearConstraint(np.array(rows), low, high), integrality=whole, bounds=Bounds(0, top))
    choice = np.round(found.x[:-1]).reshape(OPS, DEVICES).argmax(1)
    return "Optimal" in found.message, found.mip_gap, found.fun, makespan(choice, MICROSECONDS)


def cp_sat(times):
    """Smallest sum of times where a device takes at most five ops: status, and objective, bound as sums in us."""
    model = cp_model.CpModel()
    at = [[model.new_bool_var("") for _ in range(DEVICES)] for _ in range(OPS)]
    for op in range(OPS):
        model.add_exactly_one(at[op])
    for device in range(DEVICES):
        model.add(sum(at[op][device] for op in range(OPS)) <= 5)
    model.minimize(sum(times[op][d] * at[op][d] for op in range(OPS) for d in range(DEVICES)))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.status_name(solver.solve(model))
    scale = MICROSECONDS[0][0] / times[0][0]
    return status, solver.objective_value * scale, solver.best_objective_bound * scale


def in_unit(scale):
    return [[time * scale for time in row] for row in MICROSECONDS]


every = np.array(list(itertools.product(range(DEVICES), repeat=OPS)), np.int8)
loads = [sum(np.where(every[:, op] == device, MICROSECONDS[op][device], 0) for op in range(OPS)) for device in range(DEVICES)]
best = np.max(loads, axis=0).min()
print(f"best makespan by trying all: {best:.3f} us")
for unit, scale, before in (("us", 1, 1.0), ("s", 1e-6, 1.0006), ("1000 s", 1e-9, 4.1885)):
    optimal, gap, value, load = highs(in_unit(scale))
    seen(f"HiGHS, times in {unit}: optimal, gap, its load / the best", (optimal, gap, round(load / best, 4)), (True, 0.0, before))
seen("what HiGHS states as that load", value, 0.0)
_, least, _ = cp_sat(MICROSECONDS)
for unit, scale, before in (("us", 1, (1.0, 1.0)), ("s", 1e-6, (1.0137, 0.9071))):
    status, value, bound = cp_sat(in_unit(scale))
    seen(f"CP-SAT, times in {unit}: status, sum and bound / the least", (status, (round(value / least, 4), round(bound / least, 4))), ("OPTIMAL", before))
PYTHON

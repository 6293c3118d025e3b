#pragma once
/// Plain stochastic gradient steps.   Paper: Spotlight 2018, section 4  [SPO-SGA]

#include "policy/parameters.h"

namespace emplace::policy {

/// One descent step, parameter -= learning_rate · gradient, of a gradient cut to the global norm `clip_norm`
/// (0: not cut). Descending a loss is ascending its negative. Returns the norm before the cut; if it is not
/// finite, nothing changes.
float sgd_step(ParameterStore& store, float learning_rate, float clip_norm);

}  // namespace emplace::policy

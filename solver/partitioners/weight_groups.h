#pragma once
/// Groups for graphs whose large weights do not fit on one device.

#include "graph/grouping.h"
#include "solver/method.h"

namespace emplace {

/// Two groups per large weight (at least 1/64 of all state): the weight with its updates and with the ops
/// that read it, also through views; and the ops that make its gradient and add it up, which hold tensors of
/// its size. A weight that many ops read, such as that of a recurrent cell, then crosses no link, and neither
/// do its gradients. The other ops are grouped by scope and phase, all time steps of a scope together.
/// Co-location classes stay together.
Grouping weight_groups(const Problem& problem);

}  // namespace emplace

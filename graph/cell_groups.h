#pragma once
/// ColocRL's rules for single models.

#include "graph/grouping.h"

namespace emplace {

/// Groups an unrolled recurrent network by LSTM cell, embedding lookup, attention step and softmax step (with
/// its loss); any other network by block and branch. Rules read scopes (graph/scope_names.h). Forward and
/// backward ops of a scope are together, and state is with its first reader, as are ops that no rule names:
/// those between the parts. A co-location class joins its lowest op. A graph without scopes, or with
/// scopes that the rules do not know, so that one group has more than half of the ops, gets
/// recursive_colocation_groups() if these are more.
/// Paper: ColocRL 2017, sections 3.3 and 4.1  [COL-GROUP]
Grouping cell_groups(const OpGraph& graph);

}  // namespace emplace

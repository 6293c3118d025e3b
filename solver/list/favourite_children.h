#pragma once
/// Favourite children: for each op the reader that should follow it on its device immediately, from the
/// linear program of small-communication-times theory.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "solver/list/list_schedule.h"

namespace emplace {

/// Solves, with Clp, over the kernels i and the edges (i, j) among them:
///   min w   subject to   s_i + p_i + c_ij x_ij <= s_j,   s_i + p_i <= w,   0 <= x_ij <= 1,
///   sum_j x_ij >= out(i) - 1,   sum_i x_ij >= in(j) - 1
/// where p are the best times and c the transfer times over the mean link of the fast devices. j is the
/// favourite child of i if x_ij < 1/2; there is at most one.
///                  Paper: Baechi 2020, section 3.3; Hanen, Munier 1995, section 4
/// `window`: number of ops of one linear program. Larger graphs are split into windows of this size in issue
/// order; edges between windows have no effect. Returns [ops] the favourite child or kNoOp. Errors:
/// kNoPlacement if the solver fails or Clp is not installed.
Result<std::vector<OpId>> favourite_children(const ListTask& task, std::size_t window = 250);

}  // namespace emplace

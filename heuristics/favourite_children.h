#pragma once
/// Which of an op's readers should follow it on its device at once: the small communication times theory's
/// favourite children, from its linear programme.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "heuristics/list_schedule.h"

namespace emplace {

struct FavouriteOptions {
  /// Ops of one linear programme. Larger graphs are cut into so many ops in issue order; an edge from one
  /// piece into another makes nobody a favourite.
  std::size_t window = 250;
};

/// Solves, with Clp, over the kernels i and the edges (i, j) among them:
///   min w   subject to   s_i + p_i + c_ij x_ij <= s_j,   s_i + p_i <= w,   0 <= x_ij <= 1,
///   sum_j x_ij >= out(i) - 1,   sum_i x_ij >= in(j) - 1
/// with p the best times, c the transfer times over the mean link of the fast devices. j is i's favourite
/// child if x_ij < 1/2; there is at most one.     Paper: Baechi 2020, section 3.3; Hanen, Munier 1995,
/// section 4 Returns [ops] the favourite or kNoOp. Errors: kNoPlacement if the
/// solver gives up, or without Clp on this machine.
Result<std::vector<OpId>> favourite_children(const ListTask& task, FavouriteOptions options = {});

}  // namespace emplace

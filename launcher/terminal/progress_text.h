#pragma once
/// The line of progress that every command shows.

#include <string>

namespace emplace::launcher {

struct ProgressFacts {
  std::string activity;    ///< What is being done: "anneal", "scratch", "update 12 of 40".
  double elapsed_s = 0;    ///< Time since the activity's budget started.
  double budget_s = 0;     ///< 0: no limit.
  bool has_best = true;    ///< False for activities that look for no placement.
  double best_s = 0;       ///< Objective of the best placement so far; 0: none fits yet.
  std::string heuristic;   ///< Best heuristic; empty if the best is compared with none.
  double heuristic_s = 0;  ///< Objective of its placement; 0: none fits.
  double bound_s = 0;      ///< Proven lower bound of the objective; 0: unknown.
  std::string details;     ///< Counts of the command, last in the line; may be empty.
};

/// "anneal  12.3 s of 30.0 s  best 425.2 ms (-5.0 % vs scotch, 12.1 % above the bound)  8124 evaluations".
/// Numbers that are not finite count as unknown.
std::string progress_text(const ProgressFacts& facts);

}  // namespace emplace::launcher

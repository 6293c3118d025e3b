#pragma once
/// What of `emplace generate worlds` the laboratory does.

#include <string>

namespace emplace::launcher {

/// Options as a user wrote them; empty: not given.
struct WorldsRequest {
  std::string output, index, count, first, traced, most_ops;
  bool held_out = false;
};

}  // namespace emplace::launcher

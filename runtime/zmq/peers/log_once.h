#pragma once
/// Logs each warning once, for warnings that a peer can trigger at will.

#include <set>
#include <string>
#include <utility>

#include "runtime/log.h"

namespace emplace::runtime {

/// Thread: the I/O loop.
class LogOnce {
 public:
  explicit LogOnce(std::string node) : node_{std::move(node)} {}
  /// Logs the first 256 different texts and drops further ones.
  void warn(const std::string& text) {
    if (logged_.size() < kMax && logged_.insert(text).second) log(LogLevel::kWarning, node_, text);
  }

 private:
  static constexpr std::size_t kMax = 256;
  const std::string node_;
  std::set<std::string> logged_;
};

}  // namespace emplace::runtime

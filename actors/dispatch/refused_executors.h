#pragma once

#include <cstddef>
#include <set>
#include <string>

namespace emplace::actors {

/// Names of executors that joined and get no work. Each is logged once, and is not asked to join again. At
/// most kMost names are known; further ones replace them all, so that names of strangers cannot fill the
/// memory: they are then logged once more. Pure. Owner loop only.
class RefusedExecutors {
 public:
  static constexpr std::size_t kMost = 1024;

  /// Returns true if the name was not refused before.
  bool add(const std::string& name) {
    if (names_.size() >= kMost) names_.clear();
    return names_.insert(name).second;
  }
  void erase(const std::string& name) { names_.erase(name); }
  bool contains(const std::string& name) const { return names_.contains(name); }

 private:
  std::set<std::string> names_;
};

}  // namespace emplace::actors

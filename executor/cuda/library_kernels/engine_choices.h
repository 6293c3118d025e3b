#pragma once
/// Which of its engines cuDNN uses for each convolution.

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace emplace::cuda {

/// Choices by convolution and device properties, so that no convolution is timed twice and devices alike take
/// the same engine. Thread: one at a time.
class EngineChoices {
 public:
  /// `tune`: whether engines are timed; otherwise the first one that fits is taken.
  explicit EngineChoices(bool tune) : tune_{tune} {}

  bool tune() const { return tune_; }
  /// Number of the engine in the order of cuDNN's suggestions.
  std::optional<std::size_t> find(const std::string& convolution) const {
    const auto at = chosen_.find(convolution);
    return at == chosen_.end() ? std::nullopt : std::optional{at->second};
  }
  void keep(std::string convolution, std::size_t number) { chosen_.emplace(std::move(convolution), number); }

 private:
  const bool tune_;
  std::map<std::string, std::size_t> chosen_;
};

}  // namespace emplace::cuda

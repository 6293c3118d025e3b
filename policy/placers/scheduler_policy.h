#pragma once
/// A scheduler policy with its weights, as a file: the shipped one is in the program.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "policy/placers/scheduler.h"

namespace emplace::policy {

/// Bytes of configs/pretrained/scheduler.weights when the program was built.
extern const std::string_view kEmbeddedWeights;

/// The parameters of a network, and the version of their recipe. A plain value.
struct SchedulerPolicy {
  explicit SchedulerPolicy(SchedulerShape sizes = {}, std::uint64_t seed = 1)
      : shape{sizes}, network{store, sizes, seed} {}

  SchedulerShape shape;
  ParameterStore store;
  SchedulerNetwork network;
  std::uint32_t version = 0;

  /// A line of text, the shape, version and SHA-256 of the parameters, then the parameters as little-endian
  /// float32.
  Bytes bytes() const;
  /// "version 1, 3f2a90b1c4d5": version and the first digits of the SHA-256.
  std::string name() const;
};

/// Errors (kInvalid), naming `where`: not such a file, made for another program, or damaged.
Result<SchedulerPolicy> parse_scheduler(std::span<const std::byte> bytes, const std::string& where);
/// Errors: those of read_file() and parse_scheduler().
Result<SchedulerPolicy> load_scheduler(const std::filesystem::path& path);
/// The policy in the program.
const SchedulerPolicy& shipped_scheduler();

}  // namespace emplace::policy

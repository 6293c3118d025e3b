#pragma once
/// What a search may decide besides the devices.

#include <string_view>

#include "base/result.h"

namespace emplace {

/// Thread: a plain value.
struct Allowed {
  bool order = false;      ///< The order in which devices take their ready ops.
  bool recompute = false;  ///< Kernels of the forward pass that run again for the backward pass.
  bool offload = false;    ///< Tensors that wait for it on another device.

  bool memory() const { return recompute || offload; }
  bool operator==(const Allowed&) const = default;
};

/// "recompute,offload,order", "all" or "none"; empty as "none". Errors (kInvalid): another word.
Result<Allowed> parse_allowed(std::string_view text);

}  // namespace emplace

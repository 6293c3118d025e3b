#pragma once
/// Times of collectives, by cost version 2:
///   time_us = (launch_us + traffic / rate) · exp(residual)
///   traffic = 2 (n - 1) / n · bytes of an all-reduce; (n - 1) / n · bytes of the others; bytes of a
///   permutation
/// for n GPUs. Launch, rate and residual, which depends on bytes and n, are those of a table that was fitted
/// to measurements of NCCL over links of that kind; beyond its knots the nearest one counts, so 16 GPUs have
/// the residual of 8. For links without a table the launch is that of a kernel and the latency of the link,
/// the rate is the link's, and the residual 0. Alone, a GPU exchanges nothing: a collective costs its launch.

#include <string_view>

#include "placement/costs/kernel_model.h"

namespace emplace {

/// The link over which a GPU exchanges its part.
struct PeerLink {
  std::string_view name;   ///< In the catalogue; empty: not of the catalogue, so that it has no table.
  double bytes_per_s = 0;  ///< 0: unknown.
  double latency_s = 0;
  bool operator==(const PeerLink&) const = default;
};

struct CollectiveTime {
  double us = 0;
  double floor_us = 0;  ///< The traffic at the link's rate.
  CostTrust trust;
};

/// The time of a collective on a device that takes `launch_us` for a kernel. @pre is_collective(), and the
/// link is known or the collective has one GPU. Pure; any thread.
CollectiveTime collective_time(const GraphKernels::Kernel& kernel, const PeerLink& link, double launch_us,
                               const FittedTables& tables = FittedTables::shipped());

}  // namespace emplace

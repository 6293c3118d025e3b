#include "policy/placers/schedule_features.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "policy/placers/schedule_world.h"

namespace emplace::policy {
namespace {

constexpr std::size_t kBins = 512;  // Bins of the schedule without transfers.
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

double log_ratio(double ratio) { return std::log1p(std::max(0.0, ratio)); }

/// Every kernel on the fastest device that it may use, as if devices were unlimited.
struct KernelPaths {
  std::vector<double> ns;     // [kernels]
  std::vector<double> start;  // [kernels] Longest path to the kernel, without transfers.
  std::vector<double> up;     // [kernels] Longest path from its start to the end, without transfers.
  std::vector<double> down;   // [kernels] As `start`, with transfers as likely as two devices differ.
  std::vector<double> rank;   // [kernels] As `up`, with such transfers.
  double work = 0;            // Sum of `ns`, at least 1.
  double longest = 1;         // Longest path without transfers.
  double longest_sent = 1;    // Longest path with transfers.
};

KernelPaths fastest_kernels(const ScheduleWorld& world) {
  KernelPaths paths;
  paths.ns.resize(world.num_kernels());
  for (std::size_t k = 0; k < paths.ns.size(); ++k) {
    paths.ns[k] = kUnbounded;
    for (std::size_t d = 0; d < world.num_devices(); ++d)
      if (world.allowed(world.unit_of(k)).test(d)) paths.ns[k] = std::min(paths.ns[k], world.time_ns(d, k));
    paths.work += paths.ns[k];
  }
  paths.work = std::max(paths.work, 1.0);
  return paths;
}

/// Finds the longest paths: first those from the start, then those to the end.
void find_paths(const ScheduleWorld& world, KernelPaths& paths) {
  const std::vector<double>& ns = paths.ns;
  double fast = 0;
  for (std::size_t d = 0; d < world.num_devices(); ++d) fast += world.is_fast(d) ? 1 : 0;
  const double apart = fast > 1 ? 1 - 1 / fast : 0;
  const TransferLine& mean = world.mean_line();
  const auto crossing_ns = [&](const ScheduleWorld::Read& read, std::size_t reader) {
    if (read.owner_unit == world.unit_of(reader)) return 0.0;
    return apart * (mean.latency_ns + mean.ns_per_byte * world.bytes(read.buffer));
  };
  for (std::vector<double>* const each : {&paths.start, &paths.up, &paths.down, &paths.rank})
    each->assign(ns.size(), 0);
  for (std::size_t k = 0; k < ns.size(); ++k) {
    for (const ScheduleWorld::Read& read : world.reads(k)) {
      if (read.maker < 0) continue;
      const auto maker = static_cast<std::size_t>(read.maker);
      paths.start[k] = std::max(paths.start[k], paths.start[maker] + ns[maker]);
      paths.down[k] = std::max(paths.down[k], paths.down[maker] + ns[maker] + crossing_ns(read, k));
    }
    paths.longest = std::max(paths.longest, paths.start[k] + ns[k]);
  }
  for (std::size_t k = ns.size(); k-- > 0;) {
    paths.up[k] += ns[k];
    paths.rank[k] += ns[k];
    paths.longest_sent = std::max(paths.longest_sent, paths.rank[k] + paths.down[k]);
    for (const ScheduleWorld::Read& read : world.reads(k)) {
      if (read.maker < 0) continue;
      const auto maker = static_cast<std::size_t>(read.maker);
      paths.up[maker] = std::max(paths.up[maker], paths.up[k]);
      paths.rank[maker] = std::max(paths.rank[maker], paths.rank[k] + crossing_ns(read, k));
    }
  }
}

/// What the kernels of a unit add up to.
struct UnitSums {
  double ns = 0, width = 0;
  std::array<double, 3> phase{};
  std::size_t kernels = 0, first = 0, last = 0;
  double rank = 0, up = 0, path = 0, path_sent = 0, down = kUnbounded;
};

/// [units] With the number of devices that the schedule without transfers keeps busy beside the unit.
std::vector<UnitSums> sums_of_units(const ScheduleWorld& world, const LoweredGraph& lowered,
                                    const KernelPaths& paths) {
  const std::vector<double>&ns = paths.ns, &start = paths.start;
  std::array<double, kBins> busy{};
  const auto bin = [&](double at) {
    return std::min(kBins - 1, static_cast<std::size_t>(at / paths.longest * static_cast<double>(kBins)));
  };
  for (std::size_t k = 0; k < ns.size(); ++k) {
    const std::size_t first = bin(start[k]), last = bin(start[k] + ns[k]);
    for (std::size_t b = first; b <= last; ++b) busy[b] += ns[k] / static_cast<double>(last - first + 1);
  }
  const std::span<const OpId> kernels = lowered.kernels();
  std::vector<UnitSums> sums(world.num_units());
  for (std::size_t k = 0; k < ns.size(); ++k) {
    UnitSums& sum = sums[world.unit_of(k)];
    if (sum.kernels++ == 0) sum.first = k;
    sum.last = k;
    sum.ns += ns[k];
    sum.width += ns[k] * busy[bin(start[k] + ns[k] / 2)] / (paths.longest / static_cast<double>(kBins));
    sum.phase[static_cast<std::size_t>(lowered.graph().phase(kernels[k]))] += ns[k];
    sum.rank = std::max(sum.rank, paths.rank[k]);
    sum.up = std::max(sum.up, paths.up[k]);
    sum.path = std::max(sum.path, paths.up[k] + start[k]);
    sum.path_sent = std::max(sum.path_sent, paths.rank[k] + paths.down[k]);
    sum.down = std::min(sum.down, paths.down[k]);
  }
  return sums;
}

/// The graph on the machine as a whole.
struct WholeSums {
  double all_memory = 0, largest_memory = 0;  // Bytes on the fast devices; at least 1.
  double peak = 0, sent_ns = 0;
  double with_kernels = 0;  // Units.
  double slower = 0;        // Devices.
};

WholeSums sums_of_all(const ScheduleWorld& world, const std::vector<UnitSums>& sums) {
  const std::size_t count = world.num_devices();
  WholeSums all;
  for (std::size_t d = 0; d < count; ++d) {
    if (!world.is_fast(d) && count > 1) continue;
    all.all_memory += static_cast<double>(world.memory(d));
    all.largest_memory = std::max(all.largest_memory, static_cast<double>(world.memory(d)));
  }
  all.all_memory = std::max(1.0, all.all_memory);
  all.largest_memory = std::max(1.0, all.largest_memory);
  for (const float live : world.all_live()) all.peak = std::max(all.peak, static_cast<double>(live));
  for (std::size_t u = 0; u < world.num_units(); ++u) all.sent_ns += world.transfer_ns(u);
  for (const UnitSums& sum : sums) all.with_kernels += sum.kernels > 0 ? 1 : 0;
  for (std::size_t d = 0; d < count; ++d) all.slower += world.speed(d) < 0.95 ? 1 : 0;
  return all;
}

/// Writes the features of one unit after the other.
class FeatureColumns {
 public:
  FeatureColumns(const ScheduleWorld& world, const KernelPaths& paths, const std::vector<UnitSums>& sums)
      : world_{world}, paths_{paths}, sums_{sums}, all_{sums_of_all(world, sums)} {
    features_ = Matrix::Zero(ScheduleFeatures::kRows, static_cast<Eigen::Index>(world.num_units()));
  }
  std::size_t with_kernels() const { return static_cast<std::size_t>(all_.with_kernels); }
  Matrix features() && {
    for (unit_ = 0; unit_ < world_.num_units(); ++unit_) {
      if (sums_[unit_].kernels == 0) continue;
      row_ = 0;
      put_times(sums_[unit_]);
      put_memory();
      put_place(sums_[unit_]);
      put_whole();
      EMPLACE_CHECK(row_ == ScheduleFeatures::kRows, "every feature of a unit has a row");
    }
    return std::move(features_);
  }

 private:
  void put(double value) {
    features_(row_++, static_cast<Eigen::Index>(unit_)) = static_cast<float>(std::clamp(value, -6.0, 6.0));
  }
  void put_times(const UnitSums& sum) {
    const double own = std::max(1.0, sum.ns), mean_ns = paths_.work / std::max(1.0, all_.with_kernels);
    double out = 0;
    for (const ScheduleWorld::Neighbour& target : world_.targets(unit_))
      out += static_cast<double>(target.mean_ns);
    put(std::log(own / mean_ns));
    put(std::log1p(own / world_.ideal_ns() * 10));
    put(log_ratio(world_.transfer_ns(unit_) / own));
    put(log_ratio(out / own));
    put(log_ratio(static_cast<double>(world_.sources(unit_).size())));
    put(log_ratio(static_cast<double>(world_.targets(unit_).size())));
    put(sum.rank / paths_.longest_sent);
    put(sum.down / paths_.longest_sent);
    put(sum.path_sent / paths_.longest_sent);
    put(sum.up / paths_.longest);
    put(sum.path / paths_.longest);
  }
  void put_memory() {
    double live = 0, state = kUnbounded;
    for (const float bytes : world_.live(unit_)) {
      live = std::max(live, static_cast<double>(bytes));
      state = std::min(state, static_cast<double>(bytes));
    }
    put(std::log1p(10 * state / all_.largest_memory));
    put(std::log1p(10 * live / all_.largest_memory));
  }
  void put_place(const UnitSums& sum) {
    const std::size_t count = world_.num_devices();
    const double own = std::max(1.0, sum.ns);
    const auto n = static_cast<double>(world_.num_kernels());
    double slowest = 0, choices = 0;
    for (std::size_t d = 0; d < count; ++d) {
      if (!world_.allowed(unit_).test(d)) continue;
      ++choices;
      slowest = std::max(slowest, world_.unit_ns(d, unit_));
    }
    for (const double phase : sum.phase) put(phase / own);
    put(static_cast<double>(sum.first) / n);
    put(static_cast<double>(sum.last - sum.first) / n);
    put(std::log(std::max(1.0, slowest) / std::max(1.0, world_.best_ns(unit_))) / 2);
    put(log_ratio(sum.width / own));
    put(log_ratio(world_.mean_line().latency_ns * static_cast<double>(sum.kernels) / own));
    put(log_ratio(static_cast<double>(sum.kernels)));
    put(choices / static_cast<double>(count));
  }
  /// The same for all units.
  void put_whole() {
    const auto n = static_cast<double>(world_.num_kernels()),
               count = static_cast<double>(world_.num_devices());
    const double mean_kernel_ns = paths_.work / std::max<double>(1, n);
    put(std::log(paths_.work / paths_.longest));
    put(std::log(paths_.longest_sent / paths_.longest));
    put(std::log1p(all_.sent_ns / paths_.work));
    put(std::log1p(world_.mean_line().latency_ns / std::max(1.0, mean_kernel_ns)));
    put(std::min(3.0, all_.peak / all_.all_memory));
    put(std::min(3.0, all_.peak / all_.largest_memory));
    put(std::log(count));
    put(std::log(std::max(1e-3, paths_.work / world_.ideal_ns())));
    put(all_.slower / count);
    put(std::log(all_.with_kernels) / 3);
    put(std::log(n / all_.with_kernels));
  }

  const ScheduleWorld& world_;
  const KernelPaths& paths_;
  const std::vector<UnitSums>& sums_;
  const WholeSums all_;
  Matrix features_;
  std::size_t unit_ = 0;
  Eigen::Index row_ = 0;
};

}  // namespace

ScheduleFeatures schedule_features(const ScheduleWorld& world, const LoweredGraph& lowered) {
  // 1. Each kernel at its fastest, and the longest paths through all of them.
  KernelPaths paths = fastest_kernels(world);
  find_paths(world, paths);
  // 2. What the kernels of each unit add up to.
  const std::vector<UnitSums> sums = sums_of_units(world, lowered, paths);
  // 3. The features.
  FeatureColumns columns{world, paths, sums};
  ScheduleFeatures features;
  features.num_choices = columns.with_kernels();
  features.of_unit = std::move(columns).features();
  features.rank_ns = std::move(paths.rank);
  return features;
}

}  // namespace emplace::policy

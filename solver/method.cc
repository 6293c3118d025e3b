#include "solver/method.h"

#include <array>
#include <string>
#include <utility>

#include "base/text/words.h"
#include "solver/list/list_methods.h"
#include "solver/partitioners/partition_methods.h"
#include "solver/partitioners/simple_methods.h"
#include "solver/search/anneal.h"
#include "solver/search/local_search.h"
#include "solver/towers/towers.h"

namespace emplace {

bool better(const Measurement& a, const Measurement& b) {
  if (a.valid != b.valid) return a.valid;
  if (!a.valid) {  // A placement that did not run at all may be far from fitting, so it is worse.
    const bool a_measured = out_of_memory(a.valid, a.failure), b_measured = out_of_memory(b.valid, b.failure);
    if (a_measured != b_measured) return a_measured;
    if (a.bytes_over != b.bytes_over) return a.bytes_over < b.bytes_over;
  }
  return a.step_time_s < b.step_time_s;
}

std::span<const Method* const> all_methods() {
  static const SingleDevice single_cpu{"cpu"}, single_gpu{"gpu"};
  static const RandomGroups random;
  static const RoundRobin round_robin;
  static const Expert expert;
  static const Contiguous contiguous;
  static const Scotch scotch;
  static const MinCut mincut, mincut_cpu{MinCut::Parts::kAllDevices};
  static const Metis metis;
  static const MTopo m_topo;
  static const MEtf m_etf;
  static const MSct m_sct;
  static const Heft heft;
  static const std::array<const Method*, 14> methods{&single_cpu, &single_gpu, &random, &round_robin, &expert,
                                                     &contiguous, &scotch,     &mincut, &mincut_cpu,  &metis,
                                                     &m_topo,     &m_etf,      &m_sct,  &heft};
  return methods;
}

std::span<const Method* const> search_methods() {
  static const LocalSearch local_search;
  static const Anneal anneal;
  static const std::array<const Method*, 2> methods{&local_search, &anneal};
  return methods;
}

std::span<const Method* const> transforming_methods() {
  static const TowersSync sync;
  static const TowersAsync async;
  static const std::array<const Method*, 2> methods{&sync, &async};
  return methods;
}

Result<const Method*> find_compared_method(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& methods : {all_methods(), search_methods(), transforming_methods()}) {
    for (const Method* method : methods) {
      if (method->name() == name) return method;
      names.push_back(method->name());
    }
  }
  const std::string_view near = nearest_word(name, names);
  std::string all;
  for (const std::string_view known : names) all.append(all.empty() ? "methods: " : ", ").append(known);
  return invalid("method '" + printable(name, 60) + "'", "is unknown",
                 near.empty() ? all : "did you mean '" + std::string{near} + "'?");
}

Result<const Method*> find_method(std::string_view name) {
  auto method = find_compared_method(name);
  if (method && (*method)->transforms_graph()) {
    return invalid("method '" + std::string{name} + "'",
                   "measures a transformed graph and returns no placement", "use it in `compare`");
  }
  return method;
}

Result<Unit> Best::offer(Placement placement) {
  problem_.constraints.repair(placement);
  Measurement measurement;
  EMPLACE_TRY(executor_.measure(placement, measurement));
  ++found_.evaluations;
  last_fits_ = measurement.valid;
  if (!found_.placement.empty() && !better(measurement, found_.measurement)) return Unit{};
  found_.placement = std::move(placement);
  found_.measurement = std::move(measurement);
  return Unit{};
}

Result<Found> Best::take() && {
  if (found_.placement.empty()) return Error{Errc::kNoPlacement, "this method has no suitable device"};
  return std::move(found_);
}

std::vector<DeviceId> devices_of_kind(const DeviceSet& devices, std::string_view kind) {
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (devices[static_cast<DeviceId>(d)].profile.kind == kind) ids.push_back(static_cast<DeviceId>(d));
  }
  return ids;
}

std::vector<DeviceId> fast_devices(const DeviceSet& devices) {
  std::vector<DeviceId> ids = devices_of_kind(devices, "gpu");
  if (ids.empty()) ids = devices_of_kind(devices, "cpu");
  return ids;
}

std::vector<DeviceId> all_devices(const DeviceSet& devices) {
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < devices.size(); ++d) ids.push_back(static_cast<DeviceId>(d));
  return ids;
}

}  // namespace emplace

#include "placement/costs/collective_model.h"

#include <algorithm>
#include <cmath>

namespace emplace {
namespace {

/// Bytes that a GPU sends over its link.
double sent_bytes(KernelKind kind, double bytes, double gpus) {
  if (kind == KernelKind::kPermute) return bytes;
  return (kind == KernelKind::kAllReduce ? 2 : 1) * (gpus - 1) / gpus * bytes;
}

}  // namespace

CollectiveTime collective_time(const GraphKernels::Kernel& kernel, const PeerLink& link, double launch_us,
                               const FittedTables& tables) {
  const KernelShape& shape = kernel.shape;
  const double gpus = shape.at[1];
  const CostTrust data_sheet{CostSource::kDataSheet, tables.data_sheet().mean};
  if (gpus <= 1) return {.us = launch_us, .trust = data_sheet};
  const double bytes = sent_bytes(shape.kind, shape.at[0], gpus);
  const FittedTable* const table = tables.find(link.name, shape.kind, Arithmetic::kFp32);
  const double floor_us = bytes / (link.bytes_per_s * 1e-6);
  if (table == nullptr) return {launch_us + link.latency_s * 1e6 + floor_us, floor_us, data_sheet};
  const double us =
      (table->launch_us + bytes / (table->gbs * 1e3)) * std::exp(tables.residual(*table, kernel.point));
  // Switches that add what GPUs send may need less traffic.
  return {us, std::min(us, floor_us), {CostSource::kMeasured, table->error.mean}};
}

}  // namespace emplace

#pragma once
#include <cstdint>
#include <string>

#include "messages/codec.h"
#include "messages/measurement_columns.h"
#include "messages/type_ids.h"

namespace emplace::messages {

/// executor -> dispatcher. The measurements of one lease, in the order of its placements.
struct PlacementMeasured : MeasurementColumns {
  static constexpr std::uint16_t kType = number(Type::kPlacementMeasured);
  std::uint64_t placement_id = 0;  ///< Copied from LeaseGranted.
  std::uint64_t lease_epoch = 0;   ///< Copied from LeaseGranted.
  std::string host;
  std::string executor;       ///< Actor name.
  std::string executor_kind;  ///< "sim", "cpu", …
  double wall_s = 0;          ///< Time spent measuring all of them [s].
  std::string
      error;  ///< Why the executor could not measure; empty: no error. With an error the columns are ignored.
  EMPLACE_FIELDS_BESIDE(MeasurementColumns, placement_id, lease_epoch, host, executor, executor_kind, wall_s,
                        error)
};

}  // namespace emplace::messages

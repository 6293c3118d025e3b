#pragma once
/// Measurements in batches, one vector per quantity: how they travel between actors.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "placement/measurement.h"

namespace emplace::messages {

/// The columns of `count` measurements (placement/measurement.h) on `num_devices` devices, row by row.
/// A new quantity needs a column here and a line in measurement_columns.cc. Thread: one.
struct MeasurementColumns {
  std::uint32_t count = 0;
  std::uint32_t num_devices = 0;
  std::vector<std::uint8_t> valid;        ///< [count] 0 or 1.
  std::vector<double> step_time_s;        ///< [count]
  std::vector<std::int64_t> bytes_over;   ///< [count]
  std::vector<std::int64_t> bytes_moved;  ///< [count]
  std::vector<std::int64_t> peak_bytes;   ///< [count, num_devices]
  std::vector<double> busy_s;             ///< [count, num_devices]
  // Empty columns: every row has the default, as all simulated measurements do.
  std::vector<double> synthetic_shares;      ///< [count] or empty.
  std::vector<std::string> failures;         ///< [count] or empty.
  std::vector<std::uint8_t> labels;          ///< [count] or empty. MeasurementLabel.
  std::vector<std::uint32_t> sample_counts;  ///< [count] or empty.
  std::vector<double> samples_s;             ///< [sum of sample_counts] one row's samples after the other's.
  EMPLACE_FIELDS(count, num_devices, valid, step_time_s, bytes_over, bytes_moved, peak_bytes, busy_s,
                 synthetic_shares, failures, labels, sample_counts, samples_s)

  /// Makes room for `rows` measurements of `devices` devices; all of them get their defaults.
  void resize(std::uint32_t rows, std::uint32_t devices);
  /// Writes row `row`. What `measurement` has for further devices is left out; for missing ones it is 0.
  /// @pre row < count, consistent().
  void set(std::uint32_t row, const Measurement& measurement);
  /// Row `row`, into `out`, whose memory is used again. @pre row < count, consistent().
  void get(std::uint32_t row, Measurement& out) const;
  Measurement at(std::uint32_t row) const;
  /// Copies all rows of `from` to the rows from `row` on. @pre both are consistent(), and they fit.
  void copy_rows(const MeasurementColumns& from, std::uint32_t row);
  /// The samples of row `row`; none if they are not known. @pre row < count, consistent().
  std::span<const double> samples_of(std::uint32_t row) const;
  /// True if every column has the length that `count` and `num_devices` say. Ask before indexing what came
  /// from outside.
  bool consistent() const;
};

}  // namespace emplace::messages

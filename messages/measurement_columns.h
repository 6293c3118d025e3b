#pragma once
/// Batches of measurements, one vector per quantity: the form in messages between actors.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "placement/measurement.h"

namespace emplace::messages {

/// `count` measurements (placement/measurement.h) on `num_devices` devices as columns, row-major. A new
/// quantity needs a column here and a line in measurement_columns.cc. Thread: one.
struct MeasurementColumns {
  std::uint32_t count = 0;
  std::uint32_t num_devices = 0;
  std::vector<std::uint8_t> valid;        ///< [count] 0 or 1.
  std::vector<double> step_time_s;        ///< [count]
  std::vector<std::int64_t> bytes_over;   ///< [count]
  std::vector<std::int64_t> bytes_moved;  ///< [count]
  std::vector<std::int64_t> peak_bytes;   ///< [count, num_devices]
  std::vector<double> busy_s;             ///< [count, num_devices]
  // An empty column means that every row has the default. Simulated measurements leave all of these empty.
  std::vector<double> synthetic_shares;      ///< [count] or empty.
  std::vector<std::string> failures;         ///< [count] or empty.
  std::vector<std::uint8_t> labels;          ///< [count] or empty. Values of MeasurementLabel.
  std::vector<std::uint32_t> sample_counts;  ///< [count] or empty.
  std::vector<double> samples_s;             ///< [sum of sample_counts] Samples of all rows, row after row.
  EMPLACE_FIELDS(count, num_devices, valid, step_time_s, bytes_over, bytes_moved, peak_bytes, busy_s,
                 synthetic_shares, failures, labels, sample_counts, samples_s)

  /// Resizes to `rows` measurements on `devices` devices; all values are defaults.
  void resize(std::uint32_t rows, std::uint32_t devices);
  /// Writes row `row`. Values of `measurement` for further devices are dropped; missing ones become 0.
  /// @pre row < count, consistent().
  void set(std::uint32_t row, const Measurement& measurement);
  /// Reads row `row` into `out` and reuses its memory. @pre row < count, consistent().
  void get(std::uint32_t row, Measurement& out) const;
  Measurement at(std::uint32_t row) const;
  /// Copies all rows of `from` to the rows from `row` on. @pre both are consistent(), and the rows fit.
  void copy_rows(const MeasurementColumns& from, std::uint32_t row);
  /// The samples of row `row`; empty if unknown. @pre row < count, consistent().
  std::span<const double> samples_of(std::uint32_t row) const;
  /// True if every column has the length that `count` and `num_devices` imply. Check it before indexing
  /// columns of a received message.
  bool consistent() const;
};

}  // namespace emplace::messages

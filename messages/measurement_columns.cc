#include "messages/measurement_columns.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace emplace::messages {
namespace {

/// The single list that maps the fields of a measurement to columns. `row` copies in one direction or the
/// other.
template <class Columns, class OneMeasurement, class Row>
void tie(Columns& columns, OneMeasurement& m, Row&& row) {
  row.dense(columns.valid, m.valid);
  row.dense(columns.step_time_s, m.step_time_s);
  row.dense(columns.bytes_over, m.bytes_over);
  row.dense(columns.bytes_moved, m.bytes_moved);
  row.per_device(columns.peak_bytes, m.peak_bytes);
  row.per_device(columns.busy_s, m.busy_s);
  row.sparse(columns.synthetic_shares, m.synthetic_share);
  row.sparse(columns.failures, m.failure);
  row.sparse(columns.labels, m.label);
  row.ragged(columns.sample_counts, columns.samples_s, m.samples_s);
}

std::ptrdiff_t samples_before(const std::vector<std::uint32_t>& counts, std::size_t row) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(row),
                         std::ptrdiff_t{0});
}

struct Put {
  std::size_t row, rows, devices;

  template <class C, class F>
  void dense(std::vector<C>& column, const F& field) const {
    column[row] = static_cast<C>(field);
  }
  template <class T>
  void per_device(std::vector<T>& column, const std::vector<T>& field) const {
    const auto begin = column.begin() + static_cast<std::ptrdiff_t>(row * devices);
    const auto known = static_cast<std::ptrdiff_t>(std::min(devices, field.size()));
    std::fill(std::copy_n(field.begin(), known, begin), begin + static_cast<std::ptrdiff_t>(devices), T{});
  }
  template <class C, class F>
  void sparse(std::vector<C>& column, const F& field) const {
    if (column.empty() && field == F{}) return;
    column.resize(rows);
    column[row] = static_cast<C>(field);
  }
  void ragged(std::vector<std::uint32_t>& counts, std::vector<double>& values,
              const std::vector<double>& field) const {
    if (counts.empty() && field.empty()) return;
    counts.resize(rows);
    const auto begin = values.begin() + samples_before(counts, row);
    values.insert(values.erase(begin, begin + counts[row]), field.begin(), field.end());
    counts[row] = static_cast<std::uint32_t>(field.size());
  }
};

struct Get {
  std::size_t row, devices;

  template <class C, class F>
  void dense(const std::vector<C>& column, F& field) const {
    field = static_cast<F>(column[row]);
  }
  template <class T>
  void per_device(const std::vector<T>& column, std::vector<T>& field) const {
    const auto begin = column.begin() + static_cast<std::ptrdiff_t>(row * devices);
    field.assign(begin, begin + static_cast<std::ptrdiff_t>(devices));
  }
  template <class C, class F>
  void sparse(const std::vector<C>& column, F& field) const {
    field = column.empty() ? F{} : static_cast<F>(column[row]);
  }
  void ragged(const std::vector<std::uint32_t>& counts, const std::vector<double>& values,
              std::vector<double>& field) const {
    field.clear();
    if (counts.empty()) return;
    const auto begin = values.begin() + samples_before(counts, row);
    field.assign(begin, begin + counts[row]);
  }
};

}  // namespace

void MeasurementColumns::resize(std::uint32_t rows, std::uint32_t devices) {
  *this = {};
  count = rows;
  num_devices = devices;
  const std::size_t cells = std::size_t{rows} * devices;
  valid.resize(rows);
  step_time_s.resize(rows);
  bytes_over.resize(rows);
  bytes_moved.resize(rows);
  peak_bytes.resize(cells);
  busy_s.resize(cells);
}

void MeasurementColumns::set(std::uint32_t row, const Measurement& measurement) {
  EMPLACE_CHECK(row < count, "row out of range");
  tie(*this, measurement, Put{row, count, num_devices});
}

void MeasurementColumns::get(std::uint32_t row, Measurement& out) const {
  EMPLACE_CHECK(row < count, "row out of range");
  tie(*this, out, Get{row, num_devices});
}

Measurement MeasurementColumns::at(std::uint32_t row) const {
  Measurement m;
  get(row, m);
  return m;
}

void MeasurementColumns::copy_rows(const MeasurementColumns& from, std::uint32_t row) {
  Measurement m;
  for (std::uint32_t i = 0; i < from.count; ++i) {
    from.get(i, m);
    set(row + i, m);
  }
}

std::span<const double> MeasurementColumns::samples_of(std::uint32_t row) const {
  if (sample_counts.empty()) return {};
  return std::span{samples_s}.subspan(static_cast<std::size_t>(samples_before(sample_counts, row)),
                                      sample_counts[row]);
}

bool MeasurementColumns::consistent() const {
  const std::size_t cells = std::size_t{count} * num_devices;
  const auto all = [&](const auto& column) { return column.size() == count; };
  const auto all_or_none = [&](const auto& column) { return column.empty() || all(column); };
  return all(valid) && all(step_time_s) && all(bytes_over) && all(bytes_moved) &&
         peak_bytes.size() == cells && busy_s.size() == cells && all_or_none(synthetic_shares) &&
         all_or_none(failures) && all_or_none(labels) && all_or_none(sample_counts) &&
         std::accumulate(sample_counts.begin(), sample_counts.end(), std::uint64_t{0}) == samples_s.size();
}

}  // namespace emplace::messages

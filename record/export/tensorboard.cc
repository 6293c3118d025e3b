#include <fmt/core.h>
#include <nmmintrin.h>
#include <tensorboard_event.pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "base/file.h"
#include "base/text/words.h"
#include "record/export/run_formats.h"

namespace emplace::record {
namespace {

/// CRC-32C by the instruction of x86-64-v3.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint64_t crc = 0xffff'ffff;
  while (bytes.size() >= sizeof crc) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    crc = _mm_crc32_u64(crc, word);
    bytes.remove_prefix(sizeof word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const char byte : bytes) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(byte));
  return ~rest;
}

/// Little-endian, as in all TFRecord fields.
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// TFRecord's masked checksum: it stays meaningful for data that contains checksums.
std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return raw((crc >> 15 | crc << 17) + 0xa282ead8u);
}

std::string record_of(std::string_view data) {
  const std::string length = raw(std::uint64_t{data.size()});
  return length + masked_crc(length) + std::string{data} + masked_crc(data);
}

/// "events.out.tfevents.1700000000.host". The name is a function of the run, so that a second export
/// replaces the first.
std::string file_name(const RunFacts& facts) {
  std::string host = printable(facts.host, 60);
  std::replace(host.begin(), host.end(), '/', '-');
  return fmt::format("events.out.tfevents.{}.{}", facts.started_wall_ns / 1'000'000'000,
                     host.empty() ? "host" : host);
}

class TensorBoard final : public RunExporter {
 public:
  explicit TensorBoard(const RunExport& what)
      : path_{what.output / file_name(what.facts)},
        file_{path_},
        started_s_{static_cast<double>(what.facts.started_wall_ns) / 1e9} {
    Event first;
    first.set_wall_time(started_s_);
    first.set_file_version("brain.Event:2");
    file_.write(record_of(first.SerializeAsString()));
  }

  Needs needs() const override { return {.updates = true, .consumed = true}; }

  Result<Unit> episode(const LogRow& row) override {
    for (const MeasurementRow& m : row.measurements)
      if (m.valid) best_s_ = std::min(best_s_, m.step_time_s);
    measurements_ += row.measurements.size();
    const double wall_s = seconds(row.episode.wall_ns);
    begin(wall_s, measurements_);
    if (std::isfinite(best_s_)) scalar("cost/step_time_best", best_s_);
    if (wall_s - counted_at_s_ >= 1) {
      scalar("throughput/placements_per_s",
             static_cast<double>(measurements_ - counted_) / (wall_s - counted_at_s_));
      counted_ = measurements_;
      counted_at_s_ = wall_s;
    }
    write();
    return file_.so_far();
  }

  Result<Unit> update(const UpdateRow& u, std::span<const LogRow> consumed) override {
    begin(seconds(u.wall_ns), u.update);
    double sum_s = 0;
    std::size_t valid = 0, all = 0;
    for (const LogRow& row : consumed) {
      all += row.measurements.size();
      for (const MeasurementRow& m : row.measurements) {
        if (!m.valid) continue;
        sum_s += m.step_time_s;
        ++valid;
      }
    }
    if (valid > 0) scalar("cost/step_time_mean", sum_s / static_cast<double>(valid));
    if (all > 0) scalar("cost/valid_share", static_cast<double>(valid) / static_cast<double>(all));
    scalar("learner/loss", u.loss);
    scalar("learner/gradient_norm", u.gradient_norm);
    scalar("learner/entropy", u.entropy);
    scalar("learner/divergence", u.divergence);
    scalar("learner/learning_rate", u.learning_rate);
    scalar("learner/staleness_mean", u.staleness_mean);
    scalar("learner/staleness_max", static_cast<double>(u.staleness_max));
    scalar("learner/wall_s", u.wall_s);
    write();
    return file_.so_far();
  }

  Result<std::filesystem::path> finish() override {
    EMPLACE_TRY(file_.commit());
    return path_;
  }

 private:
  /// Seconds since 1970; the start of the run if the time is unknown.
  double seconds(std::int64_t wall_ns) const {
    return wall_ns == 0 ? started_s_ : static_cast<double>(wall_ns) / 1e9;
  }
  void begin(double wall_s, std::uint64_t step) {
    event_.Clear();
    event_.set_wall_time(wall_s);
    event_.set_step(static_cast<std::int64_t>(step));
  }
  void scalar(const char* tag, double number) {
    Summary::Value& value = *event_.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(number));
  }
  void write() {
    if (event_.has_summary()) file_.write(record_of(event_.SerializeAsString()));
  }

  const std::filesystem::path path_;
  NewFile file_;
  const double started_s_;
  Event event_;
  std::uint64_t measurements_ = 0;
  std::uint64_t counted_ = 0;  // Value of measurements_ at counted_at_s_.
  double counted_at_s_ = started_s_;
  double best_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): all formats have this signature.
Result<std::unique_ptr<RunExporter>> make_tensorboard_exporter(RunExport what) {
  if (!what.table.empty()) EMPLACE_TRY(check_table(what.table, {}));
  std::error_code failure;
  std::filesystem::create_directories(what.output, failure);
  if (failure)
    return Error{Errc::kIo,
                 printable_path(what.output) + ": the folder cannot be created (" + failure.message() + ")"};
  return std::unique_ptr<RunExporter>{std::make_unique<TensorBoard>(what)};
}

}  // namespace emplace::record

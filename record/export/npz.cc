#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <string>

#include "base/text/words.h"
#include "record/export/run_formats.h"
#include "record/export/zip.h"

namespace emplace::record {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written in memory order");

template <class T>
constexpr std::string_view kDtype = "";
template <>
constexpr std::string_view kDtype<double> = "<f8";
template <>
constexpr std::string_view kDtype<float> = "<f4";
template <>
constexpr std::string_view kDtype<std::uint64_t> = "<u8";
template <>
constexpr std::string_view kDtype<std::uint32_t> = "<u4";
template <>
constexpr std::string_view kDtype<std::int64_t> = "<i8";
template <>
constexpr std::string_view kDtype<bool> = "|b1";
template <>
constexpr std::string_view kDtype<std::byte> = "|u1";

/// The header of a .npy file, version 1.0. `shape`: "3," for three numbers, "3, 2" for three pairs, "" for
/// a scalar.
std::string npy_head(std::string_view dtype, const std::string& shape) {
  std::string about =
      "{'descr': '" + std::string{dtype} + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t kBefore = 10, kAligned = 64;
  about.append(kAligned - 1 - (kBefore + about.size()) % kAligned, ' ');
  about += '\n';
  return std::string{"\x93NUMPY\x01\x00", 8} + static_cast<char>(about.size() & 0xff) +
         static_cast<char>(about.size() >> 8) + about;
}

/// A growing column: [rows] or [rows, width].
template <class T>
class Column {
 public:
  Column(const std::string& name, const std::filesystem::path& folder, std::size_t width = 0)
      : member_{name + ".npy", folder}, width_{width} {}

  void add(T value) { member_.write(std::as_bytes(std::span{&value, 1})); }
  void add(std::span<const T> values) { member_.write(std::as_bytes(values)); }
  void set_width(std::size_t width) { width_ = width; }
  void finish(ZipFile& into) {
    const std::uint64_t rows = member_.size() / sizeof(T) / std::max<std::size_t>(width_, 1);
    into.add(member_,
             npy_head(kDtype<T>, fmt::format("{},{}", rows, width_ == 0 ? "" : fmt::format(" {}", width_))));
  }
  Result<Unit> so_far() const { return member_.so_far(); }

 private:
  ZipMember member_;
  std::size_t width_;
};

/// Texts in NumPy's form: UTF-32, padded to the longest text.
void add_texts(ZipFile& into, const std::string& name, const std::filesystem::path& folder,
               const std::vector<std::string>& texts, bool scalar = false) {
  std::vector<std::u32string> points;
  std::size_t longest = 1;
  for (const std::string& text : texts)
    longest = std::max(longest, points.emplace_back(code_points(text)).size());
  ZipMember member{name + ".npy", folder};
  for (std::u32string& text : points) {
    text.resize(longest, U'\0');
    member.write(std::as_bytes(std::span{text}));
  }
  into.add(member, npy_head(fmt::format("<U{}", longest), scalar ? "" : fmt::format("{},", texts.size())));
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path{"."};
}

class Npz final : public RunExporter {
 public:
  explicit Npz(RunExport what) : what_{std::move(what)}, folder_{folder_of(what_.output)} {}

  Needs needs() const override { return {.placements = what_.placements, .updates = true}; }

  Result<Unit> episode(const LogRow& row) override {
    const EpisodeRow& e = row.episode;
    for (const MeasurementRow& m : row.measurements) {
      seq_.add(e.seq);
      episode_.add(e.episode);
      controller_.add(e.controller);
      policy_version_.add(e.policy_version);
      number_.add(m.number);
      placement_id_.add(m.placement_id);
      valid_.add(m.valid);
      step_time_s_.add(m.valid ? m.step_time_s : std::numeric_limits<double>::quiet_NaN());
      bytes_over_.add(m.bytes_over);
      bytes_moved_.add(m.bytes_moved);
      std::vector<std::int64_t> peak = m.peak_bytes;
      peak.resize(what_.devices.size());
      peak_bytes_.add(std::span<const std::int64_t>{peak});
      executor_.add(number_of(executors_, m.executor));
      attempt_.add(m.attempt);
      graph_.add(number_of(graphs_, e.graph_sha256));
      wall_ns_.add(e.wall_ns);
      if (!what_.placements) continue;
      EMPLACE_TRY(add_placement(e, m.number));
    }
    return step_time_s_.so_far();
  }

  Result<Unit> update(const UpdateRow& u, std::span<const LogRow>) override {
    update_.add(u.update);
    update_policy_version_.add(u.policy_version);
    staleness_mean_.add(u.staleness_mean);
    staleness_max_.add(u.staleness_max);
    gradient_norm_.add(u.gradient_norm);
    loss_.add(u.loss);
    entropy_.add(u.entropy);
    learning_rate_.add(u.learning_rate);
    wall_s_.add(u.wall_s);
    log_probability_.add(u.log_probability);
    divergence_.add(u.divergence);
    update_wall_ns_.add(u.wall_ns);
    episode_count_.add(std::uint64_t{u.episodes.size()});
    episodes_.add(std::span<const std::uint64_t>{u.episodes});
    advantage_count_.add(std::uint64_t{u.advantages.size()});
    advantages_.add(std::span<const float>{u.advantages});
    return loss_.so_far();
  }

  Result<std::filesystem::path> finish() override {
    ZipFile file{what_.output};
    const auto add = [&](auto&... columns) { (columns.finish(file), ...); };
    peak_bytes_.set_width(what_.devices.size());
    add(seq_, episode_, controller_, policy_version_, number_, placement_id_, valid_, step_time_s_,
        bytes_over_, bytes_moved_, peak_bytes_, executor_, attempt_, graph_, wall_ns_);
    if (what_.placements) {
      placements_.set_width(ops_);
      add(placements_);
    }
    add(update_, update_policy_version_, staleness_mean_, staleness_max_, gradient_norm_, loss_, entropy_,
        learning_rate_, wall_s_, log_probability_, divergence_, update_wall_ns_, episode_count_, episodes_,
        advantage_count_, advantages_);
    add_texts(file, "devices", folder_, what_.devices);
    add_texts(file, "executors", folder_, names_of(executors_));
    add_texts(file, "graphs", folder_, names_of(graphs_));
    add_texts(file, "method", folder_, {what_.facts.method}, true);
    EMPLACE_TRY(file.commit());
    return what_.output;
  }

 private:
  using Numbers = std::map<std::string, std::uint32_t>;

  static std::uint32_t number_of(Numbers& numbers, const std::string& name) {
    return numbers.emplace(name, static_cast<std::uint32_t>(numbers.size())).first->second;
  }
  static std::vector<std::string> names_of(const Numbers& numbers) {
    std::vector<std::string> names(numbers.size());
    for (const auto& [name, number] : numbers) names[number] = name;
    return names;
  }

  Result<Unit> add_placement(const EpisodeRow& e, std::size_t number) {
    const std::size_t ops = e.count == 0 ? 0 : e.placements.size() / e.count;
    if (ops_ == 0) ops_ = ops;
    if (ops != ops_ || number >= e.count)
      return invalid("--placements", "the graphs of the run have different numbers of ops",
                     "export without --placements");
    placements_.add(std::span{e.placements}.subspan(number * ops, ops));
    return placements_.so_far();
  }

  const RunExport what_;
  const std::filesystem::path folder_;
  std::size_t ops_ = 0;  // Ops per placement; 0: no placement seen yet.
  Numbers executors_, graphs_;

  // One row per measurement.
  Column<std::uint64_t> seq_{"seq", folder_}, episode_{"episode", folder_};
  Column<std::uint32_t> controller_{"controller", folder_};
  Column<std::uint64_t> policy_version_{"policy_version", folder_};
  Column<std::uint32_t> number_{"number", folder_};
  Column<std::uint64_t> placement_id_{"placement_id", folder_};
  Column<bool> valid_{"valid", folder_};
  Column<double> step_time_s_{"step_time_s", folder_};
  Column<std::int64_t> bytes_over_{"bytes_over", folder_}, bytes_moved_{"bytes_moved", folder_},
      peak_bytes_{"peak_bytes", folder_}, wall_ns_{"wall_ns", folder_};
  Column<std::uint32_t> executor_{"executor", folder_}, attempt_{"attempt", folder_},
      graph_{"graph", folder_};
  Column<std::byte> placements_{"placements", folder_};
  // One row per update. The elements of lists are concatenated.
  Column<std::uint64_t> update_{"updates_update", folder_},
      update_policy_version_{"updates_policy_version", folder_};
  Column<double> staleness_mean_{"updates_staleness_mean", folder_};
  Column<std::uint64_t> staleness_max_{"updates_staleness_max", folder_};
  Column<double> gradient_norm_{"updates_gradient_norm", folder_}, loss_{"updates_loss", folder_},
      entropy_{"updates_entropy", folder_}, learning_rate_{"updates_learning_rate", folder_},
      wall_s_{"updates_wall_s", folder_}, log_probability_{"updates_log_probability", folder_},
      divergence_{"updates_divergence", folder_};
  Column<std::int64_t> update_wall_ns_{"updates_wall_ns", folder_};
  Column<std::uint64_t> episode_count_{"updates_episode_count", folder_},
      episodes_{"updates_episodes", folder_}, advantage_count_{"updates_advantage_count", folder_};
  Column<float> advantages_{"updates_advantages", folder_};
};

}  // namespace

Result<std::unique_ptr<RunExporter>> make_npz_exporter(RunExport what) {
  if (!what.table.empty()) EMPLACE_TRY(check_table(what.table, {}));
  return std::unique_ptr<RunExporter>{std::make_unique<Npz>(std::move(what))};
}

}  // namespace emplace::record

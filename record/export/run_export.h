#pragma once
/// A run's rows in the forms that other tools read: docs/guide/export.md.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "record/run_reader.h"

namespace emplace::record {

/// What is exported, and whither.
struct RunExport {
  std::filesystem::path output;      ///< The file; tensorboard: a folder, made if it is not there.
  std::string table;                 ///< Of csv and jsonl; empty: the format's own.
  bool placements = false;           ///< Of npz: the placements too.
  RunFacts facts;                    ///< Of the run.
  std::vector<std::string> devices;  ///< Their names, facts.num_devices of them.
};

/// One format. Rows come in the record's order, all episodes before the first update; none is kept, so that a
/// run may be of any length. Thread: one.
class RunExporter {
 public:
  /// What it would be told of.
  struct Wishes {
    bool episodes = true;
    bool placements = false;  ///< EpisodeRow::placements too.
    bool updates = false;
    bool consumed = false;  ///< With each update the episodes that it consumed.
  };

  virtual ~RunExporter() = default;
  virtual Wishes wishes() const = 0;
  /// Errors: kInvalid if the format cannot say it; kIo.
  virtual Result<Unit> episode(const LogRow&) { return Unit{}; }
  virtual Result<Unit> update(const UpdateRow&, std::span<const LogRow> /*consumed*/) { return Unit{}; }
  /// What was written appears. Errors: kIo; nothing then stays.
  virtual Result<std::filesystem::path> finish() = 0;
};

/// Errors: kInvalid for a format or table that is none, naming those there are; kIo.
Result<std::unique_ptr<RunExporter>> make_run_exporter(std::string_view format, RunExport what);

/// What was exported.
struct Exported {
  std::filesystem::path path;
  std::uint64_t episodes = 0, measurements = 0, updates = 0;
};

/// Tells an exporter the rows that there are, a page at a time; a run that goes on meanwhile is exported as
/// far as it has come. Errors: kIo, a database that is damaged among them; those of the exporter.
Result<Exported> export_run(const RunReader& run, RunExporter& exporter);

}  // namespace emplace::record

#pragma once
/// Exports the rows of a run in the formats of other tools: docs/guide/export.md.

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

/// Options of an export.
struct RunExport {
  std::filesystem::path output;      ///< Output file; tensorboard: output folder, created if missing.
  std::string table;                 ///< Table to export (csv, jsonl); empty: the format's default.
  RunFacts facts;                    ///< Facts of the run.
  std::vector<std::string> devices;  ///< Device names, facts.num_devices of them.
};

/// One output format. Rows arrive in record order, all episodes before the first update. Rows are not kept,
/// so a run may be of any size. Thread: one.
class RunExporter {
 public:
  /// Rows that the format needs.
  struct Needs {
    bool episodes = true;
    bool updates = false;
    bool consumed = false;  ///< True: pass the consumed episodes with each update.
  };

  virtual ~RunExporter() = default;
  virtual Needs needs() const = 0;
  /// Errors: kInvalid if the format cannot represent the row; kIo.
  virtual Result<Unit> episode(const LogRow&) { return Unit{}; }
  virtual Result<Unit> update(const UpdateRow&, std::span<const LogRow> /*consumed*/) { return Unit{}; }
  /// Finishes the output and makes it visible at its path. Errors: kIo; nothing is left behind then.
  virtual Result<std::filesystem::path> finish() = 0;
};

/// Errors: kInvalid for an unknown format or table, with a list of the known ones; kIo.
Result<std::unique_ptr<RunExporter>> make_run_exporter(std::string_view format, RunExport what);

/// Result of an export.
struct Exported {
  std::filesystem::path path;
  std::uint64_t episodes = 0, measurements = 0, updates = 0;
};

/// Sends the rows of a run to an exporter, page by page. A run that is still in progress is exported up to
/// its current end. Errors: kIo, or kInvalid for a damaged database; those of the exporter.
Result<Exported> export_run(const RunReader& run, RunExporter& exporter);

}  // namespace emplace::record

#pragma once
/// The formats of a run, one file each.

#include "record/export/run_export.h"

namespace emplace::record {

Result<std::unique_ptr<RunExporter>> make_csv_exporter(RunExport what);
Result<std::unique_ptr<RunExporter>> make_jsonl_exporter(RunExport what);
Result<std::unique_ptr<RunExporter>> make_npz_exporter(RunExport what);
Result<std::unique_ptr<RunExporter>> make_tensorboard_exporter(RunExport what);

/// Errors: kInvalid, listing the tables.
Result<Unit> check_table(std::string_view table, std::span<const std::string_view> tables);

}  // namespace emplace::record

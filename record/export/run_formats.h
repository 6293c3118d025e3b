#pragma once
/// Run formats, one function and file each.

#include "record/export/run_export.h"

namespace emplace::record {

Result<std::unique_ptr<RunExporter>> make_csv_exporter(RunExport what);
Result<std::unique_ptr<RunExporter>> make_jsonl_exporter(RunExport what);
Result<std::unique_ptr<RunExporter>> make_tensorboard_exporter(RunExport what);

/// Checks the table name. Errors: kInvalid, with a list of the tables.
Result<Unit> check_table(std::string_view table, std::span<const std::string_view> tables);

}  // namespace emplace::record

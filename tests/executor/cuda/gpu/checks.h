#pragma once
/// Checks that scripts/gpu.sh runs on a machine with a GPU. Each check is a process of its own, so that a
/// lost device ends no other one. It writes a line of JSON per result at once, so that a check that is ended
/// early has reported its results.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "executor/cuda/libraries/session.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace::gpu_check {

/// The folder with fixtures and graphs that the program came with.
struct Bundle {
  std::filesystem::path folder;
  std::filesystem::path program;  ///< This one.
};

/// Results of a check, a line of JSON each, written when they are known.
class Report {
 public:
  void line(const nlohmann::json& result);
  /// A result with its expectation; without `ok` the check's exit status is 1.
  void expect(bool ok, const std::string& what, const std::string& expected, nlohmann::json result);
  bool as_expected() const { return as_expected_; }

 private:
  bool as_expected_ = true;
};

struct Check {
  std::string_view name;
  int part;    ///< Run of gpu.sh, 1 to 3.
  int most_s;  ///< Seconds after which it is ended.
  /// Null: gpu.sh starts another program.
  Result<Unit> (*run)(const Bundle& bundle, Report& report);
};
/// Sorted by part, the most informative check of a part first; the deliberate fault is the last of all.
std::span<const Check> all_checks();

Result<Unit> versions(const Bundle&, Report&);        ///< Driver, libraries, GPU, multiprocessors.
Result<Unit> green_contexts(const Bundle&, Report&);  ///< Multiprocessors of two and of four parts.
Result<Unit> full_device(const Bundle&, Report&);     ///< Out of memory, by the arena and by cudaMalloc.
Result<Unit> kernel_parity(const Bundle&, Report&);   ///< Every kernel, twice, against PyTorch's numbers.
Result<Unit> large_kernels(const Bundle&,
                           Report&);  ///< Random signatures of up to 50 M elements against the twins.
Result<Unit> verification(const Bundle&, Report&);       ///< Two logical devices against one.
Result<Unit> dispatch_overhead(const Bundle&, Report&);  ///< Host time to enqueue a step and to plan one.
Result<Unit> step_times(const Bundle&, Report&);         ///< ResNet-50 and NMT-2 on one device.
Result<Unit> shared_gpu(const Bundle&, Report&);  ///< Shaped links between parts of one GPU, and their corun.
Result<Unit> profiles(const Bundle&, Report&);    ///< Every signature of the bundle's graphs.
Result<Unit> placements(const Bundle&, Report&);  ///< Fifty, measured and simulated.
Result<Unit> illegal_access(const Bundle&, Report&);  ///< In a child, which must end with status 75.
Result<Unit> poison(const Bundle&, Report&);          ///< The child.

/// The real functions; with EMPLACE_GPU_REHEARSE set, those of a test that record
/// (tests/executor/cuda/recording_api.h): then everything is called, nothing computed, and figures have no
/// meaning.
const cuda::CudaApi& api_in_use();
bool rehearsing();  ///< A rehearsal also does less.
/// `count` logical GPUs of `bytes` each, or of what one GPU has free, with `link` between them.
Result<DeviceSet> gpus(std::size_t count, std::int64_t bytes, Link link = {2.5e10, 2e-5});
/// A graph of the bundle, by its file's name without ".json".
Result<OpGraph> bundled_graph(const Bundle& bundle, const std::string& name);

}  // namespace emplace::gpu_check

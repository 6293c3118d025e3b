#pragma once
/// What scripts/gpu.sh has a machine with a GPU do. Each check runs in a process of its own, so that an error
/// that sticks ends no other one, and gives JSON text.

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "executor/cuda/session.h"
#include "graph/op_graph.h"
#include "placement/machine/device.h"

namespace emplace::gpu_check {

/// The folder with fixtures and graphs that the program came with.
struct Bundle {
  std::filesystem::path folder;
  std::filesystem::path program;  ///< This one.
};

struct Check {
  std::string_view name;
  double seconds;  ///< What it may take at most; it is left out where less is left.
  Result<std::string> (*run)(const Bundle& bundle);
};
/// In the order of their worth: those that a short budget leaves out are last.
std::span<const Check> all_checks();

Result<std::string> versions(const Bundle& bundle);        ///< Driver, libraries, GPU, multiprocessors.
Result<std::string> kernel_parity(const Bundle& bundle);   ///< Every kernel against PyTorch's numbers.
Result<std::string> full_device(const Bundle& bundle);     ///< Out of memory, by the arena and by cudaMalloc.
Result<std::string> illegal_access(const Bundle& bundle);  ///< In a child, which must end with status 75.
Result<std::string> poison(const Bundle& bundle);          ///< The child.
Result<std::string> green_contexts(
    const Bundle& bundle);  ///< Which multiprocessors two and four parts reach.
Result<std::string> dispatch_overhead(const Bundle& bundle);
Result<std::string> step_times(const Bundle& bundle);    ///< ResNet-50 and NMT-2 on one device.
Result<std::string> verification(const Bundle& bundle);  ///< Two logical devices against one.
Result<std::string> profiles(const Bundle& bundle);      ///< Every signature of the bundle's graphs.
Result<std::string> placements(const Bundle& bundle);    ///< Fifty, measured and simulated.

/// The real functions; with EMPLACE_GPU_REHEARSE set, those of a test that record
/// (tests/executor/cuda/recording_api.h): then everything is called, nothing computed, and no figure means
/// anything.
const cuda::CudaApi& api_in_use();
bool rehearsing();  ///< Then less of the same is done, too.
/// `count` logical GPUs of `bytes` each, or of what one GPU has free.
Result<DeviceSet> gpus(std::size_t count, std::int64_t bytes);
/// A graph of the bundle, by its file's name without ".json".
Result<OpGraph> bundled_graph(const Bundle& bundle, const std::string& name);

}  // namespace emplace::gpu_check

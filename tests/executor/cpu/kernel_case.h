#pragma once
/// Expected results of kernels, as tests/parity/make_kernel_fixture.py wrote them, and memory that shows what
/// a kernel touches.

#include <cstddef>
#include <string>
#include <vector>

#include "executor/cpu/kernel.h"

namespace emplace::testing {

struct KernelCase {
  std::string name;
  Signature signature;
  std::vector<std::vector<std::byte>> inputs;   ///< From the first element to the last, as in memory.
  std::vector<std::vector<std::byte>> outputs;  ///< PyTorch's results.
  double tolerance = 1e-5;  ///< Relative to the largest magnitude of an output, or to `scale` if larger.
  double scale = 0;         ///< Magnitude of the terms if an output is a difference that cancels.
};

/// Every case of tests/fixtures/kernels, by file and line.
const std::vector<KernelCase>& kernel_cases();
/// Kinds of ops that the shared graphs hold: "training" or "onnx".
std::vector<std::string> kinds_in_shared_graphs(const std::string& folder);

/// Bytes between two guards: exactly as many as requested, so that a write beside them shows; in a build with
/// AddressSanitizer a read does too.
class GuardedBytes {
 public:
  /// `shift` [B] moves the start off the 64-byte boundary, as in a view.
  explicit GuardedBytes(std::size_t bytes, std::byte fill = {}, std::size_t shift = 0);
  GuardedBytes(GuardedBytes&&) = default;
  ~GuardedBytes() { open(); }
  std::byte* data() { return start_; }
  std::vector<std::byte> copy() const { return {start_, start_ + bytes_}; }
  /// Call it after the last use: it also opens the guards.
  bool guards_are_whole();

 private:
  void open();

  std::vector<std::byte> memory_;
  std::size_t bytes_;
  std::byte* start_;
};

/// One run of a kernel with memory of its own.
struct KernelRun {
  std::vector<std::vector<std::byte>> outputs;
  std::string complaint;  ///< Memory of others that it touched; empty if none.
};
/// `garbage` fills outputs and scratch before. `overwritten`: the input whose memory output 0 gets.
constexpr std::size_t kNone = ~std::size_t{0};
KernelRun run_kernel(const cpu::Kernel& kernel, const KernelCase& of, std::byte garbage,
                     std::size_t overwritten = kNone);

/// Describes where the outputs exceed the tolerance; empty if nowhere.
std::string difference(const KernelCase& of, const std::vector<std::vector<std::byte>>& outputs);

}  // namespace emplace::testing

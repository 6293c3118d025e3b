#pragma once
/// A custom kernel is a few passes over index ranges, each a functor shared by host and device. A pass is a
/// launch on the device and a plain loop on the host.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "executor/cuda/kernels/kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cuda {

inline constexpr unsigned kThreads = 256;  ///< Threads per block.

/// Enqueues a `__global__` function. Errors: those of Session.
Result<Unit> launch(const Lane& lane, const void* kernel, std::string_view name, unsigned blocks_x,
                    unsigned blocks_y, void** arguments, unsigned threads = kThreads);

/// Enqueues writing zeros to `bytes` bytes. Errors: those of Session.
Result<Unit> enqueue_zeros(const Lane& lane, std::byte* to, std::size_t bytes);

class Pass {
 public:
  virtual ~Pass() = default;
  virtual Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const = 0;
  virtual void run(const Pointers& pointers) const = 0;
};

/// Passes executed in order on one stream.
class OwnKernel final : public Kernel {
 public:
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  bool may_overwrite(std::size_t input) const override {
    return input < 64 && (overwritable_ >> input & 1) != 0;
  }
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override;
  void run(const Pointers& pointers) const override;

  void add(std::unique_ptr<Pass> pass) { passes_.push_back(std::move(pass)); }
  /// Reserves scratch; returns its offset [B].
  std::size_t take_scratch(std::size_t bytes) {
    const std::size_t at = scratch_bytes_;
    scratch_bytes_ += (bytes + 255) / 256 * 256;
    return at;
  }
  void allow_overwrite(std::size_t input) { overwritable_ |= std::uint64_t{1} << input; }

 private:
  std::vector<std::unique_ptr<Pass>> passes_;
  std::size_t scratch_bytes_ = 0;
  std::uint64_t overwritable_ = 0;
};

/// An attribute as float32. Errors: kUnsupported if it is no number.
inline Result<float> number(const Signature& signature, std::string_view name, double fallback) {
  return read(signature, [&](Attributes& of) { return static_cast<float>(of.number(name, fallback)); });
}
/// Errors: kUnsupported unless there are `inputs` inputs and `outputs` outputs (negative: any number), all
/// of `dtype`.
Result<Unit> expect(const Signature& signature, int inputs, int outputs, DType dtype = DType::kF32);

}  // namespace emplace::cuda

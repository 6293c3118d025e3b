#pragma once
/// The implementation of an op on the host, created once per signature and shared by all ops with that
/// signature.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace emplace {

/// The memory of one call, on any device: pointers to element 0 of each operand, and the scratch that the
/// kernel asked for. A plain value.
struct Pointers {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> outputs;
  std::byte* scratch = nullptr;

  template <class T>
  const T* input(std::size_t k) const {
    return reinterpret_cast<const T*>(inputs[k]);
  }
  template <class T>
  T* output(std::size_t k) const {
    return reinterpret_cast<T*>(outputs[k]);
  }
  /// `at`: offset in the scratch [B].
  template <class T>
  T* scratch_at(std::size_t at) const {
    return reinterpret_cast<T*>(scratch + at);
  }
};

/// Immutable after construction and shared: run() is called from several threads at once, each with its own
/// memory. Deterministic: equal input bytes give equal output bytes.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Scratch memory for a call [B], aligned to 64 B on the CPU and to 256 B on a GPU; taken from the device's
  /// arena.
  virtual std::size_t scratch_bytes() const { return 0; }
  /// True if output 0 may share the memory of input `input` (same shape, packed): elementwise ops.
  virtual bool may_overwrite(std::size_t input) const {
    (void)input;
    return false;
  }
  /// Computes on host memory. Operands are 64-byte aligned if packed. Never throws.
  virtual void run(const Pointers& memory) const = 0;
};

/// A kernel that is one function: `run(memory)`, which several threads call at once.
template <class Run>
std::unique_ptr<Kernel> kernel_of(Run run, std::size_t scratch_bytes = 0, bool overwrites_first = false) {
  class Function final : public Kernel {
   public:
    Function(Run run, std::size_t scratch_bytes, bool overwrites_first)
        : run_{std::move(run)}, scratch_bytes_{scratch_bytes}, overwrites_first_{overwrites_first} {}
    std::size_t scratch_bytes() const override { return scratch_bytes_; }
    bool may_overwrite(std::size_t input) const override { return input == 0 && overwrites_first_; }
    void run(const Pointers& memory) const override { run_(memory); }

   private:
    const Run run_;
    const std::size_t scratch_bytes_;
    const bool overwrites_first_;
  };
  return std::make_unique<Function>(std::move(run), scratch_bytes, overwrites_first);
}

}  // namespace emplace

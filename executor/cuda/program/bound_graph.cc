#include "executor/cuda/program/bound_graph.h"

#include <utility>

namespace emplace::cuda {
namespace {

class Maker final : public KernelMaker<Kernel, Kernel> {
 public:
  Maker(const Lane& lane, DeviceId device, const CostTable& costs, std::atomic<std::uint64_t>* progress,
        const MakeHostKernel& make_host)
      : lane_{lane}, device_{device}, costs_{costs}, progress_{progress}, make_host_{make_host} {}

  Made kernel(const Signature& signature) override {
    if (!make_host_) return prepared(signature);
    if (progress_ != nullptr) ++*progress_;
    EMPLACE_TRY_ASSIGN(auto kernel, make_host_(signature));
    return std::unique_ptr<Kernel>{std::make_unique<HostKernel>(std::move(kernel))};
  }
  /// Packing has one implementation, whose twin runs on the host.
  Made copy(const Operand& view) override {
    return prepared({"emplace::pack", "{}", {view}, {packed(view.dtype, view.shape)}});
  }
  std::unique_ptr<Kernel> stand_in(OpId op, const Signature& signature) override {
    const double us = static_cast<double>(costs_.ns(device_, op)) * 1e-3;
    return make_host_ ? make_host_synthetic(signature, us) : make_synthetic(signature, us);
  }
  std::int64_t promised(const std::string& type) override { return runs_in_library(type) ? 16 : 1; }

 private:
  /// What a library refuses while its plan is made is unsupported, unless the device failed or is full.
  Made prepared(const Signature& signature) {
    if (progress_ != nullptr) ++*progress_;
    EMPLACE_TRY_ASSIGN(auto kernel, make_kernel(signature));
    if (make_host_) return kernel;
    if (auto ready = kernel->prepare(lane_); !ready)
      return Error{ready.error().code == Errc::kRunFailed ? Errc::kUnsupported : ready.error().code,
                   ready.error().context};
    return kernel;
  }

  const Lane& lane_;
  const DeviceId device_;
  const CostTable& costs_;
  std::atomic<std::uint64_t>* const progress_;
  const MakeHostKernel& make_host_;  // Empty on a GPU.
};

}  // namespace

Result<BoundGraph> bind_graph(const LoweredGraph& lowered, const Lane& lane, DeviceId device,
                              const CostTable& costs, bool allow_synthetic,
                              std::atomic<std::uint64_t>* progress, const MakeHostKernel& make_host) {
  Maker maker{lane, device, costs, progress, make_host};
  return BoundGraph::make(lowered, maker, allow_synthetic);
}

}  // namespace emplace::cuda

#include "executor/cpu/bound_graph.h"

#include "executor/cpu/kernel.h"

namespace emplace::cpu {
namespace {

class Maker final : public KernelMaker<Kernel, CopyLoop> {
 public:
  Result<std::unique_ptr<Kernel>> kernel(const Signature& signature) override {
    return make_kernel(signature);
  }
  Result<std::unique_ptr<CopyLoop>> copy(const Operand& view) override {
    EMPLACE_TRY_ASSIGN(const auto loop, CopyLoop::packing({"a copy", "{}", {view}, {}}, view));
    return std::make_unique<CopyLoop>(loop);
  }
  std::unique_ptr<Kernel> stand_in(OpId, const Signature&) override { return nullptr; }
};

}  // namespace

Result<BoundGraph> bind_graph(const LoweredGraph& lowered, bool allow_synthetic) {
  Maker maker;
  return BoundGraph::make(lowered, maker, allow_synthetic);
}

}  // namespace emplace::cpu

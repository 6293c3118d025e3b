// Initial values of state, made on the device.
#include "executor/cuda/kernels/passes.cuh"
#include "executor/kernel/initial_element.h"

namespace emplace::cuda {
namespace {

template <class Element>
struct Fill {
  static constexpr const char* kName = "initial values";
  Element element;
  typename Element::Value* out = nullptr;
  void bind(const Pointers& pointers) { out = pointers.output<typename Element::Value>(0); }
  EMPLACE_HD void operator()(std::int64_t i) const { out[i] = element(i); }
};

class ZeroPass final : public Pass {
 public:
  explicit ZeroPass(std::size_t bytes) : bytes_{bytes} {}
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    return enqueue_zeros(lane, pointers.outputs[0], bytes_);
  }
  void run(const Pointers& pointers) const override {
    std::fill_n(pointers.outputs[0], bytes_, std::byte{0});
  }

 private:
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_fill(const InitialFill& fill) {
  auto kernel = std::make_unique<OwnKernel>();
  if (fill.zeros) {
    kernel->add(std::make_unique<ZeroPass>(static_cast<std::size_t>(fill.elements)));
  } else {
    visit_elements(fill, [&](const auto& element) {
      add_each(*kernel, Fill<std::decay_t<decltype(element)>>{element}, fill.elements);
    });
  }
  return kernel;
}

}  // namespace emplace::cuda

// CPU kernels on one core, called as in a step: packed tensors in and out, reorders included. Tiny ops show
// the overhead of a call; convolutions are those of ResNet-50.
#include <benchmark/benchmark.h>
#include <omp.h>

#include <cstdlib>
#include <memory>

#include "executor/cpu/kernel.h"

namespace emplace::cpu {
namespace {

Operand packed(std::vector<std::int64_t> shape, DType dtype = DType::kF32) {
  Operand operand{dtype, std::move(shape), {}};
  operand.strides.resize(operand.shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = operand.shape.size(); d-- > 0;) {
    operand.strides[d] = stride;
    stride *= operand.shape[d];
  }
  return operand;
}

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// Memory aligned to 64 bytes; f32 values are small numbers, integers are zeros.
Memory memory(std::size_t bytes, bool numbers) {
  const std::size_t size = (bytes + 63) / 64 * 64;
  Memory block{static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(64, size))), &std::free};
  std::fill_n(block.get(), size, std::byte{0});
  auto* values = reinterpret_cast<float*>(block.get());
  for (std::size_t i = 0; numbers && i < bytes / sizeof(float); ++i) {
    values[i] = static_cast<float>(i * 2654435761u % 1000) / 1000.f;
  }
  return block;
}

void run(benchmark::State& state, const Signature& signature, std::int64_t flops = 0) {
  omp_set_num_threads(1);
  const auto kernel = make_kernel(signature);
  if (!kernel.ok()) return state.SkipWithError(kernel.error().context.c_str());
  std::vector<Memory> blocks;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  double bytes = 0;
  const auto place = [&](const Operand& operand) {
    const auto size = static_cast<std::size_t>(operand.elements() * element_bytes(operand.dtype));
    bytes += static_cast<double>(size);
    return blocks.emplace_back(memory(size, operand.dtype == DType::kF32)).get();
  };
  for (const Operand& operand : signature.inputs) inputs.push_back(place(operand));
  for (const Operand& operand : signature.outputs) outputs.push_back(place(operand));
  const Memory scratch = memory((*kernel)->scratch_bytes(), false);
  for (auto _ : state) {
    (*kernel)->run({inputs, outputs, scratch.get()});
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  const auto rate = Counter::kIsIterationInvariantRate;
  if (flops > 0) state.counters["FLOP/s"] = Counter(static_cast<double>(flops), rate);
  state.counters["B/s"] = Counter(bytes, rate);
  state.counters["scratch"] = static_cast<double>((*kernel)->scratch_bytes());
}

void BM_TinyRelu(benchmark::State& state) { run(state, {"Relu", "{}", {packed({64})}, {packed({64})}}); }
void BM_TinyMatmul(benchmark::State& state) {
  run(state, {"aten::mm", "{}", {packed({8, 8}), packed({8, 8})}, {packed({8, 8})}}, 2 * 8 * 8 * 8);
}
void BM_TinySoftmax(benchmark::State& state) {
  run(state, {"aten::_softmax", R"({"dim":1})", {packed({4, 8})}, {packed({4, 8})}});
}
BENCHMARK(BM_TinyRelu);
BENCHMARK(BM_TinyMatmul);
BENCHMARK(BM_TinySoftmax);

void BM_Matmul(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  run(state, {"aten::mm", "{}", {packed({n, n}), packed({n, n})}, {packed({n, n})}}, 2 * n * n * n);
}
BENCHMARK(BM_Matmul)->Arg(64)->Arg(512);

/// y = x Wᵀ + b; W is a view.
void BM_Linear(benchmark::State& state) {
  const std::int64_t rows = state.range(0), in = state.range(1), out = state.range(2);
  Operand weights = packed({out, in});
  std::swap(weights.shape[0], weights.shape[1]);
  std::swap(weights.strides[0], weights.strides[1]);
  run(state, {"aten::addmm", "{}", {packed({out}), packed({rows, in}), weights}, {packed({rows, out})}},
      2 * rows * in * out);
}
BENCHMARK(BM_Linear)->Args({1, 2048, 1000})->Args({128, 768, 3072});

struct Conv {
  std::int64_t batch, in, size, out, taps, stride;
  explicit Conv(const benchmark::State& state)
      : batch{state.range(0)},
        in{state.range(1)},
        size{state.range(2)},
        out{state.range(3)},
        taps{state.range(4)},
        stride{state.range(5)} {}
  std::int64_t positions() const { return (size + 2 * (taps / 2) - taps) / stride + 1; }
  Operand source() const { return packed({batch, in, size, size}); }
  Operand weights() const { return packed({out, in, taps, taps}); }
  Operand target() const { return packed({batch, out, positions(), positions()}); }
  std::int64_t flops() const { return 2 * batch * out * positions() * positions() * in * taps * taps; }
  std::string attrs(const std::string& more = "") const {
    const std::string pad = std::to_string(taps / 2), by = std::to_string(stride);
    return "{\"stride\":[" + by + "," + by + "],\"padding\":[" + pad + "," + pad + "]" + more + "}";
  }
};

void BM_Conv(benchmark::State& state) {
  const Conv conv{state};
  run(state,
      {"aten::convolution",
       conv.attrs(),
       {conv.source(), conv.weights(), packed({conv.out})},
       {conv.target()}},
      conv.flops());
}
void BM_ConvBackward(benchmark::State& state) {
  const Conv conv{state};
  run(state,
      {"aten::convolution_backward",
       conv.attrs(",\"output_mask\":[true,true,false]"),
       {conv.target(), conv.source(), conv.weights()},
       {conv.source(), conv.weights()}},
      2 * conv.flops());
}
/// Shapes of ResNet-50 in network order; for each stage the three of a block.
void resnet50(benchmark::internal::Benchmark* bench) {
  for (const std::int64_t batch : {1, 8}) {
    bench->Args({batch, 3, 224, 64, 7, 2})
        ->Args({batch, 64, 56, 64, 1, 1})
        ->Args({batch, 64, 56, 64, 3, 1})
        ->Args({batch, 64, 56, 256, 1, 1})
        ->Args({batch, 256, 56, 64, 1, 1})
        ->Args({batch, 256, 56, 512, 1, 2})
        ->Args({batch, 128, 28, 128, 3, 1})
        ->Args({batch, 128, 28, 512, 1, 1})
        ->Args({batch, 512, 28, 128, 1, 1})
        ->Args({batch, 512, 28, 1024, 1, 2})
        ->Args({batch, 256, 14, 256, 3, 1})
        ->Args({batch, 256, 14, 1024, 1, 1})
        ->Args({batch, 1024, 14, 256, 1, 1})
        ->Args({batch, 1024, 14, 2048, 1, 2})
        ->Args({batch, 512, 7, 512, 3, 1})
        ->Args({batch, 512, 7, 2048, 1, 1})
        ->Args({batch, 2048, 7, 512, 1, 1});
  }
}
BENCHMARK(BM_Conv)->Apply(resnet50)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_ConvBackward)->Apply(resnet50)->Unit(benchmark::kMicrosecond);

void BM_MaxPool(benchmark::State& state) {
  const Operand out = packed({1, 64, 56, 56});
  Operand places = out;
  places.dtype = DType::kI64;
  std::vector<Operand> outputs{out};
  if (state.range(0) == 1) outputs.push_back(places);
  const std::string type = state.range(0) == 1 ? "aten::max_pool2d_with_indices" : "MaxPool";
  const std::string attrs = state.range(0) == 1
                                ? R"({"kernel_size":[3,3],"stride":[2,2],"padding":[1,1]})"
                                : R"({"kernel_shape":[3,3],"strides":[2,2],"pads":[1,1,1,1]})";
  run(state, {type, attrs, {packed({1, 64, 112, 112})}, outputs});
}
BENCHMARK(BM_MaxPool)->ArgName("indices")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
void BM_AvgPool(benchmark::State& state) {
  run(state, {"aten::avg_pool2d",
              R"({"kernel_size":[3,3],"stride":[1,1],"padding":[1,1]})",
              {packed({1, 192, 35, 35})},
              {packed({1, 192, 35, 35})}});
}
BENCHMARK(BM_AvgPool)->Unit(benchmark::kMicrosecond);
void BM_AvgPoolBackward(benchmark::State& state) {
  const Operand x = packed({1, 192, 35, 35});
  run(state, {"aten::avg_pool2d_backward",
              R"({"kernel_size":[3,3],"stride":[1,1],"padding":[1,1],"count_include_pad":true})",
              {x, x},
              {x}});
}
BENCHMARK(BM_AvgPoolBackward)->Unit(benchmark::kMicrosecond);
void BM_GlobalAvgPool(benchmark::State& state) {
  run(state, {"GlobalAveragePool", "{}", {packed({1, 2048, 7, 7})}, {packed({1, 2048, 1, 1})}});
}
BENCHMARK(BM_GlobalAvgPool)->Unit(benchmark::kMicrosecond);

void BM_BatchNorm(benchmark::State& state) {
  const Operand x = packed({8, state.range(0), state.range(1), state.range(1)}),
                list = packed({state.range(0)});
  run(state,
      {"aten::native_batch_norm", R"({"training":true})", {x, list, list, list, list}, {x, list, list}});
}
void BM_BatchNormBackward(benchmark::State& state) {
  const Operand x = packed({8, state.range(0), state.range(1), state.range(1)}),
                list = packed({state.range(0)});
  run(state, {"aten::native_batch_norm_backward",
              R"({"train":true,"output_mask":[true,true,true]})",
              {x, x, list, list, list, list, list},
              {x, list, list}});
}
BENCHMARK(BM_BatchNorm)->Args({64, 56})->Args({1024, 14})->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_BatchNormBackward)->Args({64, 56})->Args({1024, 14})->Unit(benchmark::kMicrosecond);
void BM_LayerNorm(benchmark::State& state) {
  const Operand x = packed({4096, 768}), rows = packed({4096, 1}), list = packed({768});
  run(state, {"aten::native_layer_norm", R"({"normalized_shape":[768]})", {x, list, list}, {x, rows, rows}});
}
void BM_LayerNormBackward(benchmark::State& state) {
  const Operand x = packed({4096, 768}), rows = packed({4096, 1}), list = packed({768});
  run(state, {"aten::native_layer_norm_backward",
              R"({"normalized_shape":[768]})",
              {x, x, rows, rows, list, list},
              {x, list, list}});
}
BENCHMARK(BM_LayerNorm)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_LayerNormBackward)->Unit(benchmark::kMicrosecond);

void BM_Softmax(benchmark::State& state) {
  const Operand x = state.range(0) == 1 ? packed({4, 2, 512, 512}) : packed({32 * 12 * 128, 128});
  run(state, {"aten::_softmax", R"({"dim":1})", {x}, {x}});
}
void BM_SoftmaxBackward(benchmark::State& state) {
  const Operand x = state.range(0) == 1 ? packed({4, 2, 512, 512}) : packed({32 * 12 * 128, 128});
  run(state, {"aten::_softmax_backward_data", R"({"dim":1})", {x, x}, {x}});
}
BENCHMARK(BM_Softmax)->ArgName("inner")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SoftmaxBackward)->ArgName("inner")->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace emplace::cpu

BENCHMARK_MAIN();

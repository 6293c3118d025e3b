// Memory-bound kernels: bytes read and written per second, compared with memcpy in the same run. Budget: a
// packed kernel reaches 70 % of memcpy; a kernel over 64 elements takes at most 150 ns.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "executor/cpu/kernel.h"
#include "tests/executor/cpu/kernel_run.h"

namespace emplace::cpu {
namespace {

constexpr std::int64_t kSmall = 1 << 20, kLarge = 1 << 24;

std::int64_t bytes_of(const Operand& operand) {
  std::int64_t places = 1;
  for (std::size_t d = 0; d < operand.shape.size(); ++d)
    places *= operand.strides[d] == 0 ? 1 : operand.shape[d];
  return places * element_bytes(operand.dtype);
}

/// Memory like that of a device: large pages, written once so that they are resident.
class Block {
 public:
  Block(std::int64_t bytes, int fill) : bytes_{static_cast<std::size_t>(bytes) / kPage * kPage + kPage} {
    data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, bytes_));
    ::madvise(data_, bytes_, MADV_HUGEPAGE);
    std::memset(data_, fill, bytes_);
  }
  Block(Block&& other) noexcept : bytes_{other.bytes_}, data_{std::exchange(other.data_, nullptr)} {}
  ~Block() { std::free(data_); }
  std::byte* data() { return data_; }

 private:
  static constexpr std::size_t kPage = 2 << 20;
  std::size_t bytes_;
  std::byte* data_;
};
std::vector<Block> memory_of(const std::vector<Operand>& operands, int fill) {
  std::vector<Block> memory;
  for (const Operand& operand : operands) memory.emplace_back(bytes_of(operand), fill);
  return memory;
}

/// `moved`: bytes read and written; 0: the bytes of all operands.
void run(benchmark::State& state, const Signature& signature, std::int64_t moved = 0,
         const std::vector<std::int64_t>& indices = {}) {
  const auto kernel = make_kernel(signature);
  if (!kernel) return state.SkipWithError(kernel.error().context.c_str());
  auto in = memory_of(signature.inputs, 0x3F), out = memory_of(signature.outputs, 0);
  if (!indices.empty()) std::memcpy(in.back().data(), indices.data(), indices.size() * sizeof(std::int64_t));
  Block scratch{static_cast<std::int64_t>((*kernel)->scratch_bytes()), 0};
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  std::int64_t bytes = moved;
  for (Block& block : in) from.push_back(block.data());
  for (Block& block : out) to.push_back(block.data());
  if (moved == 0) {
    for (const Operand& operand : signature.inputs) bytes += bytes_of(operand);
    for (const Operand& operand : signature.outputs) bytes += bytes_of(operand);
  }
  for (auto _ : state) {
    (*kernel)->run({from, to, scratch.data()});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0)) * sizeof(float);
  Block from{static_cast<std::int64_t>(bytes), 1}, to{static_cast<std::int64_t>(bytes), 0};
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}
BENCHMARK(BM_Memcpy)->Arg(kSmall)->Arg(kLarge);

void BM_Elementwise(benchmark::State& state, const char* type, std::size_t operands, const char* attrs) {
  const Operand x = packed({state.range(0)});
  run(state, {type, attrs, std::vector<Operand>(operands, x), {x}});
}
#define EMPLACE_ELEMENTWISE(name, type, operands, attrs) \
  BENCHMARK_CAPTURE(BM_Elementwise, name, type, operands, attrs)->Arg(64)->Arg(kSmall)->Arg(kLarge)
EMPLACE_ELEMENTWISE(add, "aten::add", 2, "{}");
EMPLACE_ELEMENTWISE(add_alpha, "aten::add", 2, R"({"alpha":-0.1})");
EMPLACE_ELEMENTWISE(mul_scalar, "aten::mul", 1, "{}");
EMPLACE_ELEMENTWISE(addcmul, "aten::addcmul", 3, "{}");
EMPLACE_ELEMENTWISE(addcdiv, "aten::addcdiv", 3, "{}");
EMPLACE_ELEMENTWISE(sqrt, "aten::sqrt", 1, "{}");
EMPLACE_ELEMENTWISE(relu, "aten::relu", 1, "{}");
EMPLACE_ELEMENTWISE(threshold_backward, "aten::threshold_backward", 2, "{}");
EMPLACE_ELEMENTWISE(sigmoid, "aten::sigmoid", 1, "{}");
EMPLACE_ELEMENTWISE(tanh, "aten::tanh", 1, "{}");
EMPLACE_ELEMENTWISE(gelu, "aten::gelu", 1, "{}");
EMPLACE_ELEMENTWISE(gelu_backward, "aten::gelu_backward", 2, "{}");
EMPLACE_ELEMENTWISE(bernoulli, "aten::bernoulli", 1, "{}");

/// [rows, 1024] times a row, times a column, and times a transposed matrix.
void BM_MulRow(benchmark::State& state) {
  const Operand x = packed({state.range(0) / 1024, 1024});
  run(state, {"aten::mul", "{}", {x, packed({1024})}, {x}});
}
BENCHMARK(BM_MulRow)->Arg(kSmall)->Arg(kLarge);
void BM_MulColumn(benchmark::State& state) {
  const Operand x = packed({state.range(0) / 1024, 1024});
  run(state, {"aten::mul", "{}", {x, packed({state.range(0) / 1024, 1})}, {x}});
}
BENCHMARK(BM_MulColumn)->Arg(kSmall)->Arg(kLarge);
void BM_AddTransposed(benchmark::State& state) {
  const std::vector<std::int64_t> shape{state.range(0) / 1024, 1024};
  run(state, {"aten::add", R"({"alpha":-0.1})", {packed(shape), permuted(shape, {1, 0})}, {packed(shape)}});
}
BENCHMARK(BM_AddTransposed)->Arg(kSmall)->Arg(kLarge);

/// One Adam step on a parameter, as traced: eight ops, twenty tensors read or written.
void BM_AdamChain(benchmark::State& state) {
  const Operand x = packed({state.range(0)});
  const auto make = [&x](const char* type, std::size_t operands) {
    return make_kernel({type, "{}", std::vector<Operand>(operands, x), {x}}).value();
  };
  const auto mul = make("aten::mul", 1), add = make("aten::add", 2), addcmul = make("aten::addcmul", 3);
  const auto sqrt = make("aten::sqrt", 1), div = make("aten::div", 1), plus = make("aten::add", 1);
  const auto addcdiv = make("aten::addcdiv", 3);
  std::vector<std::vector<float>> memory(4,
                                         std::vector<float>(static_cast<std::size_t>(state.range(0)), 0.5f));
  const auto at = [&memory](std::size_t k) { return reinterpret_cast<std::byte*>(memory[k].data()); };
  const auto call = [](const auto& kernel, std::initializer_list<const std::byte*> in, std::byte* out) {
    kernel->run({{in.begin(), in.size()}, {&out, 1}});
  };
  std::byte *parameter = at(0), *gradient = at(1), *mean = at(2), *square = at(3);
  for (auto _ : state) {
    call(mul, {mean}, mean);
    call(add, {mean, gradient}, mean);
    call(mul, {square}, square);
    call(addcmul, {square, gradient, gradient}, square);
    call(sqrt, {square}, gradient);
    call(div, {gradient}, gradient);
    call(plus, {gradient}, gradient);
    call(addcdiv, {parameter, mean, gradient}, parameter);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 20 * 4);
}
BENCHMARK(BM_AdamChain)->Arg(kSmall)->Arg(kLarge);

void BM_SumOfRows(benchmark::State& state) {
  const std::int64_t rows = state.range(0) / 1024;
  run(state, {"aten::sum", R"({"dim":[1],"keepdim":true})", {packed({rows, 1024})}, {packed({rows, 1})}});
}
BENCHMARK(BM_SumOfRows)->Arg(kSmall)->Arg(kLarge);
void BM_SumOfColumns(benchmark::State& state) {
  const std::int64_t rows = state.range(0) / 1024;
  run(state, {"aten::sum", R"({"dim":[0]})", {packed({rows, 1024})}, {packed({1024})}});
}
BENCHMARK(BM_SumOfColumns)->Arg(kSmall)->Arg(kLarge);
void BM_SumOfImages(benchmark::State& state) {
  const Operand x = packed({16, state.range(0) / 16 / 196, 14, 14});
  run(state, {"aten::sum", R"({"dim":[0,2,3]})", {x}, {packed({x.shape[1]})}});
}
BENCHMARK(BM_SumOfImages)->Arg(kSmall)->Arg(kLarge);

void BM_Transpose(benchmark::State& state) {
  const std::int64_t rows = state.range(0) / 1024;
  run(state, {"Transpose", R"({"perm":[1,0]})", {packed({rows, 1024})}, {packed({1024, rows})}});
}
BENCHMARK(BM_Transpose)->Arg(kSmall)->Arg(kLarge);
/// Heads of an attention layer: [batch, 40, 8, 64] to [batch, 8, 40, 64].
void BM_CloneOfHeads(benchmark::State& state) {
  const std::int64_t batch = state.range(0) / (40 * 8 * 64);
  run(state,
      {"aten::clone", "{}", {permuted({batch, 8, 40, 64}, {0, 2, 1, 3})}, {packed({batch, 8, 40, 64})}});
}
BENCHMARK(BM_CloneOfHeads)->Arg(kSmall)->Arg(kLarge);
void BM_Cat(benchmark::State& state) {
  const std::int64_t batch = state.range(0) / (256 * 64);
  const Operand x = packed({batch, 64, 8, 8});
  run(state, {"aten::cat", R"({"dim":1})", {x, x, x, x}, {packed({batch, 256, 8, 8})}});
}
BENCHMARK(BM_Cat)->Arg(kSmall)->Arg(kLarge);
void BM_SliceBackward(benchmark::State& state) {
  const std::int64_t batch = state.range(0) / (40 * 1024);
  run(state, {"aten::slice_backward",
              R"({"dim":1,"start":7})",
              {packed({batch, 1, 1024})},
              {packed({batch, 40, 1024})}});
}
BENCHMARK(BM_SliceBackward)->Arg(kSmall)->Arg(kLarge);

std::vector<std::int64_t> drawn_indices(std::int64_t count, std::int64_t below) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) {
    indices.push_back(static_cast<std::int64_t>(splitmix64(static_cast<std::uint64_t>(i)) %
                                                static_cast<std::uint64_t>(below)));
  }
  return indices;
}
/// Looks up as many rows as the table has; a row is 512 wide.
void BM_Embedding(benchmark::State& state) {
  const std::int64_t rows = state.range(0) / 512;
  run(state,
      {"aten::embedding", "{}", {packed({rows, 512}), packed({rows}, DType::kI64)}, {packed({rows, 512})}}, 0,
      drawn_indices(rows, rows));
}
BENCHMARK(BM_Embedding)->Arg(kSmall)->Arg(kLarge);
void BM_EmbeddingBackward(benchmark::State& state) {
  const std::int64_t rows = state.range(0) / 512;
  run(state,
      {"aten::embedding_dense_backward",
       "{}",
       {packed({rows, 512}), packed({rows}, DType::kI64)},
       {packed({rows, 512})}},
      0, drawn_indices(rows, rows));
}
BENCHMARK(BM_EmbeddingBackward)->Arg(kSmall)->Arg(kLarge);
void BM_NewZeros(benchmark::State& state) {
  run(state, {"aten::new_zeros", "{}", {}, {packed({state.range(0)})}});
}
BENCHMARK(BM_NewZeros)->Arg(kSmall)->Arg(kLarge);

}  // namespace
}  // namespace emplace::cpu

BENCHMARK_MAIN();

// Matrix products by cuBLASLt. It expects column-major matrices: row-major D = A B is D' = B' A' there.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/libraries/session.h"

namespace emplace::cuda {
namespace {

/// A matrix or a batch of matrices with its strides.
struct Matrix {
  std::int64_t batch = 1, rows = 0, columns = 0;
  std::int64_t batch_stride = 0, row_stride = 0, column_stride = 0;  // [elements]

  bool row_major() const { return column_stride == 1 || columns == 1; }
  bool column_major() const { return row_stride == 1 || rows == 1; }
  bool direct() const {
    const bool plain = row_major() && (row_stride >= columns || rows == 1);
    const bool turned = column_major() && (column_stride >= rows || columns == 1);
    return plain || turned;
  }
  bool turned() const { return !(row_major() && (row_stride >= columns || rows == 1)); }
  std::int64_t leading() const {
    return turned() ? std::max(column_stride, rows) : std::max(row_stride, columns);
  }
  /// Guaranteed alignment of every matrix of the batch [B]; the first one lies on 16 (BoundGraph).
  std::uint32_t alignment() const { return batch == 1 || batch_stride % 4 == 0 ? 16 : 4; }
  void turn() { std::swap(rows, columns), std::swap(row_stride, column_stride); }
};

/// The matrix of an operand, if its batch dimensions can be merged into one.
std::optional<Matrix> matrix_of(const Operand& operand) {
  const std::size_t rank = operand.shape.size();
  if (rank < 2) return std::nullopt;
  Matrix m{.rows = operand.shape[rank - 2], .columns = operand.shape[rank - 1]};
  m.row_stride = operand.strides[rank - 2], m.column_stride = operand.strides[rank - 1];
  for (std::size_t d = rank - 2; d-- > 0;) {
    if (operand.shape[d] == 1) continue;
    if (m.batch > 1 && operand.strides[d] != m.batch_stride * m.batch) return std::nullopt;
    if (m.batch == 1) m.batch_stride = operand.strides[d];
    m.batch *= operand.shape[d];
  }
  return m;
}

Matrix packed_matrix(const Matrix& m) {
  return {m.batch, m.rows, m.columns, m.rows * m.columns, m.columns, 1};
}

enum class Bias : std::uint8_t { kNone, kRow, kBroadcast };  // kRow: one value per column of D.

struct Product {
  Matrix a, b, d;
  std::size_t a_input = 0, b_input = 1, bias_input = 0;
  float alpha = 1, beta = 1;
  Bias bias = Bias::kNone;
};

template <class Handle, auto Release>
using OwnedBlas = Owned<Handle, &CudaApi::blas, Release>;
using OwnedDesc = OwnedBlas<cublasLtMatmulDesc_t, &CublasLtApi::MatmulDescDestroy>;
using OwnedLayout = OwnedBlas<cublasLtMatrixLayout_t, &CublasLtApi::MatrixLayoutDestroy>;
using OwnedPreference = OwnedBlas<cublasLtMatmulPreference_t, &CublasLtApi::MatmulPreferenceDestroy>;

class Matmul final : public Kernel {
 public:
  Matmul(Product product, std::unique_ptr<Kernel> pack_a, std::unique_ptr<Kernel> pack_b,
         std::unique_ptr<Kernel> spread)
      : p_{product}, pack_a_{std::move(pack_a)}, pack_b_{std::move(pack_b)}, spread_{std::move(spread)} {
    const auto take = [&](const Matrix& m) {
      const std::size_t at = scratch_;
      scratch_ += (static_cast<std::size_t>(m.batch * m.rows * m.columns) * sizeof(float) + 255) / 256 * 256;
      return at;
    };
    if (pack_a_) a_at_ = take(p_.a);
    if (pack_b_) b_at_ = take(p_.b);
  }

  Result<Unit> prepare(const Lane& lane) override;
  std::size_t scratch_bytes() const override { return scratch_ + workspace_; }
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override;
  void run(const Pointers& pointers) const override;

 private:
  Result<Unit> describe(Session& session, int processors);
  Result<Unit> layout(Session& session, const Matrix& m, OwnedLayout& out);

  Product p_;
  std::unique_ptr<Kernel> pack_a_, pack_b_, spread_;
  std::size_t a_at_ = 0, b_at_ = 0, scratch_ = 0, workspace_ = 0;
  OwnedDesc desc_;
  OwnedLayout a_layout_, b_layout_, d_layout_;
  std::optional<cublasLtMatmulAlgo_t> algorithm_;
};

Result<Unit> Matmul::layout(Session& session, const Matrix& m, OwnedLayout& out) {
  const auto& blas = session.api().blas;
  const bool turned = m.turned();  // Row-major [r, c] is column-major [c, r].
  const auto rows = static_cast<std::uint64_t>(turned ? m.rows : m.columns);
  const auto columns = static_cast<std::uint64_t>(turned ? m.columns : m.rows);
  EMPLACE_TRY(
      session.check(blas.MatrixLayoutCreate(out.fill(session), CUDA_R_32F, rows, columns, m.leading()),
                    "cublasLtMatrixLayoutCreate"));
  if (m.batch == 1) return Unit{};
  const auto count = static_cast<std::int32_t>(m.batch);
  EMPLACE_TRY(session.check(
      blas.MatrixLayoutSetAttribute(out.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "batch count"));
  return session.check(blas.MatrixLayoutSetAttribute(out.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                     &m.batch_stride, sizeof m.batch_stride),
                       "batch stride");
}

Result<Unit> Matmul::describe(Session& session, int processors) {
  const auto& blas = session.api().blas;
  EMPLACE_TRY(
      session.check(blas.MatmulDescCreate(desc_.fill(session), CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
                    "cublasLtMatmulDescCreate"));
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return session.check(blas.MatmulDescSetAttribute(desc_.get(), attribute, &value, sizeof value),
                         "cublasLtMatmulDescSetAttribute");
  };
  const cublasOperation_t first = p_.b.turned() ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = p_.a.turned() ? CUBLAS_OP_T : CUBLAS_OP_N;
  EMPLACE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, first));
  EMPLACE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, second));
  if (p_.bias == Bias::kRow) {
    EMPLACE_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    // Some versions find no algorithm without a bias pointer; each call sets the real one.
    const std::uintptr_t somewhere = 256;
    EMPLACE_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere));
  }
  if (processors > 0) EMPLACE_TRY(set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{processors}));
  EMPLACE_TRY(layout(session, p_.a, a_layout_));
  EMPLACE_TRY(layout(session, p_.b, b_layout_));
  return layout(session, p_.d, d_layout_);
}

Result<Unit> Matmul::prepare(const Lane& lane) {
  if (algorithm_) return Unit{};
  Session& session = *lane.session;
  if (lane.blas == nullptr) return Error{Errc::kUnsupported, "no cuBLASLt"};
  if (desc_.get() == nullptr) EMPLACE_TRY(describe(session, lane.processors));
  const auto& blas = session.api().blas;
  OwnedPreference preference;
  EMPLACE_TRY(
      session.check(blas.MatmulPreferenceCreate(preference.fill(session)), "cublasLtMatmulPreferenceCreate"));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return session.check(blas.MatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
                         "cublasLtMatmulPreferenceSetAttribute");
  };
  const std::uint64_t most = kMaxWorkspace;
  EMPLACE_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most));
  EMPLACE_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p_.b.alignment()));
  EMPLACE_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p_.a.alignment()));
  EMPLACE_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p_.d.alignment()));
  EMPLACE_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p_.d.alignment()));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  EMPLACE_TRY(session.check(
      blas.MatmulAlgoGetHeuristic(lane.blas, desc_.get(), b_layout_.get(), a_layout_.get(), d_layout_.get(),
                                  d_layout_.get(), preference.get(), 1, &best, &found),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (found == 0 || best.state != CUBLAS_STATUS_SUCCESS)
    return Error{Errc::kUnsupported, "cuBLASLt has no algorithm for this product"};
  algorithm_ = best.algo;
  workspace_ = best.workspaceSize;
  return Unit{};
}

Result<Unit> Matmul::enqueue(const Lane& lane, const Pointers& pointers) const {
  if (p_.d.batch * p_.d.rows * p_.d.columns == 0) return Unit{};
  Session& session = *lane.session;
  const std::byte *a = pointers.inputs[p_.a_input], *b = pointers.inputs[p_.b_input];
  std::byte* const d = pointers.outputs[0];
  const auto pack = [&](const Kernel& kernel, const std::byte*& source, std::size_t at) {
    std::byte* target = pointers.scratch + at;
    const std::byte* from = std::exchange(source, target);
    return kernel.enqueue(lane, {{&from, 1}, {&target, 1}, nullptr});
  };
  if (pack_a_) EMPLACE_TRY(pack(*pack_a_, a, a_at_));
  if (pack_b_) EMPLACE_TRY(pack(*pack_b_, b, b_at_));
  float beta = 0;
  if (p_.bias == Bias::kRow) {
    const void* bias = pointers.inputs[p_.bias_input];
    EMPLACE_TRY(session.check(session.api().blas.MatmulDescSetAttribute(
                                  desc_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
                              "bias pointer"));
  } else if (p_.bias == Bias::kBroadcast) {
    EMPLACE_TRY(spread_->enqueue(lane, {{&pointers.inputs[p_.bias_input], 1}, pointers.outputs, nullptr}));
    beta = p_.beta;
  }
  return session.check(
      session.api().blas.Matmul(lane.blas, desc_.get(), &p_.alpha, b, b_layout_.get(), a, a_layout_.get(),
                                &beta, d, d_layout_.get(), d, d_layout_.get(), &*algorithm_,
                                pointers.scratch + scratch_, workspace_, lane.stream),
      "cublasLtMatmul");
}

void Matmul::run(const Pointers& pointers) const {
  const std::byte *a = pointers.inputs[p_.a_input], *b = pointers.inputs[p_.b_input];
  const auto pack = [&](const Kernel& kernel, const std::byte*& source, std::size_t at) {
    std::byte* target = pointers.scratch + at;
    const std::byte* from = std::exchange(source, target);
    kernel.run({{&from, 1}, {&target, 1}, nullptr});
  };
  if (pack_a_) pack(*pack_a_, a, a_at_);
  if (pack_b_) pack(*pack_b_, b, b_at_);
  const auto* const left = reinterpret_cast<const float*>(a);
  const auto* const right = reinterpret_cast<const float*>(b);
  auto* const out = reinterpret_cast<float*>(pointers.outputs[0]);
  const auto* const bias = reinterpret_cast<const float*>(pointers.inputs[p_.bias_input]);
  if (p_.bias == Bias::kBroadcast)
    spread_->run({{&pointers.inputs[p_.bias_input], 1}, pointers.outputs, nullptr});
  for (std::int64_t n = 0; n < p_.d.batch; ++n) {
    for (std::int64_t i = 0; i < p_.d.rows; ++i) {
      for (std::int64_t j = 0; j < p_.d.columns; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < p_.a.columns; ++k)
          sum += left[n * p_.a.batch_stride + i * p_.a.row_stride + k * p_.a.column_stride] *
                 right[n * p_.b.batch_stride + k * p_.b.row_stride + j * p_.b.column_stride];
        float& at = out[n * p_.d.batch_stride + i * p_.d.row_stride + j];
        at = p_.alpha * sum + (p_.bias == Bias::kRow         ? bias[j]
                               : p_.bias == Bias::kBroadcast ? p_.beta * at
                                                             : 0.0f);
      }
    }
  }
}

/// Copies an operand that cuBLASLt cannot read in place.
Made packing(const Operand& operand) {
  return make_kernel({"aten::clone", "{}", {operand}, {packed(operand.dtype, operand.shape)}});
}

struct Options {
  bool turn_a = false, turn_b = false;
  float alpha = 1, beta = 1;
};

/// `a`, `b`: indices of inputs. `bias`: index of an input, or -1.
Made make(const Signature& signature, std::size_t a, std::size_t b, int bias, Options options) {
  EMPLACE_TRY(expect(signature, bias < 0 ? 2 : 3, 1));
  const Operand& out = signature.outputs[0];
  std::unique_ptr<Kernel> packs[2], spread;
  Matrix sides[2];
  for (int side = 0; side < 2; ++side) {
    const Operand& operand = signature.inputs[side == 0 ? a : b];
    std::optional<Matrix> m = matrix_of(operand);
    if (!m && operand.shape.size() < 2) return unsupported(signature, "operand is not a matrix");
    if (!m || !m->direct() || (m->batch > 1 && m->batch_stride == 0)) {
      EMPLACE_TRY_ASSIGN(packs[side], packing(operand));
      m = matrix_of(packed(operand.dtype, operand.shape));
    }
    sides[side] = *m;
  }
  if (options.turn_a) sides[0].turn();
  if (options.turn_b) sides[1].turn();
  std::optional<Matrix> d = matrix_of(out);
  if (!d) return unsupported(signature, "output is not a matrix");
  if (sides[1].batch == 1 && sides[0].batch > 1 && !sides[0].turned() &&
      sides[0].batch_stride == sides[0].rows * sides[0].row_stride) {
    for (Matrix* m : {&sides[0], &*d})
      m->rows *= m->batch, m->batch = 1, m->batch_stride = 0;  // A shared matrix makes one tall product.
  }
  if (sides[0].batch != d->batch || sides[1].batch != d->batch || sides[0].rows != d->rows ||
      sides[1].columns != d->columns || sides[0].columns != sides[1].rows)
    return unsupported(signature, "shapes do not match a matrix product");
  Product product{sides[0],      sides[1],     *d,         a, b, static_cast<std::size_t>(std::max(bias, 0)),
                  options.alpha, options.beta, Bias::kNone};
  if (bias >= 0) {
    const Operand& from = signature.inputs[static_cast<std::size_t>(bias)];
    const bool row = from.is_packed() && from.elements() == d->columns && !from.shape.empty() &&
                     from.shape.back() == d->columns && options.beta == 1 && options.alpha == 1 &&
                     d->batch == 1;
    product.bias = row ? Bias::kRow : Bias::kBroadcast;
    if (!row) {
      EMPLACE_TRY_ASSIGN(spread, make_kernel({"aten::clone", "{}", {from}, {out}}));
    }
  }
  return std::unique_ptr<Kernel>{
      std::make_unique<Matmul>(product, std::move(packs[0]), std::move(packs[1]), std::move(spread))};
}

Made product(const Signature& signature) { return make(signature, 0, 1, -1, {}); }

Made addmm(const Signature& signature) {
  Attributes attributes{signature};
  const Options options{.alpha = static_cast<float>(attributes.number("alpha", 1)),
                        .beta = static_cast<float>(attributes.number("beta", 1))};
  if (attributes.fault()) return *attributes.fault();
  return make(signature, 1, 2, 0, options);
}

Made gemm(const Signature& signature) {
  Attributes attributes{signature};
  const Options options{attributes.flag("transA", false), attributes.flag("transB", false),
                        static_cast<float>(attributes.number("alpha", 1)),
                        static_cast<float>(attributes.number("beta", 1))};
  if (attributes.fault()) return *attributes.fault();
  return make(signature, 0, 1, signature.inputs.size() == 3 ? 2 : -1, options);
}

}  // namespace

std::span<const KernelEntry> matmul_kernels() {
  static constexpr KernelEntry entries[] = {
      {"aten::mm aten::bmm MatMul", product}, {"aten::addmm", addmm}, {"Gemm", gemm}};
  return entries;
}

}  // namespace emplace::cuda

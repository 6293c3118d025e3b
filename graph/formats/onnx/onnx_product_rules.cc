#include <onnx.pb.h>

#include <algorithm>
#include <utility>

#include "graph/capped.h"
#include "graph/formats/onnx/onnx_infer.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::onnx_io {

namespace {

/// Output 0: input `a` times input `b`.
template <std::size_t a, std::size_t b>
void product(Inference& op) {
  if (op.shape(a) == nullptr || op.shape(b) == nullptr) return;
  auto out = matrix_product(*op.shape(a), *op.shape(b));
  if (!out)
    return op.reject("its matrices " + shape_text(*op.shape(a)) + " and " + shape_text(*op.shape(b)) +
                     " are incompatible");
  op.set(0, *std::move(out));
}

void swap_last(Shape& shape) {
  if (shape.size() >= 2) std::swap(shape.back(), shape[shape.size() - 2]);
}

/// The com.microsoft product; either operand may be transposed.
void fused_matmul(Inference& op) {
  if (op.shape(0) == nullptr || op.shape(1) == nullptr) return;
  Shape a = *op.shape(0), b = *op.shape(1);
  if (op.number("transA", 0) != 0) swap_last(a);
  if (op.number("transB", 0) != 0) swap_last(b);
  if (auto out = matrix_product(std::move(a), std::move(b))) op.set(0, *std::move(out));
}

/// Output 0: matrix 0 times matrix `second`; either may be transposed.
template <std::size_t second>
void gemm(Inference& op) {
  if (op.shape(0) == nullptr || op.shape(second) == nullptr) return;
  Shape a = *op.shape(0), b = *op.shape(second);
  if (a.size() != 2 || b.size() != 2)
    return op.reject("its operands " + shape_text(a) + " and " + shape_text(b) + " are not matrices");
  if (op.number("transA", 0) != 0) swap_last(a);
  if (op.number("transB", 0) != 0) swap_last(b);
  if (a[1] != b[0])
    return op.reject("its matrices " + shape_text(a) + " and " + shape_text(b) + " are incompatible");
  op.set(0, {a[0], b[1]});
}

/// The result is real if its scale, input k, is absent.
template <std::size_t k>
int scaled_type(const Inference& op) {
  return op.input(k) != nullptr && op.element(k) != 0 ? op.element(k) : Proto::FLOAT;
}

/// The first output is the first input with another last size; nothing if that is unknown.
void resized(Inference& op, std::size_t output, Shape x, std::int64_t last) {
  if (x.empty() || last <= 0) return;
  x.back() = last;
  op.set(output, std::move(x));
}

/// The com.microsoft product with a matrix [K, N] of a few bits per weight.
void matmul_nbits(Inference& op, const Shape& x) { resized(op, 0, x, op.number("N", 0)); }

/// The com.microsoft product with quantised weights [N, K].
void matmul_rows(Inference& op, const Shape& x) {
  if (const Shape* w = op.shape(1); w != nullptr && !w->empty()) resized(op, 0, x, w->front());
}

/// The com.microsoft products of one input with the weights of Q, K and V.
void matmul_qkv(Inference& op, const Shape& x) {
  for (std::size_t k = 0; k < 3; ++k) resized(op, k, x, op.number(k == 0 ? "Nq" : "Nkv", 0));
  op.set(3, x);
}

/// The com.microsoft product whose columns are the router's, then those of a gate and its values.
void router_and_gate(Inference& op, const Shape& x) {
  const Shape* w = op.shape(1);
  if (w == nullptr || w->size() != 2) return;
  const std::int64_t router = op.number("router_size", 0);
  if (router < 0) return;
  resized(op, 0, x, router);
  resized(op, 1, x, (w->back() - router) / 2);
}

/// The com.microsoft product with a packed matrix whose sizes are input 2.
void matmul_sized(Inference& op, const Shape& x) {
  if (const auto* sizes = op.whole(2); sizes != nullptr && sizes->size() == 2)
    resized(op, 0, x, sizes->back());
}

/// Mixtures of experts, SwiGLU and attention of a linear kind: as the first input, or as the value heads are.
void as_first(Inference& op, const Shape& x) { op.set(0, x); }

/// SwiGLU of com.microsoft: of one input, which holds both halves, or of two.
void gated(Inference& op, const Shape& x) {
  if (op.input(1) != nullptr) return op.set(0, x);
  if (!x.empty()) resized(op, 0, x, x.back() / 2);
}

/// Linear attention; query, key and value are [batch, length, heads · size], the state
/// [batch, heads, key size, value size].
void linear_attention(Inference& op, const Shape& q) {
  const Shape *k = op.shape(1), *v = op.shape(2);
  const std::int64_t kv_heads = op.number("kv_num_heads", 0), heads = op.number("q_num_heads", 0);
  if (k == nullptr || v == nullptr || q.size() != 3 || k->size() != 3 || v->size() != 3) return;
  if (kv_heads < 1 || heads < 1) return;
  const std::int64_t size = v->back() / kv_heads;
  resized(op, 0, q, capped::times(std::max(heads, kv_heads), size));
  op.set(1, op.shape(3) != nullptr ? *op.shape(3) : Shape{q[0], kv_heads, k->back() / kv_heads, size});
}

/// A convolution that looks back only; its state is the end of the sequence.
///   x [batch, channels, length], weights [channels, 1, kernel]
void causal_convolution(Inference& op, const Shape& x) {
  const Shape* w = op.shape(1);
  op.set(0, x);
  if (op.shape(3) != nullptr) return op.set(1, *op.shape(3));
  if (x.size() == 3 && w != nullptr && w->size() == 3)
    op.set(1, {x[0], x[1], capped::times(w->back() - 1, op.number("dilation", 1))});
}

/// Inputs:
///   X [steps, batch, in]
///   W [directions, gates · hidden, in]
///   R [directions, gates · hidden, hidden]
void recurrent_rule(Inference& op, const Shape& x) {
  const Shape* r = op.shape(2);
  if (r == nullptr || x.size() != 3 || r->size() != 3) return;
  const bool batch_first = op.number("layout", 0) != 0;
  const std::int64_t steps = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const std::int64_t directions = (*r)[0],
                     hidden = std::min((*r)[1], (*r)[2]);  // A quantised R is transposed.
  op.set(0, batch_first ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden});
  for (std::size_t k = 1; k < op.num_outputs(); ++k)
    op.set(k, batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden});
}

void einsum_rule(Inference& op) {
  std::vector<Shape> shapes;
  for (std::size_t k = 0; k < op.num_inputs(); ++k) {
    if (op.shape(k) == nullptr) return;
    shapes.push_back(*op.shape(k));
  }
  const std::string_view equation = op.text("equation");
  auto sizes = einsum(equation, shapes);
  if (!sizes) return op.reject("its inputs do not match its equation " + in_quotes(equation));
  op.set(0, std::move(sizes->result));
}

/// ONNX's attention: Q, K, V as [batch, heads, length, size] or [batch, length, heads · size], and the past
/// of K and V.
void attention_rule(Inference& op, const Shape& q) {
  const Shape *k = op.shape(1), *v = op.shape(2);
  if (k == nullptr || v == nullptr || q.size() != k->size() || q.size() != v->size()) return;
  const bool flat = q.size() == 3;
  if (!flat && q.size() != 4) return;
  const std::int64_t q_heads = flat ? op.number("q_num_heads", 0) : q[1];
  const std::int64_t kv_heads = flat ? op.number("kv_num_heads", 0) : (*k)[1];
  if (q_heads < 1 || kv_heads < 1) return;
  const std::int64_t batch = q[0], length = q[flat ? 1 : 2];
  const std::int64_t k_size = flat ? (*k)[2] / kv_heads : (*k)[3];
  const std::int64_t v_size = flat ? (*v)[2] / kv_heads : (*v)[3];
  std::int64_t total = (*k)[flat ? 1 : 2];
  if (const Shape* past = op.shape(4); past != nullptr && past->size() == 4) total += (*past)[2];
  op.set(0, flat ? Shape{batch, length, q_heads * v_size} : Shape{batch, q_heads, length, v_size});
  op.set(1, {batch, kv_heads, total, k_size});
  op.set(2, {batch, kv_heads, total, v_size});
  op.set(3, {batch, q_heads, length, total});
}

/// Attention of com.microsoft with projection:
///   input   [batch, length, in]
///   weights [in, q + k + v]
void packed_attention(Inference& op, const Shape& x) {
  const Shape* w = op.shape(1);
  if (w == nullptr || x.size() < 2 || x.size() > 3 || w->size() != 2) return;  // Packed tokens have no batch.
  const auto sizes = op.list("qkv_hidden_sizes");
  resized(op, 0, x, sizes.size() == 3 ? sizes[2] : (*w)[1] / 3);
}

/// MultiHeadAttention of com.microsoft:
///   query [batch, length, hidden]
///   value [batch, total, hidden']
void multi_head_attention(Inference& op, const Shape& q) {
  const Shape* v = op.shape(2);
  if (q.size() == 2 || q.size() == 3) op.set(0, q);
  if (v != nullptr && v->size() == q.size() && q.size() < 4) resized(op, 0, q, v->back());
  if (q.size() == 4) op.set(0, {q[0], capped::times(q[1], q[3])});        // Packed tokens.
  if (q.size() == 5) op.set(0, {q[0], q[1], capped::times(q[2], q[4])});  // Packed Q, K and V per head.
}

/// The query is [batch, length, heads · size], with K and V packed behind it if input 1 is absent. Output
/// caches are as long as input caches.
void group_query_attention(Inference& op, const Shape& q) {
  if (q.size() != 2 && q.size() != 3) return;  // Tokens of a paged cache have no batch.
  const std::int64_t heads = op.number("num_heads", 0), kv_heads = op.number("kv_num_heads", 0);
  std::int64_t hidden = q.back();
  const std::int64_t packed = capped::plus(std::min(heads, capped::kMax), capped::times(2, kv_heads));
  if (op.input(1) == nullptr && heads > 0 && kv_heads > 0) hidden = capped::times(hidden / packed, heads);
  resized(op, 0, q, hidden);
  for (const std::size_t k : {std::size_t{1}, std::size_t{2}})
    if (op.shape(k + 2) != nullptr) op.set(k, *op.shape(k + 2));
}

/// The com.microsoft op: normalised sum of word, position and segment embeddings; the mask's length per row.
void embed_layer_norm(Inference& op) {
  const Shape *ids = op.shape(0), *words = op.shape(2);
  op.set_element(1, Proto::INT32);
  if (ids == nullptr || words == nullptr || ids->size() != 2 || words->size() != 2) return;
  op.set(0, {(*ids)[0], (*ids)[1], (*words)[1]});
  op.set(1, {(*ids)[0]});
  op.set(2, {(*ids)[0], (*ids)[1], (*words)[1]});
}

/// SoftmaxCrossEntropyLoss and NegativeLogLikelihoodLoss: a scalar, or one loss per label.
void loss(Inference& op) {
  if (op.text("reduction") != "none") {
    op.set(0, {});
  } else if (op.shape(1) != nullptr) {
    op.set(0, *op.shape(1));
  }
  if (op.shape(0) != nullptr) op.set(1, *op.shape(0));
}

constexpr RuleRow kProductRules[]{
    {"MatMul com.microsoft::GemmFastGelu", 2, product<0, 1>},
    {"MatMulInteger", 2, product<0, 1>, always<Proto::INT32>},
    {"com.microsoft::MatMulInteger16", 2, product<0, 1>, always<Proto::INT32>},
    {"QLinearMatMul", 8, product<0, 3>, as_input<7>},
    {"com.microsoft::QOrderedMatMul", 5, product<0, 2>},
    {"Gemm com.microsoft::FusedGemm com.microsoft::GemmFloat8", 2, gemm<1>},
    {"LSTM GRU RNN com.microsoft::DynamicQuantizeLSTM", 3, recurrent_rule},
    {"com.microsoft::MoE com.microsoft::QMoE com.microsoft::MoEPacked SwiGLU", 1, as_first},
    {"com.microsoft::SwiGLU", 1, gated},
    {"LinearAttention com.microsoft::LinearAttention", 3, linear_attention},
    {"CausalConvWithState com.microsoft::CausalConvWithState", 2, causal_convolution},
    {"Einsum", 1, einsum_rule},
    {"Attention", 3, attention_rule},
    {"SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss", 2, loss},
    {"com.microsoft::FusedMatMul com.microsoft::TransposeMatMul com.microsoft::FusedMatMulActivation "
     "com.microsoft::SparseToDenseMatMul",
     2, fused_matmul},
    {"com.microsoft::QGemm", 6, gemm<3>, scaled_type<8>},
    {"com.microsoft::MatMulNBits com.microsoft::MatMulBnb4 com.microsoft::MatMulPacked "
     "com.microsoft::MatMulNBitsMlp com.microsoft::MatMulNBitsQLoRA",
     1, matmul_nbits},
    {"com.microsoft::MatMulNBitsQkv", 1, matmul_qkv},
    {"com.microsoft::RouterGateUpProj", 2, router_and_gate},
    {"com.microsoft::MatMulFpQ4", 3, matmul_sized},
    {"com.microsoft::MatMulBlockQuantizedFp4Weight com.microsoft::MatMulBlockQuantizedFp8Weight", 2,
     matmul_rows},
    {"com.microsoft::MatMulIntegerToFloat", 4, product<0, 1>, scaled_type<2>},
    {"com.microsoft::DynamicQuantizeMatMul", 3, product<0, 1>},
    {"com.microsoft::Attention com.microsoft::DecoderMaskedSelfAttention com.microsoft::PackedAttention", 2,
     packed_attention},
    {"com.microsoft::QAttention", 5, packed_attention},
    {"com.microsoft::MultiHeadAttention com.microsoft::DecoderMaskedMultiHeadAttention "
     "com.microsoft::PackedMultiHeadAttention",
     1, multi_head_attention},
    {"com.microsoft::GroupQueryAttention com.microsoft::PagedAttention", 1, group_query_attention},
    {"com.microsoft::EmbedLayerNormalization", 5, embed_layer_norm, as_input<2>},
};

}  // namespace

std::span<const RuleRow> product_rules() { return kProductRules; }

}  // namespace emplace::onnx_io

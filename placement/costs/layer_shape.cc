#include "placement/costs/layer_shape.h"

#include <algorithm>
#include <optional>

namespace emplace::kernel_shapes {
namespace {

struct AttentionSizes {
  double batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0;
  double key_size = 0, value_size = 0;
  bool causal = false, backward = false;
};

/// Kernels of a gradient: a sum over the outputs' gradients, the products, and a conversion of the queries'.
///   Source: https://github.com/Dao-AILab/flash-attention (flash_bwd_launch_template.h)
constexpr double kLaunchesOfGradient = 3;
constexpr double kMostDecoded = 16;  ///< Queries of one sequence that a decoding kernel takes at a time.

void add_attention(const OpSizes& op, const AttentionSizes& sizes, Kernels& kernels) {
  const auto [batch, heads, kv_heads, queries, keys, key_size, value_size, causal, backward] = sizes;
  if (batch < 1 || heads < 1 || kv_heads < 1 || queries < 1 || keys < 1 || key_size < 1) return;
  const bool decode =
      !backward && queries <= kMostDecoded && (queries == 1 || queries * kMostDecoded <= keys);
  // Keys may be of another dtype than the queries, as in a cache of eight bits. Results are as queries,
  // values as keys. An op whose keys are no input of their own has all in one tensor.
  const double query_bytes = op.bytes_of_element(op.role().first);
  const double key_bytes =
      op.elements(op.role().second) > 0 ? op.bytes_of_element(op.role().second) : query_bytes;
  const double both = key_size + value_size, cached = batch * kv_heads * keys;
  const double masked = causal && queries > 1 ? queries * (std::min(queries, keys) - 1) / 2 : 0;
  KernelShape kernel;
  kernel.flops =
      2 * batch * heads * (queries * keys - masked) * (backward ? 3 * key_size + 2 * value_size : both);
  kernel.bytes = both * (query_bytes * batch * heads * queries + key_bytes * cached) * (backward ? 2 : 1);
  kernel.launches = backward ? kLaunchesOfGradient : 1;
  if (decode) {
    kernel.kind = KernelKind::kDecode;
    kernel.at = {batch * kv_heads, cached * key_size, std::max(1.0, heads / kv_heads)};
  } else {
    kernel.kind = causal ? KernelKind::kPrefill : KernelKind::kEncoder;
    kernel.at = {batch * heads, keys, key_size};
  }
  kernels.add(kernel);
}

/// Torch's fused attention; the work gives the keys of packed sequences.
///   query [.., heads, length, size], or [.., length, heads, size] where the rule's amount is 2
void add_torch_attention(const OpSizes& op, bool backward, Kernels& kernels) {
  const WorkRule& rule = op.role().kind->work;
  const std::size_t q = rule.input, k = q + 1, axis = std::size_t{1} + rule.amount;
  const auto query = op.shape(q), key = op.shape(k);
  if (query.size() < std::max<std::size_t>(axis, 3) || key.size() < query.size()) return;
  const std::size_t head = query.size() - (rule.amount == 2 ? 2 : 3);
  const std::int64_t depth = op.last(q), values = op.last(k + 1),
                     rows = op.elements(q) / std::max<std::int64_t>(1, depth);
  const std::int64_t per_score = backward ? 6 * depth + 4 * values + 4 : 2 * depth + 2 * values + 5;
  if (rows == 0 || key[head] == 0) return;
  AttentionSizes sizes{.heads = static_cast<double>(query[head]), .kv_heads = static_cast<double>(key[head])};
  sizes.keys = static_cast<double>(op.flops() / per_score / rows);
  if (sizes.keys < 1) return;
  // The shape does not give the batch: packed sequences are rows of one long sequence. The keys of one
  // sequence are known from the work, and so the number of sequences.
  const double all_keys =
      static_cast<double>(op.elements(k)) / (static_cast<double>(key[head]) * static_cast<double>(depth));
  sizes.batch = std::max(1.0, all_keys / sizes.keys);
  sizes.queries = static_cast<double>(rows) / (sizes.heads * sizes.batch);
  sizes.key_size = static_cast<double>(depth), sizes.value_size = static_cast<double>(values);
  sizes.causal = op.flag("is_causal"), sizes.backward = backward;
  add_attention(op, sizes, kernels);
}

/// ONNX's attention on [batch, heads, length, size] or [batch, length, heads · size].
void add_onnx_attention(const OpSizes& op, Kernels& kernels) {
  const auto query = op.shape(0), key = op.shape(1), value = op.shape(2);
  if (query.size() < 3 || key.size() != query.size() || value.size() != query.size()) return;
  const bool flat = query.size() == 3;
  const std::int64_t heads = flat ? op.attribute("q_num_heads", 1) : query[1];
  const std::int64_t kv_heads = flat ? op.attribute("kv_num_heads", 1) : key[1];
  if (heads <= 0 || kv_heads <= 0) return;
  AttentionSizes sizes{.batch = static_cast<double>(query[0]),
                       .heads = static_cast<double>(heads),
                       .kv_heads = static_cast<double>(kv_heads),
                       .queries = static_cast<double>(flat ? query[1] : query[2])};
  const std::int64_t key_size = flat ? query[2] / heads : query[3];
  const std::int64_t value_size = flat ? value[2] / kv_heads : value[3];
  const double rows = sizes.batch * sizes.heads * sizes.queries;
  if (rows < 1) return;
  sizes.keys = static_cast<double>(op.flops()) / static_cast<double>(2 * (key_size + value_size) + 5) / rows;
  sizes.key_size = static_cast<double>(key_size), sizes.value_size = static_cast<double>(value_size);
  sizes.causal = op.flag("is_causal");
  add_attention(op, sizes, kernels);
}

/// Attention ops of com.microsoft: [batch, length, heads · size], with a projection from the input to
/// queries, keys and values before some of them.
void add_contrib_attention(const OpSizes& op, Kernels& kernels) {
  const auto made = op.made_shape();
  const std::int64_t heads = op.attribute("num_heads", 1), kv_heads = op.attribute("kv_num_heads", heads);
  if (made.size() < 2 || heads <= 0 || kv_heads <= 0 || made.back() < heads) return;
  const std::int64_t value = made.back() / heads, tokens = op.made() / made.back();
  double projection = 0;
  const bool apart = op.type().ends_with("QOrderedAttention");
  if (op.formula() == Formula::kProjectedAttention) {
    for (const std::size_t k : {apart ? 5u : 1u, apart ? 6u : 0u, apart ? 7u : 0u})
      if (k != 0 && op.shape(k).size() == 2)
        projection += 2 * static_cast<double>(op.elements(0)) * static_cast<double>(op.last(k));
  }
  AttentionSizes sizes{.batch = static_cast<double>(made.size() == 3 ? made[0] : 1),
                       .heads = static_cast<double>(heads),
                       .kv_heads = static_cast<double>(kv_heads)};
  sizes.queries = static_cast<double>(tokens) / sizes.batch;
  sizes.key_size = sizes.value_size = static_cast<double>(value);
  const double rows = static_cast<double>(tokens) * sizes.heads;
  sizes.keys = (static_cast<double>(op.flops()) - projection) / (4 * sizes.key_size + 5) / rows;
  const bool grouped = op.formula() == Formula::kGroupedAttention || op.formula() == Formula::kPagedAttention;
  sizes.causal = grouped || op.flag("unidirectional");
  if (projection > 0 && op.last(0) > 0) {
    const double depth = static_cast<double>(op.last(0)),
                 inputs = static_cast<double>(op.elements(0)) / depth;
    const double width = projection / (2 * inputs * depth);
    KernelShape kernel{.kind = KernelKind::kProduct, .at = {inputs, width, depth}, .flops = projection};
    kernel.bytes = op.bytes_read(0) + op.bytes_read(1) + inputs * width * op.bytes_of_element(0);
    kernels.add(kernel);
  }
  const std::size_t before = kernels.size;
  add_attention(op, sizes, kernels);
  if (kernels.size == before) kernels.size = 0;
}

/// cuDNN's attention in XLA, [batch, …, …, size] with heads and length in any order: the work gives the keys,
/// and their elements the heads. As many heads of keys as of queries.
void add_fused_attention(const OpSizes& op, bool backward, Kernels& kernels) {
  const std::int64_t depth = op.last(0), values = backward ? depth : op.last(2);
  const std::int64_t per_score = backward ? 6 * depth + 4 * values + 4 : 2 * depth + 2 * values + 5;
  if (depth <= 0 || op.elements(0) < depth || op.shape(1).size() < 3) return;
  const double rows = static_cast<double>(op.elements(0) / depth);
  AttentionSizes sizes{.keys = static_cast<double>(op.flops() / per_score) / rows};
  if (sizes.keys < 1) return;
  sizes.batch = static_cast<double>(op.dim(1, 0));
  sizes.heads = sizes.kv_heads = static_cast<double>(op.elements(1)) /
                                 (static_cast<double>(depth) * sizes.keys * std::max(1.0, sizes.batch));
  if (sizes.heads < 1) return;
  sizes.queries = rows / (sizes.batch * sizes.heads);
  sizes.key_size = static_cast<double>(depth), sizes.value_size = static_cast<double>(values);
  sizes.backward = backward;
  add_attention(op, sizes, kernels);
}

/// Layers whose matrices are known: `units` · `gates` columns each.
struct RecurrentSizes {
  double cells = 0;         ///< Batch · steps.
  double batch = 0;         ///< Rows of one step.
  double layers = 0;        ///< Directions count too: matrices of the states.
  double columns = 0;       ///< Columns of each matrix: gates · hidden.
  double input = 0;         ///< Elements of all matrices of the inputs.
  double state = 0;         ///< Elements of all matrices of the states.
  std::uint32_t times = 1;  ///< 2 for gradients.
};

void add_recurrent(const OpSizes& op, const RecurrentSizes& sizes, Kernels& kernels) {
  const auto [cells, batch, layers, columns, input, state, times] = sizes;
  if (cells < 1 || batch < 1 || layers < 1 || columns < 1 || state < columns || input < 1) return;
  const double products = 2 * cells * (input + state) * times, work = static_cast<double>(op.flops());
  if (products > work || products < work / 4) return;
  const double steps = std::max(1.0, cells / batch), hidden = state / (layers * columns);
  const auto matrices = static_cast<std::uint32_t>(layers) * times;
  KernelShape inputs{.kind = KernelKind::kProduct, .count = matrices};
  inputs.at = {cells, columns, std::max(1.0, input / (layers * columns))};
  inputs.flops = 2 * cells * input / layers;
  const double each = op.bytes_of_element(0);
  inputs.bytes = each * (cells * inputs.at[2] + input / layers + cells * columns);
  KernelShape states{.kind = KernelKind::kProduct, .count = matrices * static_cast<std::uint32_t>(steps)};
  states.at = {batch, columns, std::max(1.0, hidden)};
  states.flops = 2 * batch * state / layers + (work - products) / states.count;
  states.bytes = each * (batch * hidden * 3 + state / layers + batch * columns);
  kernels.add(inputs);
  kernels.add(states);
}

/// Torch's layers: pairs of matrices [gates · hidden, inputs] and [gates · hidden, hidden] of each layer and
/// direction, anywhere behind the input, and a state [layers, batch, hidden].
void add_torch_recurrent(const OpSizes& op, Kernels& kernels) {
  RecurrentSizes sizes;
  sizes.cells = static_cast<double>(op.elements(0) / std::max<std::int64_t>(1, op.last(0)));
  const std::size_t end = op.type().find("mkldnn_rnn_layer") == std::string_view::npos
                              ? op.num_inputs()
                              : std::min<std::size_t>(3, op.num_inputs());
  bool of_state = false;
  for (std::size_t k = 1; k < op.num_inputs(); ++k) {
    const auto shape = op.shape(k);
    if (shape.size() == 3 && sizes.batch == 0) sizes.batch = static_cast<double>(shape[1]);
    if (shape.size() != 2 || k >= end) continue;
    if (sizes.columns == 0) sizes.columns = static_cast<double>(shape[0]);
    if (static_cast<double>(shape[0]) != sizes.columns) return;  // A projection of the state.
    (of_state ? sizes.state : sizes.input) += static_cast<double>(op.elements(k));
    if (of_state) ++sizes.layers;
    of_state = !of_state;
  }
  if (sizes.batch == 0) sizes.batch = sizes.cells;
  sizes.times = op.formula() == Formula::kRecurrentGradients ? 2 : 1;
  add_recurrent(op, sizes, kernels);
}

/// ONNX: x [steps, batch, in], w [directions, gates · hidden, in], r [directions, gates · hidden, hidden].
void add_onnx_recurrent(const OpSizes& op, Kernels& kernels) {
  if (op.shape(0).size() != 3 || op.shape(1).size() != 3 || op.shape(2).size() != 3) return;
  const bool batch_first = op.attribute("layout", 0) != 0;
  const std::int64_t columns = std::max(op.dim(2, 1), op.dim(2, 2));  // A quantised r is transposed.
  add_recurrent(op,
                {.cells = static_cast<double>(op.dim(0, 0) * op.dim(0, 1)),
                 .batch = static_cast<double>(op.dim(0, batch_first ? 0 : 1)),
                 .layers = static_cast<double>(op.dim(2, 0)),
                 .columns = static_cast<double>(columns),
                 .input = static_cast<double>(op.elements(1)),
                 .state = static_cast<double>(op.elements(2))},
                kernels);
}

/// A cell of one step: one product with the weights of all gates, and the gates themselves.
///   x [rows, in], matrices [gates · hidden, in] of torch, [in, gates · hidden] of TensorFlow
void add_cell(const OpSizes& op, Kernels& kernels) {
  const std::int64_t rows = op.dim(0, 0);
  const bool torch = op.role().vocabulary == Vocabulary::kAten;
  double weights = 0, columns = 0;
  for (std::size_t k = 1; k < op.num_inputs(); ++k) {
    if (op.shape(k).size() != 2 || op.dim(k, 0) == rows) continue;
    weights += static_cast<double>(op.elements(k));
    columns = std::max(columns, static_cast<double>(torch ? op.dim(k, 0) : op.last(k)));
  }
  const double products = 2 * static_cast<double>(rows) * weights, work = static_cast<double>(op.flops());
  if (rows <= 0 || weights < 1 || products > work || products < work / 4) return;
  KernelShape product{.kind = KernelKind::kProduct, .flops = products};
  product.at = {static_cast<double>(rows), columns, std::max(1.0, weights / columns)};
  product.bytes = op.traffic();
  kernels.add(product);
  KernelShape gates{.kind = KernelKind::kElementwise, .flops = work - products};
  gates.bytes = op.bytes_made() + static_cast<double>(rows) * columns * op.bytes_of_element(0);
  gates.at = {std::max(1.0, gates.bytes), 1, 1};
  kernels.add(gates);
}

}  // namespace

void add_layers(const OpSizes& op, Kernels& kernels) {
  const bool torch = op.role().vocabulary == Vocabulary::kAten;
  switch (op.formula()) {
    case Formula::kAttention:
      return torch ? add_torch_attention(op, false, kernels) : add_onnx_attention(op, kernels);
    case Formula::kAttentionGradient:
      return add_torch_attention(op, true, kernels);
    case Formula::kProjectedAttention:
    case Formula::kMultiHeadAttention:
    case Formula::kGroupedAttention:
    case Formula::kPagedAttention:
      return add_contrib_attention(op, kernels);
    case Formula::kFusedAttention:
      return add_fused_attention(op, false, kernels);
    case Formula::kFusedAttentionGradient:
      return add_fused_attention(op, true, kernels);
    case Formula::kRecurrent:
      if (op.type().ends_with("_cell")) return add_cell(op, kernels);
      return torch ? add_torch_recurrent(op, kernels) : add_onnx_recurrent(op, kernels);
    case Formula::kRecurrentGradients:
      return add_torch_recurrent(op, kernels);
    case Formula::kLstmCell:
    case Formula::kGruCell:
      return add_cell(op, kernels);
    default:
      return;
  }
}

}  // namespace emplace::kernel_shapes

#pragma once
/// Records a step like the training graph of TensorFlow 1: every op that `tf.gradients` and an optimizer add.
///
/// Recorded:
/// - variables: a state op (`Parameter`, attribute op = VariableV2), and an `Identity` NAME/read for readers
/// - constants: a state op (`Constant`, attribute op = Const) per axis, shape or number operand
/// - layers: MatMul and BiasAdd; Conv2D or DepthwiseConv2dNative; FusedBatchNorm, with Sub, Mul and AssignSub
///   for the moving mean and variance; dropout from RandomUniform
/// - LSTM cells (BasicLSTMCell): ConcatV2, MatMul, BiasAdd, Split, the forget bias's Add, gates, products
/// - sequences: unrolled, Unpack and Pack at their ends; beyond a sentence's end GreaterEqual and Select, as
///   in dynamic_rnn; zero states of Shape, StridedSlice, Pack and Fill
/// - gradients of binary ops: Shape of both operands, BroadcastGradientArgs, and per operand Sum and Reshape
/// - gradients of concatenations: FloorMod, ShapeN, ConcatOffset and a Slice per part
/// - gradients of means: Reshape, Tile, and the count by Prod, Maximum, FloorDiv, Cast, RealDiv
/// - several gradients of one tensor: one AddN
/// - several gradients of one op: an Identity each (tuple/control_dependency)
/// - lookups: GatherV2; its gradient stays sparse (values and indices), is made unique (Unique,
///   UnsortedSegmentSum) and applied to the rows only (ScatterSub, SparseApply…; Adam has its own sequence)
/// - updates: ApplyGradientDescent, ApplyMomentum, ApplyRMSProp or ApplyAdam per variable, and its slots
///
/// Not recorded: initialisers, savers, summaries and input queues, which no step runs, and NoOp, which only
/// orders. A Shape is recorded right after its tensor, which is when TensorFlow runs it. Sum over no
/// dimension, Reshape, Identity, ExpandDims and Squeeze move no data and are views. Images are [B, C, H, W]
/// and weights [out, in, …], as on the other tape. Names are scopes: "decoder/t07/l0/dec.0/MatMul",
/// "gradients/…", "train/update_…".

#include <array>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/tape/training_tape.h"

namespace emplace::models {

class TensorFlowTape final : public TrainingTape {
 public:
  explicit TensorFlowTape(Optimizer optimizer, bool training = true) : TrainingTape{optimizer, training} {}
  Granularity granularity() const override { return Granularity::kTensorFlow; }

  Tensor parameter(const std::string& name, Shape shape) override;
  Tensor new_zeros(Tensor like, Shape shape) override;
  Tensor add(Tensor a, Tensor b) override;
  Tensor sub(Tensor a, Tensor b) override;
  Tensor mul(Tensor a, Tensor b) override;
  Tensor add_constant(Tensor a) override;
  Tensor scale(Tensor a) override;
  Tensor divide(Tensor a) override;
  Tensor sigmoid(Tensor x) override;
  Tensor tanh(Tensor x) override;
  Tensor relu(Tensor x) override;
  Tensor dropout(Tensor x) override;
  Tensor linear(Tensor x, Tensor weight, Tensor bias) override;
  Tensor linear(Tensor x, Tensor weight) override;
  Tensor bmm(Tensor a, Tensor b) override;
  Tensor cat(const std::vector<Tensor>& parts) override;
  Tensor stack(const std::vector<Tensor>& parts) override;
  std::vector<Tensor> unbind(Tensor x) override;
  std::vector<Tensor> split(Tensor x, std::int64_t parts) override;
  Tensor unsqueeze(Tensor x, std::int64_t dim) override;
  Tensor squeeze(Tensor x, std::int64_t dim) override;
  Tensor flatten(Tensor x) override;
  std::optional<Tensor> beyond_end(Tensor lengths, std::int64_t t) override;
  Tensor select(Tensor mask, Tensor kept, Tensor now) override;
  Tensor conv2d(Tensor x, Tensor weight, ConvOptions options) override;
  Tensor conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) override;
  Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var) override;
  Tensor avg_pool2d(Tensor x, PoolOptions options) override;
  Tensor max_pool2d(Tensor x, PoolOptions options) override;
  Tensor shifted(Tensor x) override;
  Tensor global_mean(Tensor x) override;
  Tensor pool_all(Tensor x) override;
  Tensor embedding(Tensor table, Tensor indices) override;
  Tensor softmax(Tensor x) override;
  Tensor cross_entropy(Tensor logits, Tensor labels) override;

 private:
  /// A sparse gradient: rows of the whole tensor.
  ///   values [n, …]
  ///   indices [n]
  struct Rows {
    Tensor values, indices;
  };

  std::string op_name(std::string_view type) override;
  Tensor seed(Tensor loss) override;
  Tensor sum(Tensor target, const std::vector<Tensor>& gradients) override;
  bool sums_as_they_come() const override { return false; }
  void update(const Variable& variable) override;
  void updates_done() override;

  // Ops of an update, on the device of their variable.
  Tensor at_variable(Tensor variable, std::string_view type, std::vector<Tensor> inputs,
                     std::vector<TensorSpec> outputs, std::optional<std::int64_t> flops = {});
  Tensor hyperparameter(const std::string& name);                // One constant for the whole graph.
  Tensor power(const std::string& name, Tensor first_variable);  // Read of Adam's beta^t.
  /// The sum of the gradients of all uses, placed beside the first one; nothing if there is no gradient.
  std::optional<Tensor> whole_gradient(Tensor variable);
  void apply(const Variable& variable, Tensor gradient);
  void apply_rows(const Variable& variable, Rows rows);
  void adam_rows(const Variable& variable, Tensor values, Tensor indices);

  Tensor constant(DType dtype, Shape shape);
  Tensor read(Tensor state);
  /// The dimensions of x for the backward pass; a constant if they are known statically.
  Tensor dims_of(Tensor x);
  /// The dimensions of several tensors (ShapeN); constants if they are known statically.
  Tensor dims_of_all(const std::vector<Tensor>& xs);
  Tensor view_of(std::string_view type, std::vector<Tensor> inputs, Shape output);
  /// Passes the gradients of one op to their tensors; through an Identity each if there are several.
  void pass(const std::vector<std::pair<Tensor, Tensor>>& gradients);
  /// Reduces `gradient` to the shape of `target`, which was broadcast.
  Tensor reduced(Tensor gradient, Tensor target, Tensor axes, Tensor dims);
  using BinaryGradient = std::function<Tensor(Tensor dy)>;
  Tensor binary(std::string_view type, Tensor a, Tensor b, const BinaryGradient& to_a,
                const BinaryGradient& to_b);
  Tensor pointwise(std::string_view type, Tensor x);
  Tensor matmul(Tensor x, Tensor weight);
  Tensor bias_add(Tensor x, Tensor bias);
  Tensor reshaped(Tensor x, Shape shape);
  Tensor reshaped_back(Tensor out, Tensor x);
  Tensor reshape_back(Tensor gradient, Tensor dims, Tensor target);
  Tensor mean(Tensor x, Shape output);
  Tensor strided_slice(Tensor x, Shape output, DType dtype);

  bool applying_ = false;  // Whether an optimizer's ops are being recorded.
  std::unordered_map<std::string, std::uint32_t> used_names_;
  std::unordered_map<std::uint32_t, Rows> rows_;  // Sparse gradients, by the op that is read.
  std::unordered_map<std::string, Tensor> hyperparameters_;
  std::vector<std::pair<std::string, Variable>> powers_;
};

}  // namespace emplace::models

#pragma once
/// Records one training step of a network as a graph: forward ops as the network calls them, then the
/// backward pass and the optimizer's update, with the op types, shapes and costs that torch's tracer has for
/// them.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace::models {

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
TensorSpec f32(Shape shape);

/// Output `output` of the op recorded as number `op`. Meaningful on its own tape only.
using Tensor = EdgeSpec;

/// Ops per parameter in the update: 1, 3 and 8; tensors of state beside it: 0, 1 and 2.
enum class Optimizer : std::uint8_t { kSgd, kMomentum, kAdam };
std::string_view optimizer_name(Optimizer optimizer);

struct ConvOptions {
  std::int64_t stride = 1, padding = 0, groups = 1;
};
struct PoolOptions {
  std::int64_t kernel = 3, stride = 1, padding = 1;
};

/// Reverse-mode differentiation of what was recorded, in torch's order: the latest op first, gradients that
/// meet summed by a chain of `aten::add`. Shapes are the caller's promise (EMPLACE_CHECK): networks are code,
/// their options are checked before they get here. Flops as in docs/file_formats.md: a multiply-add is two.
/// Float32 throughout, except inputs. Thread: one.
class TrainingTape {
 public:
  explicit TrainingTape(Optimizer optimizer) : optimizer_{optimizer} {}
  TrainingTape(const TrainingTape&) = delete;
  TrainingTape& operator=(const TrainingTape&) = delete;

  /// A level of the scope while it lives: "decoder", then "t07", then "attention".
  class Scope {
   public:
    Scope(TrainingTape& tape, std::string_view level);
    ~Scope() { tape_.scope_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    TrainingTape& tape_;
    const std::size_t length_;
  };

  const Shape& shape(Tensor tensor) const;

  // State. A parameter "cells.9.fc.weight" belongs to the module "cells.9.fc".
  Tensor parameter(const std::string& name, Shape shape);
  Tensor buffer(const std::string& name, Shape shape);
  Tensor input(const std::string& name, DType dtype, Shape shape);
  /// Zeros made in the step, on the device of `like`.
  Tensor new_zeros(Tensor like, Shape shape);

  // Elementwise; `add` broadcasts its second operand over dimension 1 if that is 1 there.
  Tensor add(Tensor a, Tensor b);
  Tensor sub(Tensor a, Tensor b);
  Tensor mul(Tensor a, Tensor b);
  Tensor divide(Tensor a);  ///< By a constant.
  Tensor sigmoid(Tensor x);
  Tensor tanh(Tensor x);
  Tensor relu(Tensor x);

  // Products. Weights are stored [out, in].
  Tensor linear(Tensor x, Tensor weight, Tensor bias);  ///< [B, in] → [B, out]: aten::t and aten::addmm.
  Tensor linear(Tensor x, Tensor weight);               ///< [B, in] or [B, n, in], without bias.
  Tensor bmm(Tensor a, Tensor b);                       ///< [B, m, k] [B, k, n] → [B, m, n].

  // Shapes.
  Tensor cat(const std::vector<Tensor>& parts);             ///< Along dimension 1.
  Tensor stack(const std::vector<Tensor>& parts);           ///< [B, …] each → [B, parts, …].
  std::vector<Tensor> unbind(Tensor x);                     ///< Along dimension 1; every part must be read.
  std::vector<Tensor> split(Tensor x, std::int64_t parts);  ///< Along dimension 1; every part must be read.
  Tensor unsqueeze(Tensor x, std::int64_t dim);
  Tensor squeeze(Tensor x, std::int64_t dim);

  // Images [B, C, H, W].
  Tensor conv2d(Tensor x, Tensor weight, ConvOptions options);
  Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var);
  Tensor avg_pool2d(Tensor x, PoolOptions options);
  Tensor max_pool2d(Tensor x, PoolOptions options);
  Tensor shifted(Tensor x);      ///< One pixel up and left, zeros behind: pad and slices.
  Tensor global_mean(Tensor x);  ///< → [B, C].

  // Lookup and loss.
  Tensor embedding(Tensor table, Tensor indices);
  Tensor softmax(Tensor x);                            ///< Along dimension 1.
  Tensor cross_entropy(Tensor logits, Tensor labels);  ///< [B, classes], [B] → a scalar.

  /// Differentiates `loss`, adds the update of every parameter that it depends on, drops what nothing needs,
  /// and numbers ops as a traced step has them: parameters, buffers, optimizer state, inputs, then issue
  /// order.
  /// @pre once, and nothing is recorded after it. Errors: those of OpGraphBuilder::build.
  Result<OpGraph> finish(Tensor loss, std::string name, std::string source, std::string meta_json);

 private:
  enum class Rank : std::uint8_t { kParameter, kBuffer, kOptimizerState, kInput, kCompute };
  using Gradients = std::vector<std::optional<Tensor>>;  // One per output; empty where nothing flows.
  using Backward = std::function<void(const Gradients&)>;
  using Attributes = std::map<std::string_view, std::string>;  // Values are JSON.

  struct Recorded {
    OpSpec spec;
    Rank rank = Rank::kCompute;
    bool differentiable = false;
    Gradients gradients;
  };
  struct Node {
    std::uint32_t op;
    std::string scope;
    Backward backward;
  };
  struct Work {
    Attributes attrs = {};
    std::int64_t flops = 0;
    bool view = false;
    std::int64_t conv_groups = 1;
  };

  Tensor record(Recorded op);
  Tensor state(Rank rank, std::string_view type, const std::string& name, DType dtype, Shape shape);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs, Work work);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output, Work work);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output);
  Tensor view(std::string_view type, Tensor x, Shape output, Attributes attrs = {});
  /// Notes how gradients flow through the op of `out`, if any flow through its `inputs`.
  void flow(Tensor out, const std::vector<Tensor>& inputs, Backward backward);
  bool flows(Tensor tensor) const { return ops_[tensor.op].differentiable; }
  void accumulate(Tensor target, Tensor gradient);

  Tensor transposed(Tensor matrix);  // aten::t, and its gradient.
  Tensor mm(Tensor x, Tensor weight_t);
  Tensor addmm(Tensor bias, Tensor x, Tensor weight_t);
  Tensor reshaped(std::string_view type, Tensor x, Shape shape);
  Tensor pointwise(std::string_view type, Tensor x, std::int64_t flops_each, std::string_view backward_type,
                   std::int64_t backward_flops_each);
  Tensor sliced(Tensor x, std::int64_t dim, std::int64_t start);
  void run_backward(Tensor loss);
  void update(Tensor parameter, Tensor gradient);

  const Optimizer optimizer_;
  std::vector<Recorded> ops_;
  std::vector<Node> nodes_;
  std::vector<Tensor> parameters_;
  std::string scope_;
  Phase phase_ = Phase::kForward;
  std::unordered_map<std::string, std::uint64_t> count_of_type_;
};

}  // namespace emplace::models

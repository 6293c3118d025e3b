#pragma once
/// Records one step of a network as a graph: forward ops as the network calls them, then, for training, the
/// backward pass and the optimizer's update. A network is written once, against TrainingTape; the dialect
/// determines the ops: aten_tape.h or tensorflow_tape.h.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "graph/op_graph.h"

namespace emplace::models {

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
TensorSpec f32(Shape shape);
TensorSpec i32(Shape shape);
/// Formats the two sizes of a window as an attribute: "[a,b]".
std::string pair_of(std::int64_t a, std::int64_t b);
inline std::string pair_of(std::int64_t both) { return pair_of(both, both); }
/// Returns whether the type is floating-point.
bool carries_gradient(DType dtype);

/// Output `output` of the op recorded as number `op`. Valid on its own tape only.
using Tensor = EdgeSpec;

/// State tensors per parameter: 0, 1, 2 and 2.
enum class Optimizer : std::uint8_t { kSgd, kMomentum, kRmsProp, kAdam };
constexpr auto enum_words(Optimizer) {
  return EnumWords{"optimizer",
                   std::array{EnumWord{Optimizer::kSgd, "sgd"}, EnumWord{Optimizer::kMomentum, "momentum"},
                              EnumWord{Optimizer::kRmsProp, "rmsprop"}, EnumWord{Optimizer::kAdam, "adam"}}};
}

/// The dialect of ops that a network is recorded in.
enum class Granularity : std::uint8_t {
  kAten,        ///< Ops of torch's tracer.
  kTensorFlow,  ///< Ops of a TensorFlow 1 training graph.
};
constexpr auto enum_words(Granularity) {
  return EnumWords{"granularity", std::array{EnumWord{Granularity::kAten, "aten"},
                                             EnumWord{Granularity::kTensorFlow, "tensorflow"}}};
}

/// Name, source and metadata of a graph.
struct Identity {
  std::string name;
  std::string source;
  std::string meta_json = "{}";  ///< Compact JSON with sorted keys.
};

/// Options for recording a network.
struct Recording {
  Granularity granularity = Granularity::kAten;
  bool training = true;  ///< False: only the forward pass, as for inference: no loss, no labels, no dropout.
};

struct ConvOptions {
  std::int64_t stride = 1, padding = 0, groups = 1;
  std::int64_t padding_width = -1;  ///< -1: equal to the height's.
  std::int64_t width_padding() const { return padding_width < 0 ? padding : padding_width; }
};
struct PoolOptions {
  std::int64_t kernel = 3, stride = 1, padding = 1;
};
/// The shape of a convolution's result [B, C', H', W'].
///   in     [B, C, H, W]
///   weight [C', C / groups, h, w]
Shape convolved(const Shape& in, const Shape& weight, const ConvOptions& options);
Shape pooled(const Shape& in, const PoolOptions& options);

/// Records ops and differentiates them in reverse mode, latest op first. Shapes are preconditions
/// (EMPLACE_CHECK): networks check their options before they record. Flops follow
/// docs/reference/file_formats.md: a multiply-add counts as two. Parameters are float32. Thread: one.
class TrainingTape {
 public:
  virtual ~TrainingTape() = default;
  TrainingTape(const TrainingTape&) = delete;
  TrainingTape& operator=(const TrainingTape&) = delete;

  virtual Granularity granularity() const = 0;
  bool training() const { return training_; }

  /// A level of the scope, for the lifetime of this object: "decoder", then "t07", then "attention".
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
  DType dtype(Tensor tensor) const;

  // State. A parameter "cells.9.fc.weight" belongs to the module "cells.9.fc".
  virtual Tensor parameter(const std::string& name, Shape shape);
  virtual Tensor buffer(const std::string& name, Shape shape);
  Tensor input(const std::string& name, DType dtype, Shape shape);
  /// Zeros created during the step, on the device of `like`.
  virtual Tensor new_zeros(Tensor like, Shape shape) = 0;

  // Element-wise ops; `add` broadcasts dimension 1 of its second operand if it is 1.
  virtual Tensor add(Tensor a, Tensor b) = 0;
  virtual Tensor sub(Tensor a, Tensor b) = 0;
  virtual Tensor mul(Tensor a, Tensor b) = 0;
  virtual Tensor add_constant(Tensor a) = 0;
  virtual Tensor scale(Tensor a) = 0;   ///< Multiplies by a constant.
  virtual Tensor divide(Tensor a) = 0;  ///< Divides by a constant.
  virtual Tensor sigmoid(Tensor x) = 0;
  virtual Tensor tanh(Tensor x) = 0;
  virtual Tensor relu(Tensor x) = 0;
  /// Returns x unchanged if not training.
  virtual Tensor dropout(Tensor x) = 0;

  // Products. Weights are stored [out, in].
  virtual Tensor linear(Tensor x, Tensor weight, Tensor bias) = 0;  ///< [B, in] → [B, out].
  virtual Tensor linear(Tensor x, Tensor weight) = 0;               ///< [B, in] or [B, n, in], without bias.
  virtual Tensor bmm(Tensor a, Tensor b) = 0;                       ///< [B, m, k] [B, k, n] → [B, m, n].

  // Shapes.
  virtual Tensor cat(const std::vector<Tensor>& parts) = 0;    ///< Concatenates along dimension 1.
  virtual Tensor stack(const std::vector<Tensor>& parts) = 0;  ///< [B, …] each → [B, parts, …].
  virtual std::vector<Tensor> unbind(Tensor x) = 0;  ///< Unbinds dimension 1; every part must be read.
  /// Splits dimension 1 into equal parts.
  virtual std::vector<Tensor> split(Tensor x, std::int64_t parts) = 0;
  virtual Tensor unsqueeze(Tensor x, std::int64_t dim) = 0;
  virtual Tensor squeeze(Tensor x, std::int64_t dim) = 0;
  virtual Tensor flatten(Tensor x) = 0;  ///< [B, …] → [B, product of the others].

  // Sequences of different lengths in one batch, if the dialect supports them (TensorFlow); otherwise select
  // returns `now`.
  /// [B] Whether step `t` is beyond the end of the row's sequence; lengths [B].
  virtual std::optional<Tensor> beyond_end(Tensor lengths, std::int64_t t) = 0;
  /// Selects by row: `kept` where `mask` is true, else `now`.
  virtual Tensor select(Tensor mask, Tensor kept, Tensor now) = 0;

  // Images [B, C, H, W].
  virtual Tensor conv2d(Tensor x, Tensor weight, ConvOptions options) = 0;
  virtual Tensor conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) = 0;
  virtual Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean,
                            Tensor running_var) = 0;
  virtual Tensor avg_pool2d(Tensor x, PoolOptions options) = 0;
  virtual Tensor max_pool2d(Tensor x, PoolOptions options) = 0;
  /// Shifts by one pixel up and left, with zeros behind: pad and slices.
  virtual Tensor shifted(Tensor x) = 0;
  virtual Tensor global_mean(Tensor x) = 0;  ///< → [B, C].
  virtual Tensor pool_all(Tensor x) = 0;     ///< Global mean as [B, C, 1, 1].

  // Lookup and loss.
  virtual Tensor embedding(Tensor table, Tensor indices) = 0;
  virtual Tensor softmax(Tensor x) = 0;  ///< Softmax along dimension 1.
  /// Scores [B, classes], labels [B] → scalar.
  virtual Tensor cross_entropy(Tensor logits, Tensor labels) = 0;

  /// Differentiates `loss`, adds the update of every parameter that it depends on, and drops unneeded ops.
  /// Numbers ops like a traced step: parameters, buffers, optimizer state, inputs, then issue order. @pre
  /// training; called once, nothing is recorded afterwards. Errors: those of OpGraphBuilder::build.
  Result<OpGraph> finish(Tensor loss, Identity identity);
  /// The forward pass that `outputs` depend on. @pre not training; otherwise as finish.
  Result<OpGraph> finish_forward(const std::vector<Tensor>& outputs, Identity identity);

 protected:
  enum class Rank : std::uint8_t { kParameter, kBuffer, kOptimizerState, kInput, kConstant, kCompute };
  using Gradients = std::vector<std::optional<Tensor>>;  // One per output; empty without a gradient.
  using Backward = std::function<void(const Gradients&)>;
  using Attributes = std::map<std::string_view, std::string>;  // Values are JSON.

  struct Recorded {
    OpSpec spec;
    Rank rank = Rank::kCompute;
    bool differentiable = false;
    std::vector<std::vector<Tensor>> gradients = {};  // [outputs] Gradients not summed yet.
  };
  struct Work {
    Attributes attrs = {};
    std::optional<std::int64_t> flops = {};  ///< Empty: by the rule of its type (graph/op_kind.h).
    bool view = false;
    std::int64_t conv_groups = 1;
  };
  /// State that an optimizer may change. The network computes with `read`.
  struct Variable {
    Tensor state, read;
  };

  TrainingTape(Optimizer optimizer, bool training) : optimizer_{optimizer}, training_{training} {}

  // Hooks of a dialect.
  virtual std::string op_name(std::string_view type) = 0;  ///< An unused op name.
  virtual Tensor seed(Tensor loss) = 0;  ///< The gradient of the loss with respect to itself.
  virtual Tensor sum(Tensor target, const std::vector<Tensor>& gradients) = 0;
  virtual bool sums_as_they_come() const = 0;
  virtual void update(const Variable& variable) = 0;
  virtual void updates_done() {}
  /// Called before the gradient of the op of `out` is recorded.
  virtual void differentiating(Tensor /*out*/) {}

  Tensor record(Recorded op);
  Tensor state(Rank rank, std::string_view type, const std::string& name, DType dtype, Shape shape);
  /// State of the optimizer for a variable.
  Tensor slot(const Variable& variable, const std::string& name);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs, Work work);
  /// One output, of the first input's type if that is floating-point, else float32.
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output, Work work);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output);
  Tensor view(std::string_view type, Tensor x, Shape output, Attributes attrs = {});
  /// Registers how gradients flow through the op of `out`, if any of `inputs` has a gradient.
  void flow(Tensor out, const std::vector<Tensor>& inputs, Backward backward);
  bool flows(Tensor tensor) const { return ops_[tensor.op].differentiable; }
  void accumulate(Tensor target, Tensor gradient);
  /// The sum of the gradients so far; nothing if there are none.
  std::optional<Tensor> gradient(Tensor target);
  /// The gradients of all outputs. @pre each has one.
  static std::vector<Tensor> all_of(const Gradients& gradients);
  std::vector<Tensor> outputs_of(Tensor out) const;
  /// The parts of x along dimension 1. @pre they are equal.
  std::vector<TensorSpec> equal_parts(Tensor x, std::int64_t parts) const;
  /// Unbinds dimension 1 by the op `type`; `back` stacks the gradients.
  std::vector<Tensor> unbound(Tensor x, std::string_view type, std::string_view back, const Work& work);

  const Optimizer optimizer_;
  const bool training_;
  std::vector<Recorded> ops_;
  std::vector<Variable> parameters_;
  std::string scope_;
  Phase phase_ = Phase::kForward;

 private:
  struct Node {
    std::uint32_t op;
    std::string scope;
    Backward backward;
  };
  std::int64_t counted(const OpSpec& op, const Attributes& attrs) const;
  void run_backward(Tensor loss);
  Result<OpGraph> built(const std::vector<Tensor>& results, Identity identity);

  std::vector<Node> nodes_;
};

/// Creates an empty tape of the dialect.
std::unique_ptr<TrainingTape> make_tape(Recording recording, Optimizer optimizer);

}  // namespace emplace::models

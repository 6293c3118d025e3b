#pragma once
/// Records one step of a network as a graph: forward ops as the network calls them, then, for training, the
/// backward pass and the optimizer's update. A network is written once, against TrainingTape; in which ops it
/// appears is its dialect's: graph/models/aten_tape.h or graph/models/tensorflow_tape.h.

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
#include "graph/op_graph.h"

namespace emplace::models {

using Shape = std::vector<std::int64_t>;
std::int64_t elements(const Shape& shape);
TensorSpec f32(Shape shape);
TensorSpec i32(Shape shape);
/// "[a,b]", as attributes hold the two sizes of a window.
std::string pair_of(std::int64_t a, std::int64_t b);
inline std::string pair_of(std::int64_t both) { return pair_of(both, both); }
/// True for floating types.
bool carries_gradient(DType dtype);

/// Output `output` of the op recorded as number `op`. Meaningful on its own tape only.
using Tensor = EdgeSpec;

/// Tensors of state beside each parameter: 0, 1, 2 and 2.
enum class Optimizer : std::uint8_t { kSgd, kMomentum, kRmsProp, kAdam };
std::string_view optimizer_name(Optimizer optimizer);
/// Errors (kInvalid): none of them.
Result<Optimizer> parse_optimizer(std::string_view name);

/// Into which ops a network is split.
enum class Granularity : std::uint8_t {
  kAten,        ///< As torch's tracer records a step.
  kTensorFlow,  ///< As TensorFlow 1 builds a training graph.
};
std::string_view granularity_name(Granularity granularity);

/// How a network is recorded.
struct Recording {
  Granularity granularity = Granularity::kAten;
  bool training = true;  ///< False: the forward pass alone, as for inference: no loss, no labels, no dropout.
};

struct ConvOptions {
  std::int64_t stride = 1, padding = 0, groups = 1;
  std::int64_t padding_width = -1;  ///< -1: as along the height.
  std::int64_t width_padding() const { return padding_width < 0 ? padding : padding_width; }
};
struct PoolOptions {
  std::int64_t kernel = 3, stride = 1, padding = 1;
};
/// Shape of the result [B, C', H', W'].   in [B, C, H, W];  weight [C', C / groups, h, w]
Shape convolved(const Shape& in, const Shape& weight, const ConvOptions& options);
Shape pooled(const Shape& in, const PoolOptions& options);

/// Reverse-mode differentiation of what was recorded: the latest op first. Shapes are the caller's promise
/// (EMPLACE_CHECK): networks are code, their options are checked before they get here. Flops as in
/// docs/reference/file_formats.md: a multiply-add is two. Parameters of a network in code are float32.
/// Thread: one.
class TrainingTape {
 public:
  virtual ~TrainingTape() = default;
  TrainingTape(const TrainingTape&) = delete;
  TrainingTape& operator=(const TrainingTape&) = delete;

  virtual Granularity granularity() const = 0;
  bool training() const { return training_; }

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
  DType dtype(Tensor tensor) const;

  // State. A parameter "cells.9.fc.weight" belongs to the module "cells.9.fc".
  virtual Tensor parameter(const std::string& name, Shape shape);
  virtual Tensor buffer(const std::string& name, Shape shape);
  Tensor input(const std::string& name, DType dtype, Shape shape);
  /// Zeros made in the step, on the device of `like`.
  virtual Tensor new_zeros(Tensor like, Shape shape) = 0;

  // Elementwise; `add` broadcasts its second operand over dimension 1 if that is 1 there.
  virtual Tensor add(Tensor a, Tensor b) = 0;
  virtual Tensor sub(Tensor a, Tensor b) = 0;
  virtual Tensor mul(Tensor a, Tensor b) = 0;
  virtual Tensor add_constant(Tensor a) = 0;
  virtual Tensor scale(Tensor a) = 0;   ///< By a constant.
  virtual Tensor divide(Tensor a) = 0;  ///< By a constant.
  virtual Tensor sigmoid(Tensor x) = 0;
  virtual Tensor tanh(Tensor x) = 0;
  virtual Tensor relu(Tensor x) = 0;
  /// x as it is without training.
  virtual Tensor dropout(Tensor x) = 0;

  // Products. Weights are stored [out, in].
  virtual Tensor linear(Tensor x, Tensor weight, Tensor bias) = 0;  ///< [B, in] → [B, out].
  virtual Tensor linear(Tensor x, Tensor weight) = 0;               ///< [B, in] or [B, n, in], without bias.
  virtual Tensor bmm(Tensor a, Tensor b) = 0;                       ///< [B, m, k] [B, k, n] → [B, m, n].

  // Shapes.
  virtual Tensor cat(const std::vector<Tensor>& parts) = 0;    ///< Along dimension 1.
  virtual Tensor stack(const std::vector<Tensor>& parts) = 0;  ///< [B, …] each → [B, parts, …].
  virtual std::vector<Tensor> unbind(Tensor x) = 0;  ///< Along dimension 1; every part must be read.
  virtual std::vector<Tensor> split(Tensor x, std::int64_t parts) = 0;  ///< The same, into equal parts.
  virtual Tensor unsqueeze(Tensor x, std::int64_t dim) = 0;
  virtual Tensor squeeze(Tensor x, std::int64_t dim) = 0;
  virtual Tensor flatten(Tensor x) = 0;  ///< [B, …] → [B, all the others].

  // Sequences of several lengths in one batch, where the dialect knows them (TensorFlow); else `now`.
  /// True [B] where step `t` lies beyond the end of the row's sequence.   lengths [B]
  virtual std::optional<Tensor> beyond_end(Tensor lengths, std::int64_t t) = 0;
  /// Row by row: `kept` where `mask` is true, else `now`.
  virtual Tensor select(Tensor mask, Tensor kept, Tensor now) = 0;

  // Images [B, C, H, W].
  virtual Tensor conv2d(Tensor x, Tensor weight, ConvOptions options) = 0;
  virtual Tensor conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) = 0;
  virtual Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean,
                            Tensor running_var) = 0;
  virtual Tensor avg_pool2d(Tensor x, PoolOptions options) = 0;
  virtual Tensor max_pool2d(Tensor x, PoolOptions options) = 0;
  virtual Tensor shifted(Tensor x) = 0;      ///< One pixel up and left, zeros behind: pad and slices.
  virtual Tensor global_mean(Tensor x) = 0;  ///< → [B, C].
  virtual Tensor pool_all(Tensor x) = 0;     ///< The same, → [B, C, 1, 1].

  // Lookup and loss.
  virtual Tensor embedding(Tensor table, Tensor indices) = 0;
  virtual Tensor softmax(Tensor x) = 0;                            ///< Along dimension 1.
  virtual Tensor cross_entropy(Tensor logits, Tensor labels) = 0;  ///< [B, classes], [B] → a scalar.

  /// Differentiates `loss`, adds the update of every parameter that it depends on, drops what nothing needs,
  /// and numbers ops as a traced step has them: parameters, buffers, optimizer state, inputs, then issue
  /// order.
  /// @pre training; once, and nothing is recorded after it. Errors: those of OpGraphBuilder::build.
  Result<OpGraph> finish(Tensor loss, std::string name, std::string source, std::string meta_json);
  /// The forward pass that `outputs` need. @pre not training; otherwise as finish.
  Result<OpGraph> finish_forward(const std::vector<Tensor>& outputs, std::string name, std::string source,
                                 std::string meta_json);

 protected:
  enum class Rank : std::uint8_t { kParameter, kBuffer, kOptimizerState, kInput, kConstant, kCompute };
  using Gradients = std::vector<std::optional<Tensor>>;  // One per output; empty where nothing flows.
  using Backward = std::function<void(const Gradients&)>;
  using Attributes = std::map<std::string_view, std::string>;  // Values are JSON.

  struct Recorded {
    OpSpec spec;
    Rank rank = Rank::kCompute;
    bool differentiable = false;
    std::vector<std::vector<Tensor>> gradients = {};  // Per output, those not yet summed.
  };
  struct Work {
    Attributes attrs = {};
    std::optional<std::int64_t> flops = {};  ///< Empty: by the rule of its type (graph/op_kind.h).
    bool view = false;
    std::int64_t conv_groups = 1;
  };
  /// State that an optimizer may change. `read` is what the network computes with.
  struct Variable {
    Tensor state, read;
  };

  TrainingTape(Optimizer optimizer, bool training) : optimizer_{optimizer}, training_{training} {}

  // What a dialect adds.
  virtual std::string op_name(std::string_view type) = 0;  ///< A name that no op has yet.
  virtual Tensor seed(Tensor loss) = 0;                    ///< The gradient of the loss by itself.
  virtual Tensor sum(Tensor target, const std::vector<Tensor>& gradients) = 0;
  virtual bool sums_as_they_come() const = 0;
  virtual void update(const Variable& variable) = 0;
  virtual void updates_done() {}
  /// The gradient of the op of `out` is about to be recorded.
  virtual void differentiating(Tensor /*out*/) {}

  Tensor record(Recorded op);
  Tensor state(Rank rank, std::string_view type, const std::string& name, DType dtype, Shape shape);
  /// State of the optimizer, beside the variable.
  Tensor slot(const Variable& variable, const std::string& name);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs, Work work);
  /// One output, of the first input's type if that is a floating one, else float32.
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output, Work work);
  Tensor emit(std::string_view type, std::vector<Tensor> inputs, Shape output);
  Tensor view(std::string_view type, Tensor x, Shape output, Attributes attrs = {});
  /// Notes how gradients flow through the op of `out`, if any flow through its `inputs`.
  void flow(Tensor out, const std::vector<Tensor>& inputs, Backward backward);
  bool flows(Tensor tensor) const { return ops_[tensor.op].differentiable; }
  void accumulate(Tensor target, Tensor gradient);
  /// The sum of what has come; none if nothing has.
  std::optional<Tensor> gradient(Tensor target);

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
  Result<OpGraph> built(const std::vector<Tensor>& results, std::string name, std::string source,
                        std::string meta_json);

  std::vector<Node> nodes_;
};

/// An empty tape of the dialect.
std::unique_ptr<TrainingTape> make_tape(Recording recording, Optimizer optimizer);

}  // namespace emplace::models

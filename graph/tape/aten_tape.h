#pragma once
/// Records a step like torch's tracer (`make_fx`): one op per ATen call, gradients of several uses summed by
/// a chain of `aten::add`, the optimizer in the functional form of torch's single-tensor path (SGD 1 op per
/// parameter, momentum 3, RMSProp with momentum 7, Adam 8).

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/tape/training_tape.h"

namespace emplace::models {

class AtenTape : public TrainingTape {
 public:
  explicit AtenTape(Optimizer optimizer, bool training = true) : TrainingTape{optimizer, training} {}
  Granularity granularity() const override { return Granularity::kAten; }

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
  Tensor linear(Tensor x, Tensor weight, Tensor bias) override;  // Records aten::t and aten::addmm.
  Tensor linear(Tensor x, Tensor weight) override;
  Tensor bmm(Tensor a, Tensor b) override;
  Tensor cat(const std::vector<Tensor>& parts) override;
  Tensor stack(const std::vector<Tensor>& parts) override;
  std::vector<Tensor> unbind(Tensor x) override;
  std::vector<Tensor> split(Tensor x, std::int64_t parts) override;
  Tensor unsqueeze(Tensor x, std::int64_t dim) override;
  Tensor squeeze(Tensor x, std::int64_t dim) override;
  Tensor flatten(Tensor x) override;
  std::optional<Tensor> beyond_end(Tensor, std::int64_t) override { return std::nullopt; }
  Tensor select(Tensor, Tensor, Tensor now) override { return now; }
  Tensor conv2d(Tensor x, Tensor weight, ConvOptions options) override;
  Tensor conv2d(Tensor x, Tensor weight, Tensor bias, ConvOptions options) override;
  Tensor batch_norm(Tensor x, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var) override;
  Tensor avg_pool2d(Tensor x, PoolOptions options) override;
  Tensor max_pool2d(Tensor x, PoolOptions options) override;
  Tensor shifted(Tensor x) override;
  Tensor global_mean(Tensor x) override;
  Tensor pool_all(Tensor x) override;
  Tensor embedding(Tensor table, Tensor indices) override;
  Tensor softmax(Tensor x) override { return softmax(x, 1, /*log=*/false); }
  Tensor cross_entropy(Tensor logits, Tensor labels) override;

  // In any dimension, of any floating-point type; what is recorded follows from the shapes.
  Tensor cat(const std::vector<Tensor>& parts, std::size_t dim);
  Tensor softmax(Tensor x, std::size_t dim, bool log);
  /// Returns -mean log_p[label], a scalar.
  ///   log_p  [B, C, …]
  ///   labels [B, …]
  Tensor likelihood(Tensor log_p, Tensor labels);
  /// `pad` and `undo`: the paddings of constant_pad_nd, and their negatives, as lists.
  Tensor padded(Tensor x, const Shape& made, const std::string& pad, const std::string& undo);
  /// `read`: tensor, weight and possibly bias; `each`: flops of one product, without the bias.
  Tensor convolution(const std::vector<Tensor>& read, const TensorSpec& made, const Attributes& attrs,
                     std::int64_t each, std::int64_t groups);

 protected:
  Tensor transposed(Tensor matrix);  // Records aten::t, and its gradient.
  std::string op_name(std::string_view type) override;
  Tensor seed(Tensor loss) override;
  Tensor sum(Tensor target, const std::vector<Tensor>& gradients) override;
  bool sums_as_they_come() const override { return true; }
  void update(const Variable& variable) override;

 private:
  Tensor mm(Tensor x, Tensor weight_t);
  Tensor addmm(Tensor bias, Tensor x, Tensor weight_t);
  Tensor reshaped(std::string_view type, Tensor x, Shape shape);
  Tensor pointwise(std::string_view type, Tensor x, std::string_view backward_type);
  Tensor by_constant(std::string_view type, Tensor x);
  Tensor sliced(Tensor x, std::int64_t dim, std::int64_t start);
  Tensor convolution(const std::vector<Tensor>& read, const ConvOptions& options);

  std::unordered_map<std::string, std::uint64_t> count_of_type_;
};

}  // namespace emplace::models

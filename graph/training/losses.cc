#include "graph/training/losses.h"

#include <fmt/core.h>

#include <map>

#include "base/text/words.h"
#include "graph/training/rules.h"

namespace emplace::training {
namespace {

/// Returns mean (x − target)².
Tensor mean_square(Recorder& r, Tensor x, Tensor target) {
  const Shape in = r.shape(x);
  const Tensor out =
      r.op("aten::mse_loss", {x, target}, Shape{}, times(3, elements(in)), {{"reduction", "1"}});
  r.flow(out, {x}, [&r, x, target, in](const Gradients& dy) {
    r.add_gradient(x, r.op("aten::mse_loss_backward", {*dy[0], x, target},
                           std::vector{TensorSpec{.dtype = r.dtype(x), .shape = in}}, times(2, elements(in)),
                           {{"reduction", "1"}}));
  });
  return out;
}

/// The kind of loss of an output, named in a note.
enum class Kind : std::uint8_t { kItself, kCrossEntropy, kLikelihood, kMeanSquare };
std::string_view words_of(Kind kind) {
  switch (kind) {
    case Kind::kItself:
      return "is the loss";
    case Kind::kCrossEntropy:
      return "gets a cross entropy with labels as an input";
    case Kind::kLikelihood:
      return "gets the negative log likelihood of labels, an input";
    case Kind::kMeanSquare:
      return "gets the mean square of its difference from an input";
  }
  return "";
}

Kind kind_of(const Recorder& r, const Output& output) {
  const Shape& shape = r.shape(output.tensor);
  if (elements(shape) == 1 && shape.size() < 2) return Kind::kItself;
  if (shape.size() < 2) return Kind::kMeanSquare;
  const std::int64_t classes = shape.size() == 3 ? shape[2] : shape[1];
  if (classes < 2) return Kind::kMeanSquare;
  return output.type == "Softmax" || output.type == "LogSoftmax" ? Kind::kLikelihood : Kind::kCrossEntropy;
}

/// Moves classes to dimension 1: [B, T, C] becomes [B·T, C].
Tensor as_scores(Recorder& r, Tensor x) {
  const Shape shape = r.shape(x);
  return shape.size() == 3 ? r.reshaped(x, {times(shape[0], shape[1]), shape[2]}) : x;
}

Tensor loss_of(Recorder& r, const Output& output, Kind kind) {
  if (kind == Kind::kItself) return r.reshaped(output.tensor, {});
  if (kind == Kind::kMeanSquare) {
    const TensorSpec like{.dtype = r.dtype(output.tensor), .shape = r.shape(output.tensor)};
    return mean_square(r, output.tensor, r.label("target", like));
  }
  const Tensor scores = as_scores(r, output.tensor);
  Shape rows = r.shape(scores);
  rows.erase(rows.begin() + 1);
  const Tensor labels = r.label("labels", {.dtype = DType::kI64, .shape = rows});
  if (kind == Kind::kCrossEntropy) return r.cross_entropy(scores, labels);
  Tensor log_p = scores;
  if (output.type == "Softmax") {
    log_p = r.op("aten::log", {scores}, r.shape(scores));
    r.flow(log_p, {scores}, [&r, scores](const Gradients& dy) {
      r.add_gradient(scores, r.op("aten::div", {*dy[0], scores}, r.shape(scores)));
    });
  }
  return r.likelihood(log_p, labels);
}

}  // namespace

Tensor total_loss(Recorder& r, const std::vector<Output>& outputs, std::vector<std::string>& notes) {
  r.begin("loss", "loss");
  std::optional<Tensor> total;
  std::map<Kind, std::vector<std::string>> got;
  for (const Output& output : outputs) {
    const Kind kind = kind_of(r, output);
    got[kind].push_back("'" + printable(output.name, 60) + "'");
    const Tensor loss = loss_of(r, output, kind);
    total = total ? added(r, *total, loss, {}) : loss;
  }
  for (const auto& [kind, names] : got) {
    std::string subject = "the output " + names.front();
    if (names.size() > 1) subject = fmt::format("each of {} outputs ({}, …)", names.size(), names.front());
    notes.push_back("training: " + subject + " " + std::string{words_of(kind)});
  }
  return *total;
}

}  // namespace emplace::training

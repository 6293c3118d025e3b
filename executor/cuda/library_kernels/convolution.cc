// Convolutions by cuDNN graphs; bias and bias gradient by custom kernels.
#include <algorithm>
#include <optional>

#include "executor/cuda/kernels/passes.h"
#include "executor/cuda/library_kernels/cudnn_graph.h"
#include "executor/cuda/library_kernels/naive_convolution.h"

namespace emplace::cuda {
namespace {

/// Position of a part's tensor among the pointers of a call.
struct Place {
  bool output = false;
  std::size_t index = 0;
  std::byte* in(const Pointers& pointers) const {
    return output ? pointers.outputs[index] : const_cast<std::byte*>(pointers.inputs[index]);
  }
};

struct Part {
  ConvolutionShape shape;
  Place x, w, y;
};

Error without_cudnn(const Session& session) {
  return {Errc::kUnsupported,
          "no cuDNN: " + session.api().missing_dnn + "; add the folder to LD_LIBRARY_PATH"};
}

class Convolution final : public Kernel {
 public:
  /// Runs `parts` by cuDNN; then `after`, if any, reads `after_inputs` and writes `after_output`.
  Convolution(std::vector<Part> parts, std::unique_ptr<Kernel> after, std::vector<Place> after_inputs,
              std::size_t after_output)
      : parts_{std::move(parts)},
        after_{std::move(after)},
        after_inputs_{std::move(after_inputs)},
        after_output_{after_output} {}

  template <class Run>
  auto with_after(const Pointers& pointers, Run run) const {
    std::vector<const std::byte*> inputs;
    for (const Place& place : after_inputs_) inputs.push_back(place.in(pointers));
    std::byte* const out = pointers.outputs[after_output_];
    return run(Pointers{inputs, {&out, 1}, pointers.scratch});
  }

 public:
  Result<Unit> prepare(const Lane& lane) override {
    if (lane.dnn == nullptr) return without_cudnn(*lane.session);
    while (graphs_.size() < parts_.size()) {
      EMPLACE_TRY_ASSIGN(auto graph, ConvolutionGraph::describe(*lane.session, parts_[graphs_.size()].shape));
      EMPLACE_TRY(graph.plan(lane));
      graphs_.push_back(std::move(graph));
    }
    return Unit{};
  }
  std::size_t scratch_bytes() const override {
    std::size_t most = after_ ? after_->scratch_bytes() : 0;
    for (const ConvolutionGraph& graph : graphs_) most = std::max(most, graph.workspace_bytes());
    return most;
  }
  Result<Unit> enqueue(const Lane& lane, const Pointers& pointers) const override {
    for (std::size_t i = 0; i < parts_.size(); ++i)
      EMPLACE_TRY(graphs_[i].run(lane.dnn, parts_[i].x.in(pointers), parts_[i].w.in(pointers),
                                 parts_[i].y.in(pointers), pointers.scratch));
    return after_ ? with_after(pointers, [&](const Pointers& own) { return after_->enqueue(lane, own); })
                  : Unit{};
  }
  void run(const Pointers& pointers) const override {
    const auto tensor = [&](const Place& place) { return reinterpret_cast<float*>(place.in(pointers)); };
    for (const Part& part : parts_)
      naive_convolution(part.shape, tensor(part.x), tensor(part.w), tensor(part.y));
    if (after_)
      with_after(pointers, [&](const Pointers& own) {
        after_->run(own);
        return 0;
      });
  }

 private:
  std::vector<Part> parts_;
  std::unique_ptr<Kernel> after_;
  std::vector<Place> after_inputs_;
  std::size_t after_output_;
  std::vector<ConvolutionGraph> graphs_;
};

struct Geometry {
  std::array<std::int64_t, 2> pad{}, pad_after{}, stride{1, 1}, dilation{1, 1};
  std::int64_t groups = 1;
  bool transposed = false;
};

Result<Geometry> geometry_of(const Signature& signature, bool onnx) {
  Attributes attributes{signature};
  const auto strides = attributes.integers(onnx ? "strides" : "stride"),
             pads = attributes.integers(onnx ? "pads" : "padding");
  const auto dilations = attributes.integers(onnx ? "dilations" : "dilation");
  Geometry g{.groups = attributes.integer(attributes.has("group") ? "group" : "groups", 1),
             .transposed = attributes.flag("transposed", false)};
  const std::string automatic = attributes.word("auto_pad", "NOTSET");
  if (attributes.fault()) return *attributes.fault();
  if (automatic != "NOTSET" && automatic != "VALID") return unsupported(signature, "auto_pad " + automatic);
  for (const auto* list : {&strides, &dilations})
    if (list->size() > 2) return unsupported(signature, "expected two spatial dimensions");
  if (pads.size() > (onnx ? 4u : 2u)) return unsupported(signature, "expected two spatial dimensions");
  const auto at = [](const std::vector<std::int64_t>& list, std::size_t d, std::int64_t fallback) {
    return list.empty() ? fallback : list.size() == 1 ? list[0] : list[d];
  };
  for (std::size_t d = 0; d < 2; ++d) {
    g.stride[d] = at(strides, d, 1), g.dilation[d] = at(dilations, d, 1);
    g.pad[d] = at(pads, d, 0);
    g.pad_after[d] = onnx && pads.size() == 4 ? pads[2 + d] : g.pad[d];
    if (g.stride[d] < 1 || g.dilation[d] < 1 || g.pad[d] < 0 || g.pad_after[d] < 0)
      return unsupported(signature, "expected positive strides and non-negative pads");
  }
  return g;
}

/// Shapes of x, w and y as in the forward convolution. Errors: kUnsupported if they do not match.
Result<ConvolutionShape> shape_of(const Signature& signature, ConvolutionKind kind, const Operand& x,
                                  const Operand& w, const Operand& y, const Geometry& g) {
  if (x.shape.size() != 4 || w.shape.size() != 4 || y.shape.size() != 4)
    return unsupported(signature, "expected two spatial dimensions");
  ConvolutionShape shape{.kind = kind,
                         .pad = g.pad,
                         .pad_after = g.pad_after,
                         .stride = g.stride,
                         .dilation = g.dilation,
                         .groups = g.groups};
  const auto fill = [&](const Operand& operand, std::array<std::int64_t, 4>& sizes,
                        std::array<std::int64_t, 4>& strides) {
    std::copy_n(operand.shape.begin(), 4, sizes.begin());
    std::copy_n(operand.strides.begin(), 4, strides.begin());
    return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride > 0; });
  };
  if (!fill(x, shape.x, shape.x_strides) || !fill(w, shape.w, shape.w_strides) ||
      !fill(y, shape.y, shape.y_strides))
    return unsupported(signature, "broadcast inputs are not supported");
  bool fits = g.groups >= 1 && shape.x[0] == shape.y[0] && shape.w[0] == shape.y[1] &&
              shape.w[1] * g.groups == shape.x[1] && shape.y[1] % g.groups == 0;
  for (std::size_t d = 0; d < 2; ++d) {
    const std::int64_t reach = (shape.w[2 + d] - 1) * g.dilation[d] + 1,
                       room = shape.x[2 + d] + g.pad[d] + g.pad_after[d] - reach;
    fits &= room >= 0 && room / g.stride[d] + 1 == shape.y[2 + d];
  }
  if (!fits) return unsupported(signature, "shapes do not match a convolution");
  return shape;
}

Operand channels(std::int64_t count) { return {DType::kF32, {1, count, 1, 1}, {count, 1, 1, 1}}; }

template <bool kOnnx, bool kTransposed = false>
Made forward(const Signature& signature) {
  const bool biased = signature.inputs.size() == 3;
  EMPLACE_TRY(expect(signature, biased ? 3 : 2, 1));
  EMPLACE_TRY_ASSIGN(auto g, geometry_of(signature, kOnnx));
  if (kTransposed) g.transposed = true;
  const Operand &in = signature.inputs[0], &w = signature.inputs[1], &out = signature.outputs[0];
  // A transposed convolution is the input gradient of a convolution in the other direction.
  EMPLACE_TRY_ASSIGN(auto shape, g.transposed
                                     ? shape_of(signature, ConvolutionKind::kInputGradient, out, w, in, g)
                                     : shape_of(signature, ConvolutionKind::kForward, in, w, out, g));
  const Place from{false, 0}, to{true, 0};
  std::unique_ptr<Kernel> add;
  if (biased) {
    EMPLACE_TRY_ASSIGN(add, make_kernel({"aten::add", "{}", {out, channels(out.shape[1])}, {out}}));
  }
  return std::unique_ptr<Kernel>{std::make_unique<Convolution>(
      std::vector<Part>{{shape, g.transposed ? to : from, {false, 1}, g.transposed ? from : to}},
      std::move(add), std::vector<Place>{to, {false, 2}}, 0)};
}

/// Inputs: gradient, x, weight. Outputs: the gradients selected by the mask.
Made backward(const Signature& signature) {
  EMPLACE_TRY(expect(signature, 3, -1));
  EMPLACE_TRY_ASSIGN(auto g, geometry_of(signature, false));
  Attributes attributes{signature};
  const std::vector<bool> mask = attributes.flags("output_mask", {true, true, true});
  if (attributes.fault()) return *attributes.fault();
  if (mask.size() != 3 ||
      static_cast<std::size_t>(std::count(mask.begin(), mask.end(), true)) != signature.outputs.size())
    return unsupported(signature, "outputs do not match output_mask");
  const Operand &dy = signature.inputs[0], &x = signature.inputs[1], &w = signature.inputs[2];
  std::vector<Part> parts;
  std::size_t next = 0;
  const Place from_dy{false, 0}, from_x{false, 1}, from_w{false, 2};
  if (mask[0]) {
    const Operand& dx = signature.outputs[next];
    const Place to{true, next++};
    EMPLACE_TRY_ASSIGN(auto shape, g.transposed
                                       ? shape_of(signature, ConvolutionKind::kForward, dy, w, dx, g)
                                       : shape_of(signature, ConvolutionKind::kInputGradient, dx, w, dy, g));
    parts.push_back({shape, g.transposed ? from_dy : to, from_w, g.transposed ? to : from_dy});
  }
  if (mask[1]) {
    const Operand& dw = signature.outputs[next];
    const Place to{true, next++};
    EMPLACE_TRY_ASSIGN(auto shape, g.transposed
                                       ? shape_of(signature, ConvolutionKind::kFilterGradient, dy, dw, x, g)
                                       : shape_of(signature, ConvolutionKind::kFilterGradient, x, dw, dy, g));
    parts.push_back({shape, g.transposed ? from_dy : from_x, to, g.transposed ? from_x : from_dy});
  }
  std::unique_ptr<Kernel> sum;
  if (mask[2]) {
    EMPLACE_TRY_ASSIGN(sum,
                       make_kernel({"aten::sum", R"({"dim":[0,2,3]})", {dy}, {signature.outputs[next]}}));
  }
  return std::unique_ptr<Kernel>{
      std::make_unique<Convolution>(std::move(parts), std::move(sum), std::vector<Place>{from_dy}, next)};
}

}  // namespace

std::span<const KernelEntry> convolution_kernels() {
  static constexpr KernelEntry entries[] = {{"aten::convolution", forward<false>},
                                            {"aten::convolution_backward", backward},
                                            {"Conv", forward<true>},
                                            {"ConvTranspose", forward<true, true>}};
  return entries;
}

}  // namespace emplace::cuda

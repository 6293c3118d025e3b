#include "lab/worlds/node_net.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "graph/formats/onnx/onnx_flops.h"
#include "graph/formats/reading/shape_arithmetic.h"
#include "graph/training/training_graph.h"

namespace emplace::models {
namespace {

using nlohmann::json;

bool is_float(const TensorSpec& tensor) { return carries_gradient(tensor.dtype); }

}  // namespace

NodeNet::Scope::Scope(NodeNet& net, std::string_view level) : net_{net}, length_{net.scope_.size()} {
  if (!net_.scope_.empty()) net_.scope_ += '/';
  net_.scope_ += level;
}

std::string NodeNet::module(std::string_view name) const {
  std::string path = scope_;
  std::replace(path.begin(), path.end(), '/', '.');
  return path.empty() ? std::string{name} : path + "." + std::string{name};
}

// ---- State ----

Tensor NodeNet::state(std::string_view type, std::string name, DType dtype, Shape shape) {
  OpSpec op;
  op.name = std::move(name);
  op.type = type;
  op.group = type == "Parameter" ? scope_ : "";
  if (type == "Parameter") op.param_bytes = elements(shape) * element_bytes(dtype);
  op.outputs.push_back({.dtype = dtype, .shape = std::move(shape)});
  ops_.push_back(std::move(op));
  return {static_cast<std::uint32_t>(ops_.size() - 1), 0};
}

Tensor NodeNet::input(const std::string& name, DType dtype, Shape shape) {
  return state("Input", name, dtype, std::move(shape));
}

Tensor NodeNet::weight(std::string_view name, Shape shape) {
  return state("Parameter", module(name), DType::kF32, std::move(shape));
}

Tensor NodeNet::zeros(Shape shape) { return node("ConstantOfShape", {}, std::move(shape)); }

// ---- Nodes ----

Tensor NodeNet::node(std::string_view type, std::vector<Tensor> inputs, std::vector<TensorSpec> outputs,
                     const json& attrs, bool view) {
  OpSpec op;
  std::vector<const OnnxShape*> shapes;
  shapes.reserve(inputs.size());
  for (const Tensor input : inputs) shapes.push_back(&shape(input));
  op.name = fmt::format("/{}{}{}_{}", scope_, scope_.empty() ? "" : "/", type, ops_.size());
  op.type = type;
  op.group = scope_;
  op.flops = onnx_flops(type, shapes, outputs.front().shape, attrs, is_float(outputs.front())).value_or(0);
  op.attrs_json = attrs.dump();
  op.view = view;
  if (const auto groups = attrs.find("groups"); groups != attrs.end()) op.conv_groups = groups->get<int>();
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  ops_.push_back(std::move(op));
  return {static_cast<std::uint32_t>(ops_.size() - 1), 0};
}

Tensor NodeNet::node(std::string_view type, std::vector<Tensor> inputs, Shape output, const json& attrs,
                     bool view) {
  const DType dtype = inputs.empty() ? DType::kF32 : ops_[inputs[0].op].outputs[inputs[0].output].dtype;
  return node(type, std::move(inputs), std::vector<TensorSpec>{{.dtype = dtype, .shape = std::move(output)}},
              attrs, view);
}

Tensor NodeNet::node(std::string_view type, std::vector<Tensor> inputs, Shape output) {
  return node(type, std::move(inputs), std::move(output), json::object());
}

Tensor NodeNet::unary(std::string_view type, Tensor x) {
  Shape made = shape(x);
  return node(type, {x}, std::move(made));
}

Tensor NodeNet::binary(std::string_view type, Tensor a, Tensor b) {
  auto made = broadcast(shape(a), shape(b));
  EMPLACE_CHECK(made.has_value(), "operands must broadcast");
  return node(type, {a, b}, *std::move(made));
}

Tensor NodeNet::matmul(Tensor a, Tensor b) {
  Shape made = shape(a);
  const Shape& right = shape(b);
  EMPLACE_CHECK(made.back() == right[right.size() - 2], "inner dimensions must agree");
  made.back() = right.back();
  return node("MatMul", {a, b}, std::move(made));
}

Tensor NodeNet::linear(std::string_view name, Tensor x, std::int64_t out, bool bias) {
  const std::string prefix{name};
  const Tensor product = matmul(x, weight(prefix + ".weight", {shape(x).back(), out}));
  return bias ? binary("Add", product, weight(prefix + ".bias", {out})) : product;
}

Tensor NodeNet::layer_norm(std::string_view name, Tensor x) {
  const std::string prefix{name};
  const std::int64_t width = shape(x).back();
  Shape made = shape(x);
  const Tensor scale = weight(prefix + ".weight", {width}), bias = weight(prefix + ".bias", {width});
  return node("LayerNormalization", {x, scale, bias}, std::move(made), {{"axis", -1}});
}

Tensor NodeNet::batch_norm(std::string_view name, Tensor x) {
  const std::string prefix{name};
  const Shape channels{shape(x)[1]};
  Shape made = shape(x);
  const Tensor scale = weight(prefix + ".weight", channels), bias = weight(prefix + ".bias", channels);
  const Tensor mean = weight(prefix + ".running_mean", channels);
  const Tensor variance = weight(prefix + ".running_var", channels);
  return node("BatchNormalization", {x, scale, bias, mean, variance}, std::move(made));
}

Tensor NodeNet::group_norm(std::string_view name, Tensor x, std::int64_t groups) {
  const std::string prefix{name};
  const Shape channels{shape(x)[1]};
  Shape made = shape(x);
  const Tensor scale = weight(prefix + ".weight", channels), bias = weight(prefix + ".bias", channels);
  return node("GroupNormalization", {x, scale, bias}, std::move(made), {{"num_groups", groups}});
}

Tensor NodeNet::softmax(Tensor x) {
  Shape made = shape(x);
  return node("Softmax", {x}, std::move(made), {{"axis", -1}});
}

Tensor NodeNet::mean(Tensor x, std::int64_t dim) {
  Shape made = shape(x);
  made.erase(made.begin() + dim);
  return node("ReduceMean", {x}, std::move(made), {{"axes", {dim}}, {"keepdims", 0}});
}

Tensor NodeNet::embedding(std::string_view name, Tensor indices, std::int64_t rows, std::int64_t width) {
  return gather(weight(std::string{name} + ".weight", {rows, width}), indices);
}

Tensor NodeNet::gather(Tensor rows, Tensor indices) {
  Shape made = shape(indices);
  made.insert(made.end(), shape(rows).begin() + 1, shape(rows).end());
  return node("Gather", {rows, indices}, std::move(made), {{"axis", 0}});
}

Tensor NodeNet::scatter_add(Tensor x, Tensor indices, Tensor part) {
  Shape made = shape(x);
  return node("ScatterND", {x, indices, part}, std::move(made), {{"reduction", "add"}});
}

std::vector<Tensor> NodeNet::top(Tensor x, std::int64_t k) {
  Shape made = shape(x);
  EMPLACE_CHECK(k <= made.back(), "as many elements as there are");
  made.back() = k;
  const Tensor out =
      node("TopK", {x}, {{.dtype = DType::kF32, .shape = made}, {.dtype = DType::kI64, .shape = made}},
           {{"axis", -1}});
  return {out, Tensor{out.op, 1}};
}

// ---- Images ----

Tensor NodeNet::conv(std::string_view name, Tensor x, std::int64_t out, std::int64_t kernel,
                     std::int64_t stride, std::int64_t groups) {
  const Shape in = shape(x);
  const std::int64_t pad = kernel / 2;
  const auto reached = [&](std::int64_t size) { return (size + 2 * pad - kernel) / stride + 1; };
  const Tensor filter = weight(std::string{name} + ".weight", {out, in[1] / groups, kernel, kernel});
  json attrs{
      {"kernel_shape", {kernel, kernel}}, {"pads", {pad, pad, pad, pad}}, {"strides", {stride, stride}}};
  if (groups != 1) attrs["groups"] = groups;
  return node("Conv", {x, filter}, {in[0], out, reached(in[2]), reached(in[3])}, attrs);
}

Tensor NodeNet::max_pool(Tensor x, std::int64_t kernel, std::int64_t stride) {
  const Shape in = shape(x);
  const std::int64_t pad = kernel % 2 == 1 ? kernel / 2 : 0;
  const auto reached = [&](std::int64_t size) { return (size + 2 * pad - kernel) / stride + 1; };
  return node(
      "MaxPool", {x}, {in[0], in[1], reached(in[2]), reached(in[3])},
      {{"kernel_shape", {kernel, kernel}}, {"pads", {pad, pad, pad, pad}}, {"strides", {stride, stride}}});
}

Tensor NodeNet::average_pool(Tensor x, std::int64_t kernel, std::int64_t stride) {
  const Shape in = shape(x);
  const auto reached = [&](std::int64_t size) { return (size - kernel) / stride + 1; };
  return node("AveragePool", {x}, {in[0], in[1], reached(in[2]), reached(in[3])},
              {{"kernel_shape", {kernel, kernel}}, {"pads", {0, 0, 0, 0}}, {"strides", {stride, stride}}});
}

Tensor NodeNet::global_mean(Tensor x) {
  const Shape in = shape(x);
  const Tensor pooled = node("GlobalAveragePool", {x}, {in[0], in[1], 1, 1});
  return reshape(pooled, {in[0], in[1]});
}

Tensor NodeNet::upsampled(Tensor x, std::int64_t factor) {
  const Shape in = shape(x);
  return node("Resize", {x}, {in[0], in[1], in[2] * factor, in[3] * factor}, {{"mode", "nearest"}});
}

// ---- Shapes ----

Tensor NodeNet::reshape(Tensor x, Shape wanted) {
  EMPLACE_CHECK(elements(shape(x)) == elements(wanted), "the same elements");
  return node("Reshape", {x}, std::move(wanted), json::object(), /*view=*/true);
}

Tensor NodeNet::transpose(Tensor x, const std::vector<std::int64_t>& order) {
  Shape made;
  for (const std::int64_t d : order) made.push_back(shape(x)[static_cast<std::size_t>(d)]);
  return node("Transpose", {x}, std::move(made), {{"perm", order}});
}

Tensor NodeNet::concat(const std::vector<Tensor>& parts, std::int64_t dim) {
  Shape made = shape(parts.front());
  std::int64_t& size = made[static_cast<std::size_t>(dim)];
  size = 0;
  for (const Tensor part : parts) size += shape(part)[static_cast<std::size_t>(dim)];
  return node("Concat", parts, std::move(made), {{"axis", dim}});
}

std::vector<Tensor> NodeNet::split(Tensor x, std::int64_t parts, std::int64_t dim) {
  Shape part = shape(x);
  std::int64_t& size = part[static_cast<std::size_t>(dim)];
  EMPLACE_CHECK(size % parts == 0, "parts must be equal");
  size /= parts;
  const std::vector<TensorSpec> outputs(static_cast<std::size_t>(parts), f32(part));
  const Tensor out = node("Split", {x}, outputs, {{"axis", dim}});
  std::vector<Tensor> all;
  for (std::uint32_t k = 0; k < outputs.size(); ++k) all.push_back({out.op, k});
  return all;
}

// ---- Graph ----

Result<OpGraph> NodeNet::finish(const std::vector<Tensor>& outputs, bool training, Optimizer optimizer,
                                Identity identity) && {
  json meta = json::parse(identity.meta_json);
  meta["kind"] = "forward";
  json results = json::array();
  for (const Tensor output : outputs) results.push_back({output.op, output.output});
  if (training) meta["outputs"] = std::move(results);
  OpGraphBuilder builder;
  builder.set_name(std::move(identity.name))
      .set_source(std::move(identity.source))
      .set_meta_json(meta.dump());
  builder.reserve(ops_.size());
  for (OpSpec& op : ops_) builder.add(std::move(op));
  EMPLACE_TRY_ASSIGN(auto forward, std::move(builder).build());
  if (!training) return forward;
  return training_graph(forward, optimizer);
}

}  // namespace emplace::models

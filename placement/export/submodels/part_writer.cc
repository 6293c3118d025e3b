#include "placement/export/submodels/part_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using onnx_io::in_quotes;

std::string part_file(std::size_t part) { return fmt::format("part-{:03}.onnx", part); }

void put_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

/// The tag and length of a field with content, in wire format.
std::string field_head(std::uint64_t number, std::uint64_t length) {
  std::string head;
  put_varint(number << 3 | 2, head);
  put_varint(length, head);
  return head;
}

/// An external tensor is short: its name, its shape and where its data is.
bool is_external(std::span<const std::byte> bytes) {
  constexpr std::size_t kLongest = 65536;
  if (bytes.size() > kLongest) return false;
  onnx::TensorProto tensor;
  return tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
         tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

Result<Unit> write_model(const fs::path& path, const onnx::ModelProto& model, const onnx::GraphProto& graph,
                         std::span<const onnx_io::ModelInFile::Initializer> weights) {
  constexpr std::uint64_t kGraphField = 7, kInitializerField = 5;
  const std::string rest = graph.SerializeAsString();
  std::vector<std::string> heads;
  std::uint64_t length = rest.size();
  for (const auto& weight : weights) {
    heads.push_back(field_head(kInitializerField, weight.bytes.size()));
    length += heads.back().size() + weight.bytes.size();
  }
  NewFile file{path};
  file.write(model.SerializeAsString());
  file.write(field_head(kGraphField, length));
  file.write(rest);
  for (std::size_t k = 0; k < weights.size(); ++k) {
    file.write(heads[k]);
    file.write(weights[k].bytes);
  }
  return file.commit();
}

}  // namespace

bool is_part_file(std::string_view name) {
  if (!name.starts_with("part-")) return false;
  name.remove_prefix(5);
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits >= 3 && (name == ".onnx" || name == ".onnx.data");
}

PartWriter::PartWriter(const PlacementExport& what, const onnx_io::ModelInFile& file,
                       const std::unordered_map<std::string, onnx::TypeProto>& types)
    : what_{what}, file_{file}, types_{types} {
  const auto& graph = file.model.graph();
  for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()})
    for (const auto& info : *list) declared_[info.name()] = &info;
}

Result<json> PartWriter::write(const fs::path& folder, const Piece& piece, std::size_t number) {
  const std::string name = part_file(number);
  ExternalData data{what_.graph_folder, folder / (name + ".data")};
  onnx::ModelProto model = head_of(piece);
  onnx::GraphProto graph;
  graph.set_name(fmt::format("{}/part-{:03}", file_.model.graph().name(), number));
  std::set<std::string_view> made;
  const auto first = static_cast<std::uint32_t>(first_node_op(what_, file_.model.graph()));
  for (const int i : piece.nodes) {
    onnx::NodeProto& node = *graph.add_node() = file_.model.graph().node(i);
    node.set_name(std::string{what_.graph.name(OpId{first + static_cast<std::uint32_t>(i)})});
    for (onnx::TensorProto* tensor : onnx_io::tensors_in(node)) EMPLACE_TRY(data.take(*tensor));
    made.insert(node.output().begin(), node.output().end());
  }
  for (const std::string& input : piece.inputs) {
    EMPLACE_TRY_ASSIGN(*graph.add_input(), info_of(input));
  }
  for (const std::string& output : piece.outputs) {
    EMPLACE_TRY_ASSIGN(*graph.add_output(), info_of(output));
  }
  add_descriptions(piece, made, graph);
  EMPLACE_TRY_ASSIGN(const auto weights, add_weights(piece, graph, data));
  EMPLACE_TRY(write_model(folder / name, model, graph, weights));
  EMPLACE_TRY(data.commit());
  json part{{"file", name},
            {"device", what_.devices[index(piece.device)]},
            {"nodes", piece.nodes.size()},
            {"inputs", piece.inputs},
            {"outputs", piece.outputs}};
  if (data.used()) part["data"] = data.name();
  return part;
}

onnx::ModelProto PartWriter::head_of(const Piece& piece) const {
  const onnx::ModelProto& whole = file_.model;
  onnx::ModelProto model;
  model.set_ir_version(whole.ir_version());
  *model.mutable_opset_import() = whole.opset_import();
  model.set_producer_name(whole.producer_name());
  model.set_producer_version(whole.producer_version());
  if (whole.has_domain()) model.set_domain(whole.domain());
  if (whole.has_model_version()) model.set_model_version(whole.model_version());
  for (const auto& entry : whole.metadata_props())
    if (!entry.key().starts_with("emplace.")) *model.add_metadata_props() = entry;
  auto& device = *model.add_metadata_props();
  device.set_key("emplace.device");
  device.set_value(what_.devices[index(piece.device)]);
  return model;
}

Result<onnx::ValueInfoProto> PartWriter::info_of(const std::string& name) const {
  onnx::ValueInfoProto info;
  if (const auto it = declared_.find(name); it != declared_.end()) info = *it->second;
  info.set_name(name);
  const auto type = types_.find(name);
  if (type != types_.end()) *info.mutable_type() = type->second;
  if (!info.has_type() && file_.initializers.contains(name)) return weight_info(name);
  const bool tensor = info.type().has_tensor_type();
  if (!info.has_type() || (tensor && info.type().tensor_type().elem_type() == 0))
    return invalid(
        kSubmodels, "the value " + in_quotes(name) + " passes from part to part, but its type is unknown",
        "export the model with the types of its values, or place its producer and readers together");
  return info;
}

onnx::ValueInfoProto PartWriter::weight_info(const std::string& name) const {
  onnx::ValueInfoProto info;
  info.set_name(name);
  onnx::TensorProto tensor;
  const auto& weight = file_.initializers.at(name);
  tensor.ParseFromArray(weight.bytes.data(), static_cast<int>(weight.bytes.size()));
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(tensor.data_type());
  for (const std::int64_t dim : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(dim);
  return info;
}

void PartWriter::add_descriptions(const Piece& piece, const std::set<std::string_view>& made,
                                  onnx::GraphProto& graph) const {
  const onnx::GraphProto& whole = file_.model.graph();
  for (const std::string& weight : piece.weights)
    if (const auto it = declared_.find(weight); it != declared_.end() && file_.model.ir_version() < 4)
      *graph.add_input() = *it->second;
  const auto is_output = [&](const std::string& name) {
    return std::find(piece.outputs.begin(), piece.outputs.end(), name) != piece.outputs.end();
  };
  for (const auto& info : whole.value_info())
    if (made.contains(info.name()) && !is_output(info.name())) *graph.add_value_info() = info;
  const auto is_weight = [&](const std::string& name) {
    return std::binary_search(piece.weights.begin(), piece.weights.end(), name);
  };
  for (const auto& annotation : whole.quantization_annotation())
    if (made.contains(annotation.tensor_name()) || is_weight(annotation.tensor_name()))
      *graph.add_quantization_annotation() = annotation;
}

Result<PartWriter::Spans> PartWriter::add_weights(const Piece& piece, onnx::GraphProto& graph,
                                                  ExternalData& data) const {
  Spans inside;
  for (const std::string& name : piece.weights) {
    const auto& weight = file_.initializers.at(name);
    if (weight.sparse) {
      onnx::SparseTensorProto sparse;
      if (!sparse.ParseFromArray(weight.bytes.data(), static_cast<int>(weight.bytes.size())))
        return invalid(kSubmodels, "the initializer " + in_quotes(name) + " is damaged");
      EMPLACE_TRY(data.take(*sparse.mutable_values()));
      EMPLACE_TRY(data.take(*sparse.mutable_indices()));
      *graph.add_sparse_initializer() = std::move(sparse);
      continue;
    }
    if (!is_external(weight.bytes)) {
      inside.push_back(weight);
      continue;
    }
    onnx::TensorProto tensor;
    if (!tensor.ParseFromArray(weight.bytes.data(), static_cast<int>(weight.bytes.size())))
      return invalid(kSubmodels, "the initializer " + in_quotes(name) + " is damaged");
    EMPLACE_TRY(data.take(tensor));
    *graph.add_initializer() = std::move(tensor);
  }
  return inside;
}

}  // namespace emplace::interop

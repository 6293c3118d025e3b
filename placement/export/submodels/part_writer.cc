#include "placement/export/submodels/part_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"

namespace emplace::interop {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Error bad_tensor(const onnx::TensorProto& tensor, std::string_view what, std::string_view cure) {
  return invalid("initializer " + in_quotes(tensor.name()), what, cure);
}

/// A file with the data of tensors, copied from the files of the model in pieces of a bounded size. Thread:
/// one.
class ExternalData {
 public:
  /// `source`: folder of the model's data. `target`: the file, which is made with the first tensor.
  ExternalData(fs::path source, fs::path target) : source_{std::move(source)}, target_{std::move(target)} {}

  bool used() const { return file_.has_value(); }
  std::string name() const { return target_.filename().string(); }

  /// Copies the data of an external tensor and makes the tensor refer to the copy. Errors (kInvalid): data
  /// that is missing, too short, or outside of the model's folder.
  Result<Unit> take(onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return Unit{};
    std::string location;
    std::uint64_t offset = 0;
    std::optional<std::uint64_t> length;
    for (const auto& entry : tensor.external_data()) {
      std::uint64_t number = 0;
      const char* const end = entry.value().data() + entry.value().size();
      const auto [at, error] = std::from_chars(entry.value().data(), end, number);
      const bool whole = error == std::errc{} && at == end;
      if (entry.key() == "location") location = entry.value();
      if ((entry.key() == "offset" || entry.key() == "length") && !whole)
        return bad_tensor(tensor, "has the " + entry.key() + " " + in_quotes(entry.value()), {});
      if (entry.key() == "offset") offset = number;
      if (entry.key() == "length") length = number;
    }
    if (location.empty() || !onnx_io::stays_inside(location))
      return bad_tensor(tensor, "has its data outside of the model's folder, in " + in_quotes(location),
                        "save the model with its data beside it");
    std::error_code missing;
    const std::uint64_t size = fs::file_size(source_ / location, missing);
    if (missing)
      return bad_tensor(tensor, "has its data in " + in_quotes(location) + ", which cannot be read",
                        "put that file beside the model");
    if (!length) length = size - std::min(size, offset);
    if (offset > size || *length > size - offset)
      return bad_tensor(tensor, "needs more data than " + in_quotes(location) + " has",
                        "fetch that file again");
    return copy(tensor, location, offset, *length);
  }

  /// Puts the file in its place, if any tensor has data. Errors: kIo.
  Result<Unit> commit() { return file_ ? file_->commit() : Result<Unit>{Unit{}}; }

 private:
  Result<Unit> copy(onnx::TensorProto& tensor, const std::string& location, std::uint64_t offset,
                    std::uint64_t length) {
    // Pages of their own let a runtime map large tensors (onnx.proto, external_data).
    constexpr std::uint64_t kPage = 4096, kSmallBlock = 64, kLargeTensor = 65536;
    if (!file_) file_.emplace(target_);
    const std::uint64_t block = length >= kLargeTensor ? kPage : kSmallBlock;
    const std::string padding((block - file_->size() % block) % block, '\0');
    file_->write(padding);
    const std::uint64_t start = file_->size();
    std::ifstream source{source_ / location, std::ios::binary};
    source.seekg(static_cast<std::streamoff>(offset));
    std::vector<char> buffer(std::min<std::uint64_t>(length, std::uint64_t{1} << 20));
    for (std::uint64_t left = length; left > 0;) {
      const std::uint64_t chunk = std::min<std::uint64_t>(left, buffer.size());
      if (!source.read(buffer.data(), static_cast<std::streamsize>(chunk)))
        return bad_tensor(tensor, "has its data in " + in_quotes(location) + ", which cannot be read", {});
      file_->write(std::string_view{buffer.data(), chunk});
      left -= chunk;
    }
    EMPLACE_TRY(file_->so_far());
    tensor.clear_external_data();
    const auto set = [&](const char* key, std::string value) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(std::move(value));
    };
    set("location", name());
    set("offset", std::to_string(start));
    set("length", std::to_string(length));
    return Unit{};
  }

  const fs::path source_, target_;
  std::optional<NewFile> file_;
};

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

/// Writes the parts, one after the other. Weights inside of the file are copied from its bytes to the part
/// without being parsed. The arguments must outlive it. Thread: one.
class PartWriter {
 public:
  /// `types`: of the model's values, by name.
  PartWriter(const PlacementExport& what, const onnx_io::ModelInFile& file,
             const std::unordered_map<std::string, onnx::TypeProto>& types)
      : what_{what}, file_{file}, types_{types} {
    const auto& graph = file.model.graph();
    for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const auto& info : *list) declared_[info.name()] = &info;
  }

  /// Writes the file of a part, and its external data if it has any. Returns its entry in the manifest.
  /// Errors: kIo; kInvalid for a value that passes from part to part and whose type is unknown, and for
  /// damaged weights.
  Result<json> write(const fs::path& folder, const Piece& piece, std::size_t number) {
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

 private:
  using Spans = std::vector<onnx_io::ModelInFile::Initializer>;

  onnx::ModelProto head_of(const Piece& piece) const {
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

  Result<onnx::ValueInfoProto> info_of(const std::string& name) const {
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

  onnx::ValueInfoProto weight_info(const std::string& name) const {
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

  /// The file's types and quantization parameters of values inside of the part, and the inputs that older IR
  /// versions require for weights.
  void add_descriptions(const Piece& piece, const std::set<std::string_view>& made,
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

  /// Adds the weights whose data is external to the graph, and returns those inside of the file.
  Result<Spans> add_weights(const Piece& piece, onnx::GraphProto& graph, ExternalData& data) const {
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

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const std::unordered_map<std::string, onnx::TypeProto>& types_;
  std::unordered_map<std::string_view, const onnx::ValueInfoProto*> declared_;
};

}  // namespace

bool is_part_file(std::string_view name) {
  if (!name.starts_with("part-")) return false;
  name.remove_prefix(5);
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits >= 3 && (name == ".onnx" || name == ".onnx.data");
}

Result<json> write_parts(const PlacementExport& what, const onnx_io::ModelInFile& file,
                         const std::unordered_map<std::string, onnx::TypeProto>& types,
                         const fs::path& folder, const std::vector<Piece>& pieces) {
  PartWriter writer{what, file, types};
  json parts = json::array();
  for (const Piece& piece : pieces) {
    EMPLACE_TRY_ASSIGN(json part, writer.write(folder, piece, parts.size()));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace emplace::interop

// Export as sub-models: a folder with one ONNX model per part of the placement, and a manifest in the order
// in which they run.

#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "base/text/words.h"
#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "graph/graph_file.h"
#include "record/export/parts.h"
#include "record/export/placement_formats.h"

namespace emplace::record {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using onnx_io::in_quotes;

constexpr std::string_view kWhere = "--to submodels", kManifest = "manifest.json",
                           kFormatName = "emplace-submodels";

std::string part_file(std::size_t part) { return fmt::format("part-{:03}.onnx", part); }

/// Returns whether an export has written a file of this name: "part-000.onnx", "part-000.onnx.data".
bool is_part_file(std::string_view name) {
  if (!name.starts_with("part-")) return false;
  name.remove_prefix(5);
  const std::size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits >= 3 && (name == ".onnx" || name == ".onnx.data");
}

/// Makes the folder, and empties it if it holds an earlier export. Errors: kIo; kInvalid if it holds anything
/// else.
Result<Unit> prepare_folder(const fs::path& folder) {
  const auto cannot = [&](const std::error_code& why) {
    return Error{Errc::kIo, printable_path(folder) + ": " + why.message()};
  };
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return cannot(failed);
  bool ours = false, empty = true;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator{folder, failed}) {
    empty = false;
    const std::string name = entry.path().filename().string();
    if (name == kManifest) {
      const auto text = read_file(entry.path());
      const json manifest =
          text ? json::parse(emplace::text_of(*text), nullptr, /*allow_exceptions=*/false) : json{};
      ours = manifest.is_object() && manifest.contains("format") && manifest["format"] == kFormatName;
    }
    if (name == kManifest || is_part_file(name)) old.push_back(entry.path());
  }
  if (failed) return cannot(failed);
  if (!empty && !ours)
    return invalid(printable_path(folder), "is a folder with other files", "give a new folder with -o");
  // Without its manifest an export is not complete, so the manifest goes first.
  std::sort(old.begin(), old.end());
  for (const fs::path& path : old) {
    fs::remove(path, failed);
    if (failed) return cannot(failed);
  }
  return Unit{};
}

/// What a part consists of, by positions and names in the model.
struct Piece {
  DeviceId device{};
  std::vector<int> nodes;  // In topological order; constants that it reads included.
  std::vector<std::string> inputs, outputs, weights;  // Values; without duplicates, in the order of use.
};

/// Assigns nodes, weights and values of a model to parts.
class Division {
 public:
  Division(const PlacementExport& what, const onnx_io::ModelInFile& file)
      : what_{what},
        file_{file},
        graph_{file.model.graph()},
        first_{what.graph.num_ops() - static_cast<std::size_t>(graph_.node_size())} {}

  Result<std::vector<Piece>> make() {
    for (int i = 0; i < graph_.node_size(); ++i)
      for (const auto& name : graph_.node(i).output())
        if (!name.empty()) producer_[name] = i;
    for (const auto& input : graph_.input())
      if (!file_.initializers.contains(input.name())) model_inputs_.insert(input.name());
    for (const auto& output : graph_.output()) model_outputs_.insert(output.name());
    std::uint32_t rank = 0;
    rank_.resize(what_.graph.num_ops());
    for (const OpId op : what_.graph.topological_order()) rank_[index(op)] = rank++;
    const std::vector<Part> parts = cut_into_parts(what_.graph, what_.placement);
    if (parts.empty()) return invalid(kWhere, "the model has no node that computes anything");
    for (std::size_t p = 0; p < parts.size(); ++p)
      for (const OpId op : parts[p].ops) part_of_[node_of(op)] = p;
    for (std::size_t p = 0; p < parts.size(); ++p) EMPLACE_TRY(collect(parts[p], p));
    name_outputs();
    return std::move(pieces_);
  }

  /// The placement that the parts stand for: a weight or constant is on the devices of the parts that read
  /// it.
  Placement applied() const {
    Placement applied = what_.placement;
    for (std::uint32_t i = 0; i < what_.graph.num_ops(); ++i) {
      const OpId op{i};
      if (!what_.graph.is_state(op) || what_.graph.type_name(op) == "Input") continue;
      std::optional<DeviceId> reader;
      bool stays = false;
      for (std::size_t k = 0; k < what_.graph.num_outputs(op); ++k) {
        for (const OpId consumer : what_.graph.consumers(what_.graph.output(op, k))) {
          if (what_.graph.is_state(consumer)) continue;
          if (!reader) reader = what_.placement[index(consumer)];
          stays = stays || what_.placement[index(consumer)] == what_.placement[i];
        }
      }
      if (reader && !stays) applied[i] = *reader;
    }
    return applied;
  }

 private:
  int node_of(OpId op) const { return static_cast<int>(index(op) - first_); }
  OpId op_of(int node) const {
    return OpId{static_cast<std::uint32_t>(first_) + static_cast<std::uint32_t>(node)};
  }

  static void add_once(std::vector<std::string>& names, std::set<std::string>& seen,
                       const std::string& name) {
    if (seen.insert(name).second) names.push_back(name);
  }

  /// Values that a node reads, those of its bodies included.
  std::vector<std::string> reads_of(int node) const {
    const auto& proto = graph_.node(node);
    std::vector<std::string> reads{proto.input().begin(), proto.input().end()};
    const auto outer = onnx_io::outer_reads(proto);
    reads.insert(reads.end(), outer.begin(), outer.end());
    return reads;
  }

  Result<Unit> collect(const Part& part, std::size_t number) {
    Piece piece{part.device, {}, {}, {}, {}};
    std::set<std::string> seen;
    std::set<int> constants;
    std::vector<int> pending;
    for (const OpId op : part.ops) pending.push_back(node_of(op));
    piece.nodes = pending;
    while (!pending.empty()) {
      const int node = pending.back();
      pending.pop_back();
      for (const std::string& name : reads_of(node)) {
        if (name.empty()) continue;
        if (const auto made = producer_.find(name); made != producer_.end()) {
          const auto home = part_of_.find(made->second);
          if (home == part_of_.end()) {  // A constant: every part that reads it computes it.
            if (constants.insert(made->second).second) {
              piece.nodes.push_back(made->second);
              pending.push_back(made->second);
            }
          } else if (home->second != number) {
            add_once(piece.inputs, seen, name);
            crossing_.insert(name);
          }
        } else if (file_.initializers.contains(name)) {
          add_once(piece.weights, seen, name);
        } else if (model_inputs_.contains(name)) {
          add_once(piece.inputs, seen, name);
        } else {
          return invalid(kWhere, "node " + in_quotes(graph_.node(node).name()) + " reads " + in_quotes(name) +
                                     ", which no node produces");
        }
      }
    }
    std::sort(piece.nodes.begin(), piece.nodes.end(),
              [&](int a, int b) { return rank_[index(op_of(a))] < rank_[index(op_of(b))]; });
    std::sort(piece.inputs.begin(), piece.inputs.end());
    std::sort(piece.weights.begin(), piece.weights.end());
    pieces_.push_back(std::move(piece));
    return Unit{};
  }

  /// Outputs of a part are what later parts read and what the model returns. A constant or a weight that the
  /// model returns comes from the first part.
  void name_outputs() {
    for (std::size_t p = 0; p < pieces_.size(); ++p)
      for (const int node : pieces_[p].nodes)
        for (const auto& name : graph_.node(node).output())
          if (const auto home = part_of_.find(node);
              home != part_of_.end() && home->second == p &&
              (crossing_.contains(name) || model_outputs_.contains(name)))
            pieces_[p].outputs.push_back(name);
    Piece& first = pieces_.front();
    const auto add_weight = [&](const std::string& name) {
      const auto at = std::lower_bound(first.weights.begin(), first.weights.end(), name);
      if (at == first.weights.end() || *at != name) first.weights.insert(at, name);
    };
    for (const std::string& name : model_outputs_) {
      const auto made = producer_.find(name);
      if (made == producer_.end() && file_.initializers.contains(name)) {
        add_weight(name);
        first.outputs.push_back(name);
      } else if (made != producer_.end() && !part_of_.contains(made->second)) {
        first.outputs.push_back(name);
        if (std::find(first.nodes.begin(), first.nodes.end(), made->second) != first.nodes.end()) continue;
        first.nodes.insert(first.nodes.begin(), made->second);
        for (const std::string& read : reads_of(made->second))
          if (file_.initializers.contains(read)) add_weight(read);
      }
    }
  }

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const onnx::GraphProto& graph_;
  const std::size_t first_;  // Op of node 0.
  std::unordered_map<std::string, int> producer_;
  std::set<std::string> model_inputs_, model_outputs_, crossing_;
  std::unordered_map<int, std::size_t> part_of_;  // [nodes] Nodes without state.
  std::vector<std::uint32_t> rank_;               // [ops]
  std::vector<Piece> pieces_;
};

/// The external data of one part, copied from the files of the model in pieces of a bounded size.
class DataFile {
 public:
  DataFile(fs::path source, fs::path target) : source_{std::move(source)}, target_{std::move(target)} {}

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
        return fail(tensor, "has the " + entry.key() + " " + in_quotes(entry.value()), {});
      if (entry.key() == "offset") offset = number;
      if (entry.key() == "length") length = number;
    }
    if (location.empty() || !onnx_io::stays_inside(location))
      return fail(tensor, "has its data outside of the model's folder, in " + in_quotes(location),
                  "save the model with its data beside it");
    std::error_code missing;
    const std::uint64_t size = fs::file_size(source_ / location, missing);
    if (missing)
      return fail(tensor, "has its data in " + in_quotes(location) + ", which cannot be read",
                  "put that file beside the model");
    if (!length) length = size - std::min(size, offset);
    if (offset > size || *length > size - offset)
      return fail(tensor, "needs more data than " + in_quotes(location) + " has", "fetch that file again");
    return copy(tensor, location, offset, *length);
  }

  Result<Unit> commit() {
    if (!file_) return Unit{};
    return file_->commit();
  }

 private:
  static Error fail(const onnx::TensorProto& tensor, std::string_view what, std::string_view cure) {
    return invalid("initializer " + in_quotes(tensor.name()), what, cure);
  }

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
        return fail(tensor, "has its data in " + in_quotes(location) + ", which cannot be read", {});
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

/// Writes the parts, one after the other. Weights inside of the file are copied from its bytes to the part
/// without being parsed.
class Writer {
 public:
  Writer(const PlacementExport& what, const onnx_io::ModelInFile& file,
         const std::unordered_map<std::string, onnx::TypeProto>& types)
      : what_{what}, file_{file}, types_{types} {
    const auto& graph = file.model.graph();
    for (const auto* list : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const auto& info : *list) declared_[info.name()] = &info;
  }

  Result<json> write(const fs::path& folder, const Piece& piece, std::size_t number) {
    const std::string name = part_file(number);
    DataFile data{what_.graph_folder, folder / (name + ".data")};
    onnx::ModelProto model = head_of(piece);
    onnx::GraphProto graph;
    graph.set_name(fmt::format("{}/part-{:03}", file_.model.graph().name(), number));
    std::set<std::string_view> made;
    for (const int i : piece.nodes) {
      onnx::NodeProto& node = *graph.add_node() = file_.model.graph().node(i);
      const std::size_t first =
          what_.graph.num_ops() - static_cast<std::size_t>(file_.model.graph().node_size());
      node.set_name(std::string{
          what_.graph.name(OpId{static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i)})});
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

  /// Errors (kInvalid): a value whose type is unknown.
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
          kWhere, "the value " + in_quotes(name) + " passes from part to part, but its type is unknown",
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
  Result<Spans> add_weights(const Piece& piece, onnx::GraphProto& graph, DataFile& data) const {
    Spans inside;
    for (const std::string& name : piece.weights) {
      const auto& weight = file_.initializers.at(name);
      if (weight.sparse) {
        onnx::SparseTensorProto sparse;
        if (!sparse.ParseFromArray(weight.bytes.data(), static_cast<int>(weight.bytes.size())))
          return invalid(kWhere, "the initializer " + in_quotes(name) + " is damaged");
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
        return invalid(kWhere, "the initializer " + in_quotes(name) + " is damaged");
      EMPLACE_TRY(data.take(tensor));
      *graph.add_initializer() = std::move(tensor);
    }
    return inside;
  }

  /// An external tensor is short: its name, its shape and where its data is.
  static bool is_external(std::span<const std::byte> bytes) {
    constexpr std::size_t kLongest = 65536;
    if (bytes.size() > kLongest) return false;
    onnx::TensorProto tensor;
    return tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
           tensor.data_location() == onnx::TensorProto::EXTERNAL;
  }

  static Result<Unit> write_model(const fs::path& path, const onnx::ModelProto& model,
                                  const onnx::GraphProto& graph, const Spans& weights) {
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

  const PlacementExport& what_;
  const onnx_io::ModelInFile& file_;
  const std::unordered_map<std::string, onnx::TypeProto>& types_;
  std::unordered_map<std::string_view, const onnx::ValueInfoProto*> declared_;
};

/// The numbers of the parts whose outputs each part reads.
std::vector<std::set<std::size_t>> earlier_parts(const std::vector<Piece>& pieces) {
  std::map<std::string_view, std::size_t> source;
  std::vector<std::set<std::size_t>> after(pieces.size());
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (const std::string& input : pieces[p].inputs)
      if (const auto it = source.find(input); it != source.end()) after[p].insert(it->second);
    for (const std::string& output : pieces[p].outputs) source[output] = p;
  }
  return after;
}

}  // namespace

Result<ExportedPlacement> placement_submodels(const PlacementExport& what) {
  if (what.graph_file.empty() || recognise_format(what.graph_file, "") != GraphFormat::kOnnx)
    return invalid(kWhere, "needs an ONNX model, and the given graph is not one",
                   "pass the placed .onnx file as --graph");
  EMPLACE_TRY_ASSIGN(const auto file, onnx_io::model_in_file(what.graph_file, "--graph"));
  if (static_cast<std::size_t>(file.model.graph().node_size()) > what.graph.num_ops())
    return invalid(kWhere, "the graph does not match the ONNX file");
  EMPLACE_TRY_ASSIGN(const auto types, onnx_io::value_types(what.graph_file, "--graph", what.dims));
  Division division{what, file};
  EMPLACE_TRY_ASSIGN(auto pieces, division.make());
  // A part that nothing reads computes nothing that the model returns.
  std::erase_if(pieces, [](const Piece& piece) { return piece.outputs.empty(); });

  const fs::path folder{what.output};
  EMPLACE_TRY(prepare_folder(folder));
  Writer writer{what, file, types};
  const auto after = earlier_parts(pieces);
  json parts = json::array();
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    EMPLACE_TRY_ASSIGN(json part, writer.write(folder, pieces[p], p));
    part["after"] = after[p];
    parts.push_back(std::move(part));
  }
  json inputs = json::array(), outputs = json::array();
  for (const auto& input : file.model.graph().input())
    if (!file.initializers.contains(input.name())) inputs.push_back(input.name());
  for (const auto& output : file.model.graph().output()) outputs.push_back(output.name());
  const json manifest{{"format", kFormatName},       {"version", 1},
                      {"graph", what.graph.name()},  {"graph_sha256", graph_sha256(what.graph)},
                      {"inputs", std::move(inputs)}, {"outputs", std::move(outputs)},
                      {"parts", std::move(parts)}};
  auto made =
      exported(what, manifest.dump(1, ' ', false, json::error_handler_t::replace) + "\n", division.applied());
  made.file = kManifest;
  made.parts = pieces.size();
  return made;
}

}  // namespace emplace::record

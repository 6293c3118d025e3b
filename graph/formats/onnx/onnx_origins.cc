#include "graph/formats/onnx/onnx_origins.h"

#include <fmt/core.h>
#include <onnx.pb.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/text/words.h"
#include "graph/capped.h"
#include "graph/formats/onnx/onnx_model.h"
#include "graph/formats/onnx/onnx_parts.h"
#include "graph/formats/onnx/onnx_types.h"
#include "graph/formats/onnx/onnx_wire.h"

namespace emplace::onnx_io {
namespace {

constexpr std::string_view kNode = "pkg.torch.onnx.fx_node";
constexpr std::string_view kRule = "pkg.onnxscript.rewriter.rule_name";
constexpr std::size_t kCompared = 64;  // Elements that are compared of two large weights.

std::string_view metadata(const onnx::NodeProto& node, std::string_view key) {
  for (const auto& entry : node.metadata_props())
    if (entry.key() == key) return entry.value();
  return {};
}

/// "blocks.3.LayerNorm.weight" as torch.export writes it: "blocks_3_layernorm_weight".
std::string flat(std::string_view name) {
  std::string text{name};
  for (char& c : text) {
    const auto letter = static_cast<unsigned char>(c);
    c = std::isalnum(letter) == 0 ? '_' : static_cast<char>(std::tolower(letter));
  }
  return text;
}
std::string_view leaf(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : name.substr(0, dot);
}
std::string dotted_scope(const onnx::NodeProto& node) {
  std::string scope = onnx_scope(node);
  std::replace(scope.begin(), scope.end(), '/', '.');
  return scope;
}

/// The parameters and buffers that a node of torch's graph reads: "%p_norms_3_weight" is "norms_3_weight".
std::vector<std::string_view> parameters_of(std::string_view fx_node) {
  std::vector<std::string_view> names;
  std::size_t at = fx_node.find("args = ");
  while (at != std::string_view::npos && (at = fx_node.find('%', at)) != std::string_view::npos) {
    const std::string_view rest = fx_node.substr(++at);
    const auto end = std::find_if(rest.begin(), rest.end(), [](char c) {
      return c != '_' && std::isalnum(static_cast<unsigned char>(c)) == 0;
    });
    const std::string_view name = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
    if (name.starts_with("p_") || name.starts_with("b_")) names.push_back(name.substr(2));
  }
  return names;
}

/// Finds the weights that were merged, node by node. Thread: one.
class Separator {
 public:
  explicit Separator(onnx::GraphProto& graph) : graph_{graph} {
    for (const auto& node : graph.node())
      for (const auto name : parameters_of(metadata(node, kNode))) mentioned_.emplace(name);
    if (mentioned_.empty()) return;
    for (int k = 0; k < graph.initializer_size(); ++k) {
      const auto& tensor = graph.initializer(k);
      if (!is_floating_element(tensor.data_type())) continue;
      index_.emplace(tensor.name(), k);
      in_file_.emplace(flat(tensor.name()), k);
    }
  }

  std::string run() {
    if (mentioned_.empty()) return {};
    for (auto& node : *graph_.mutable_node()) separate(node);
    if (own_.empty()) return {};
    return fmt::format(
        "weights that the exporter merged because a new model has equal values: {} ({} was {}); each is a "
        "parameter of its own here",
        own_.size(), in_quotes(example_), in_quotes(example_of_));
  }

 private:
  void separate(onnx::NodeProto& node) {
    const auto names = parameters_of(metadata(node, kNode));
    if (names.empty()) return;
    std::vector<int> weights;  // Inputs that are initializers.
    for (int k = 0; k < node.input_size(); ++k)
      if (index_.contains(node.input(k))) weights.push_back(k);
    for (const auto& [input, name] : pairs(node, weights, names)) {
      const std::string& merged = node.input(input);
      if (name != flat(merged) && !in_file_.contains(std::string{name}))
        node.set_input(input, own(merged, name, node));
    }
  }

  /// Inputs of the node with the parameter that each was. A node can stand for a part of torch's node, whose
  /// other parameters are read elsewhere.
  std::vector<std::pair<int, std::string_view>> pairs(const onnx::NodeProto& node, std::vector<int> weights,
                                                      std::vector<std::string_view> names) const {
    // What torch's graph never names, the exporter has made.
    const auto made = [&](int k) { return !mentioned_.contains(flat(node.input(k))); };
    if (weights.size() != names.size()) {
      const auto read_as_named = [&](int k) {
        return made(k) || std::ranges::find(names, flat(node.input(k))) != names.end();
      };
      std::erase_if(weights, read_as_named);
      std::erase_if(names, [&](std::string_view name) { return in_file_.contains(std::string{name}); });
    }
    std::vector<std::pair<int, std::string_view>> found;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      if (made(weights[k])) continue;
      if (weights.size() == names.size()) {
        found.emplace_back(weights[k], names[k]);
        continue;
      }
      const std::string ending = "_" + flat(leaf(node.input(weights[k])));
      const auto fits = [&](std::string_view name) { return name.ends_with(ending); };
      if (std::ranges::count_if(names, fits) == 1)
        found.emplace_back(weights[k], *std::ranges::find_if(names, fits));
    }
    return found;
  }

  /// The initializer of parameter `name`, which was merged into `merged`.
  std::string own(const std::string& merged, std::string_view name, const onnx::NodeProto& reader) {
    const auto [it, fresh] = own_.try_emplace({merged, std::string{name}});
    if (!fresh) return it->second;
    std::string full{name};
    for (std::string scope = dotted_scope(reader); !scope.empty(); scope = module_of(scope)) {
      const std::string before = flat(scope) + "_";
      if (!name.starts_with(before)) continue;
      full = scope + "." + std::string{name.substr(before.size())};
      break;
    }
    if (taken_.empty())
      for (const auto& node : graph_.node()) taken_.insert(node.output().begin(), node.output().end());
    while (index_.contains(full) || taken_.contains(full)) full += "_";
    auto tensor = graph_.initializer(index_.at(merged));
    tensor.set_name(full);
    index_.emplace(full, graph_.initializer_size());
    *graph_.add_initializer() = std::move(tensor);
    if (own_.size() == 1) example_ = full, example_of_ = merged;
    return it->second = full;
  }

  onnx::GraphProto& graph_;
  std::unordered_map<std::string, int> index_;    // [initializer] Floating-point ones.
  std::unordered_map<std::string, int> in_file_;  // [flat name] As the file had them.
  std::set<std::string, std::less<>> mentioned_;  // Flat names in torch's graph.
  std::unordered_set<std::string> taken_;
  std::map<std::pair<std::string, std::string>, std::string> own_;  // [merged, flat name]
  std::string example_, example_of_;
};

/// Weights of one value that nodes of several modules read, without torch's metadata. The older exporter
/// passes them on by `Identity` nodes, whose outputs have the other names.
std::optional<std::string> merged_note(const onnx::GraphProto& graph) {
  std::unordered_map<std::string_view, const onnx::TensorProto*> constant;
  for (const auto& tensor : graph.initializer()) {
    if (module_of(tensor.name()).empty() || tensor.dims_size() != 1) continue;
    const auto values = real_numbers(tensor);
    if (values && values->size() > 1 &&
        std::ranges::all_of(*values, [&](double value) { return value == values->front(); }))
      constant.emplace(tensor.name(), &tensor);
  }
  std::set<std::string> others;
  std::string example, merged;
  if (constant.empty()) return std::nullopt;
  for (const auto& node : graph.node()) {
    if (!metadata(node, kNode).empty()) continue;
    for (const auto& input : node.input()) {
      if (!constant.contains(input)) continue;
      const std::string reader = dotted_scope(node);
      std::string name;
      const std::string_view made = node.output_size() == 0 ? std::string_view{} : node.output(0);
      if (node.op_type() == "Identity" && !module_of(made).empty() && made[0] != '/') {
        name = made;
      } else if (const std::string_view owner = module_of(input);
                 !reader.empty() && !owner.starts_with(reader) && !reader.starts_with(owner)) {
        name = reader + "." + std::string{leaf(input)};
      }
      if (name.empty() || !others.insert(name).second || !example.empty()) continue;
      example = name, merged = input;
    }
  }
  if (others.empty()) return std::nullopt;
  return fmt::format(
      "weights that the exporter merged because a new model has equal values: {} ({} is {}); they are one "
      "parameter here and tie their modules; export in training mode, or a trained model",
      others.size(), in_quotes(example), in_quotes(merged));
}

/// The elements of a tensor in the file; empty if they are elsewhere or in another form.
std::span<const std::byte> raw_data(std::span<const std::byte> tensor) {
  constexpr std::uint64_t kRawData = 9;
  WireReader reader{tensor};
  while (!reader.at_end()) {
    const auto field = reader.next();
    if (!field) return {};
    if (field->number == kRawData && field->content) return *field->content;
  }
  return {};
}

/// Returns whether b [n, m] is a [m, n] transposed, by a sample of elements that are not all equal.
/// The sizes are as in the file, where anything may stand.
bool is_transposed(std::span<const std::byte> a, std::span<const std::byte> b, std::int64_t rows,
                   std::int64_t columns) {
  const auto count = static_cast<std::size_t>(capped::times(rows, columns));
  const auto m = static_cast<std::size_t>(rows), n = static_cast<std::size_t>(columns);
  const std::size_t size = count == 0 ? 0 : a.size() / count;
  if (size == 0 || a.size() != count * size || b.size() != a.size()) return false;
  bool varies = false;
  for (std::size_t k = 0; k < kCompared; ++k) {
    const std::size_t at = k * (count - 1) / (kCompared - 1), turned = at % n * m + at / n;
    const auto one = a.subspan(at * size, size);
    if (!std::ranges::equal(one, b.subspan(turned * size, size))) return false;
    varies = varies || !std::ranges::equal(one, a.first(size));
  }
  return varies;
}

/// Weights that are there twice, as torch's metadata or their contents show.
Result<std::optional<std::string>> folded_note(const onnx::GraphProto& graph, std::span<const std::byte> file,
                                               std::string_view where) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<const onnx::TensorProto*>> named;
  std::unordered_map<std::string_view, const onnx::TensorProto*> made;  // Matrices without a module's name.
  for (const auto& tensor : graph.initializer()) {
    if (tensor.dims_size() != 2 || !is_floating_element(tensor.data_type())) continue;
    if (module_of(tensor.name()).empty()) {
      made.emplace(tensor.name(), &tensor);
    } else {
      named[{tensor.dims(0), tensor.dims(1)}].push_back(&tensor);
    }
  }
  if (made.empty() || named.empty()) return std::optional<std::string>{};
  std::optional<ModelInFile> contents;
  std::size_t twice = 0;
  std::string example;
  for (const auto& node : graph.node()) {
    for (const auto& input : node.input()) {
      const auto one = made.find(input);
      if (one == made.end()) continue;
      const onnx::TensorProto& turned = *one->second;
      const auto candidates = named.find({turned.dims(1), turned.dims(0)});
      if (candidates == named.end()) continue;
      const auto names = parameters_of(metadata(node, kNode));
      for (const onnx::TensorProto* tensor : candidates->second) {
        bool same = std::ranges::find(names, flat(tensor->name())) != names.end();
        if (!same && names.empty() && tensor->data_type() == turned.data_type()) {
          if (!contents) {
            EMPLACE_TRY_ASSIGN(contents, model_in_file(file, where));
          }
          const auto a = contents->initializers.find(tensor->name());
          const auto b = contents->initializers.find(turned.name());
          same = a != contents->initializers.end() && b != contents->initializers.end() &&
                 is_transposed(raw_data(a->second.bytes), raw_data(b->second.bytes), tensor->dims(0),
                               tensor->dims(1));
        }
        if (!same) continue;
        if (twice++ == 0) example = in_quotes(turned.name()) + " is " + in_quotes(tensor->name());
        break;
      }
      made.erase(one);
    }
  }
  if (twice == 0) return std::optional<std::string>{};
  return std::optional{fmt::format(
      "weights that are in the file twice, as they are and transposed: {} ({}); they count twice, and a step "
      "trains both; export without constant folding (newer exporters of torch: optimize=False)",
      twice, example)};
}

}  // namespace

std::string separate_merged_weights(onnx::GraphProto& graph) { return Separator{graph}.run(); }

Result<std::vector<std::string>> weight_notes(const onnx::GraphProto& graph, std::span<const std::byte> file,
                                              std::string_view where) {
  std::vector<std::string> notes;
  if (auto merged = merged_note(graph)) notes.push_back(*std::move(merged));
  EMPLACE_TRY_ASSIGN(auto folded, folded_note(graph, file, where));
  if (folded) notes.push_back(*std::move(folded));
  return notes;
}

bool holds_folded_norm(const onnx::NodeProto& node) {
  return metadata(node, kRule).find("FuseBatchNormInto") != std::string_view::npos;
}

}  // namespace emplace::onnx_io

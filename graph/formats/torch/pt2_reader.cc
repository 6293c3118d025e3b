#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/capped.h"
#include "graph/formats/reading/file_parts.h"
#include "graph/formats/torch/aten_ops.h"
#include "graph/formats/torch/pt2.h"
#include "graph/formats/torch/pt2_archive.h"
#include "graph/symbolic_size.h"

namespace emplace {
namespace {

using nlohmann::json;

constexpr std::int64_t kMajor = 8;
constexpr int kDeepestList = 16;  // Nesting limit of lists in arguments.

/// A member of an object; null if the member or the object is missing.
const json& member(const json& from, const char* key) {
  static const json kNull;
  if (!from.is_object()) return kNull;
  const auto it = from.find(key);
  return it == from.end() ? kNull : *it;
}
std::string text(const json& from) { return from.is_string() ? from.get<std::string>() : std::string{}; }

/// torch's numbers of element types, as the names that it prints.
std::string_view dtype_of(std::int64_t number) {
  static const std::map<std::int64_t, std::string_view> kNames{
      {1, "u8"},      {2, "i8"},          {3, "i16"},         {4, "i32"},        {5, "i64"},
      {6, "f16"},     {7, "f32"},         {8, "f64"},         {9, "c32"},        {10, "c64"},
      {11, "c128"},   {12, "b8"},         {13, "bf16"},       {28, "u16"},       {29, "f8e4m3fn"},
      {30, "f8e5m2"}, {31, "f8e4m3fnuz"}, {32, "f8e5m2fnuz"}, {33, "f8e8m0fnu"}, {34, "u32"},
      {35, "u64"}};
  const auto it = kNames.find(number);
  return it == kNames.end() ? std::string_view{"unknown"} : it->second;
}

/// Module path with '/' between levels: "L__self__,,Net;L__self___conv1,conv1,torch.nn.Conv2d" → "conv1".
std::string scope_of(const std::string& stack) {
  const std::string_view last = std::string_view{stack}.substr(stack.rfind(';') + 1);
  const std::size_t first = last.find(',');
  if (first == std::string_view::npos) return {};
  std::string path{last.substr(first + 1, last.find(',', first + 1) - first - 1)};
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

/// The part of a file in the archive that a tensor's elements lie in [elements].
struct Storage {
  std::string file;
  std::int64_t dtype = 0, begin = 0, end = 0;
  std::vector<std::int64_t> sizes, strides;
};

/// Whole numbers like [{"as_int": 8}]; nothing if one is not.
std::optional<std::vector<std::int64_t>> whole_numbers(const json& from) {
  std::vector<std::int64_t> numbers;
  if (!from.is_array()) return std::nullopt;
  for (const json& one : from) {
    const json& number = member(one, "as_int");
    if (!number.is_number_integer()) return std::nullopt;
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

/// Where the archive lists that a tensor lies.
std::optional<Storage> storage_of(const json& listed) {
  const json& meta = member(listed, "tensor_meta");
  const json& offset = member(member(meta, "storage_offset"), "as_int");
  const json& dtype = member(meta, "dtype");
  auto sizes = whole_numbers(member(meta, "sizes")), strides = whole_numbers(member(meta, "strides"));
  Storage found{.file = text(member(listed, "path_name"))};
  if (found.file.empty() || !sizes || !strides || sizes->size() != strides->size() ||
      !offset.is_number_integer() || !dtype.is_number_integer())
    return std::nullopt;
  found.dtype = dtype.get<std::int64_t>();
  found.begin = offset.get<std::int64_t>();
  std::int64_t last = 0;  // The distance to the last element.
  for (std::size_t k = 0; k < sizes->size(); ++k) {
    if ((*sizes)[k] < 1 || (*strides)[k] < 0) return std::nullopt;
    last = capped::plus(last, capped::times((*sizes)[k] - 1, (*strides)[k]));
  }
  if (found.begin < 0 || found.begin > capped::kMax) return std::nullopt;
  found.end = capped::plus(found.begin, last) + 1;
  found.sizes = *std::move(sizes), found.strides = *std::move(strides);
  return found;
}

class Pt2Reader {
 public:
  /// `weights` has the files of the parameters and buffers by name; anything else is as if it were empty.
  Pt2Reader(std::string_view where, const OpenDims& dims, const json& weights)
      : where_{where}, dims_{dims}, weights_{member(weights, "config")} {}

  Result<OpGraph> read(const json& program) {
    const json& major = member(member(program, "schema_version"), "major");
    if (!major.is_number_integer()) return fail("", "has no schema version");
    if (major.get<std::int64_t>() != kMajor)
      return fail("", fmt::format("has schema {}, but only {} is supported", major.dump(), kMajor),
                  "save it with torch 2.6 or newer, or print it with print_readable()");
    const json& module = member(program, "graph_module");
    const json& graph = member(module, "graph");
    tensors_of_file_ = &member(graph, "tensor_values");
    numbers_of_file_ = &member(graph, "sym_int_values");
    const json& nodes = member(graph, "nodes");
    if (!nodes.is_array() || !tensors_of_file_->is_object()) return fail("", "has no graph");
    EMPLACE_TRY(add_inputs(member(member(module, "signature"), "input_specs")));
    for (std::size_t k = 0; k < nodes.size(); ++k) EMPLACE_TRY(add_node(nodes[k], k));
    if (dims_.any_missing())
      return fail("", "has symbolic sizes", "set them with " + dims_.missing_as_option());
    EMPLACE_TRY(dims_.all_used(where_));
    return build();
  }

 private:
  Error fail(const std::string& place, std::string_view what, std::string_view cure = {}) const {
    return invalid(std::string{where_} + (place.empty() ? "" : ": " + place), what, cure);
  }

  /// Parses {"as_int": 8} or {"as_expr": {"expr_str": "s77"}}; nothing if the formula has no value yet.
  Result<std::optional<std::int64_t>> size(const json& from, std::size_t axis) {
    const json& number = member(from, "as_int");
    if (number.is_number_integer()) return std::optional{number.get<std::int64_t>()};
    const std::string formula = text(member(member(from, "as_expr"), "expr_str"));
    if (formula.empty()) return invalid({}, "is not a size");
    return evaluate_size(formula, axis, dims_);
  }

  Result<TensorSpec> spec_of(const std::string& name, const std::string& place) {
    const json& meta = member(*tensors_of_file_, name.c_str());
    const json& dtype = member(meta, "dtype");
    const json& sizes = member(meta, "sizes");
    if (!dtype.is_number_integer() || !sizes.is_array())
      return fail(place, "tensor " + in_quotes(name) + " has no type");
    const std::string_view name_of_type = dtype_of(dtype.get<std::int64_t>());
    const auto known = aten_dtype(name_of_type == "c128" ? "f64" : name_of_type);
    if (!known)
      return fail(place,
                  "tensor " + in_quotes(name) + " has element type " + dtype.dump() + ", which is unknown");
    TensorSpec spec{*known, {}};
    if (name_of_type == "c128") spec.shape.push_back(2);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      const auto value = size(sizes[axis], axis);
      if (!value) return fail(place, "tensor " + in_quotes(name) + ": " + value.error().context);
      spec.shape.push_back(value->value_or(1));
    }
    return spec;
  }

  std::uint32_t add_tensor(const std::string& name, std::uint32_t output, TensorSpec spec) {
    tensors_.push_back({{static_cast<std::uint32_t>(ops_.size()), output}, std::move(spec)});
    tensor_of_name_[name] = static_cast<std::uint32_t>(tensors_.size() - 1);
    return static_cast<std::uint32_t>(tensors_.size() - 1);
  }

  // ---- State ----

  Result<Unit> add_inputs(const json& specs) {
    if (!specs.is_array()) return fail("", "has no signature");
    struct InputKind {
      const char *key, *name, *type;
    };
    static constexpr InputKind kKinds[] = {{"parameter", "parameter_name", "Parameter"},
                                           {"buffer", "buffer_name", "Buffer"},
                                           {"tensor_constant", "tensor_constant_name", "Constant"},
                                           {"user_input", "", "Input"}};
    std::vector<State> states;
    for (const json& spec : specs) {
      for (const InputKind& kind : kKinds) {
        const json& found = member(spec, kind.key);
        if (!found.is_object()) continue;
        const json& arg = member(found, "arg");
        const std::string placeholder =
            text(member(arg.contains("as_tensor") ? member(arg, "as_tensor") : arg, "name"));
        if (placeholder.empty()) continue;  // A number, a text or None.
        const std::string name = text(member(found, kind.name));
        states.push_back({kind.type, placeholder, name, storage_of(member(weights_, name.c_str()))});
      }
    }
    return add_states(states);
  }

  struct State {
    const char* type;
    std::string placeholder, name;
    std::optional<Storage> storage;
  };

  /// A tensor that lies within another one of its file is tied to it: another name of the same state, or a
  /// view of it.
  Result<Unit> add_states(std::span<const State> states) {
    std::unordered_map<std::string_view, std::vector<const State*>> by_file;
    for (const State& one : states)
      if (one.storage) by_file[one.storage->file].push_back(&one);
    std::unordered_map<const State*, const State*> owner;
    for (auto& [file, tensors] : by_file) {
      std::stable_sort(tensors.begin(), tensors.end(), [](const State* a, const State* b) {
        const auto rank = [](const State& one) {
          return std::pair{one.storage->begin - one.storage->end, one.type != std::string_view{"Parameter"}};
        };
        return rank(*a) < rank(*b);
      });
      std::vector<const State*> owners;
      for (const State* one : tensors) {
        const auto holds = [&](const State* other) {
          return other->storage->dtype == one->storage->dtype &&
                 other->storage->begin <= one->storage->begin && one->storage->end <= other->storage->end;
        };
        const auto found = std::find_if(owners.begin(), owners.end(), holds);
        if (found == owners.end()) {
          owners.push_back(one);
        } else {
          owner[one] = *found;
        }
      }
    }
    for (const State& one : states)
      if (!owner.contains(&one)) EMPLACE_TRY(add_state(one.type, one.placeholder, one.name));
    for (const State& one : states)
      if (const auto it = owner.find(&one); it != owner.end()) EMPLACE_TRY(add_tie(one, *it->second));
    return Unit{};
  }

  Result<Unit> add_tie(const State& state, const State& owner) {
    const std::uint32_t whole = tensor_of_name_[owner.placeholder];
    const Storage &own = *state.storage, &all = *owner.storage;
    if (own.begin == all.begin && own.sizes == all.sizes && own.strides == all.strides) {
      tensor_of_name_[state.placeholder] = whole;
      return Unit{};
    }
    EMPLACE_TRY(add_state("aten::as_strided", state.placeholder, state.name));
    OpSpec& view = ops_.back();
    view.view = true;
    view.attrs_json = R"({"view":true})";
    view.inputs = {tensors_[whole].from};
    return Unit{};
  }

  Result<Unit> add_state(const char* type, const std::string& placeholder, const std::string& name) {
    EMPLACE_TRY_ASSIGN(auto spec, spec_of(placeholder, "input " + in_quotes(placeholder)));
    OpSpec op;
    op.type = type;
    op.name = name.empty() ? placeholder : name;
    const std::size_t dot = name.rfind('.');
    if (dot != std::string::npos) op.group = name.substr(0, dot);
    std::replace(op.group.begin(), op.group.end(), '.', '/');
    op.outputs = {spec};
    if (op.type == "Parameter" || op.type == "Buffer") op.param_bytes = bytes_of(op.outputs);
    add_tensor(placeholder, 0, std::move(spec));
    state_.insert(ops_.size());
    ops_.push_back(std::move(op));
    return Unit{};
  }

  // ---- Nodes ----

  Result<Unit> add_node(const json& node, std::size_t number) {
    const std::string target = text(member(node, "target"));
    if (target.empty()) return fail(fmt::format("node {}", number), "has no target");
    OpSpec op;
    op.name = text(member(node, "name"));
    if (!op.name.empty()) op.name = prefix_ + op.name;
    const std::string place =
        fmt::format("node {}{}", number, op.name.empty() ? "" : " " + in_quotes(op.name));
    std::vector<std::string> made;
    collect_tensors(member(node, "outputs"), made, 0);
    if (made.empty()) return Unit{};
    if (op.name.empty()) op.name = prefix_ + made.front();
    AtenCall call;
    call.target = target;
    const json& inputs = member(node, "inputs");
    const Bodies bodies = bodies_of(inputs);
    if (runs_in_place(target) && bodies.graphs.size() == 1)
      return inline_body(*bodies.graphs[0], bodies.arguments, made, op.name, place);
    for (const json& input : inputs.is_array() ? inputs : json::array()) {
      EMPLACE_TRY_ASSIGN(auto arg, argument(member(input, "arg"), call, place, 0));
      arg.name = text(member(input, "name"));
      call.args.push_back(std::move(arg));
    }
    for (const std::string& name : made) {
      EMPLACE_TRY_ASSIGN(auto spec, spec_of(name, place));
      op.outputs.push_back(std::move(spec));
    }
    if (!describe_aten(call, op)) {
      if (bodies.graphs.empty()) uncounted_.insert(op.type);
      EMPLACE_TRY(count_bodies(target, bodies, op, place));
    }
    op.group = scope_of(text(member(member(node, "metadata"), "nn_module_stack")));
    for (std::uint32_t k = 0; k < made.size(); ++k) add_tensor(made[k], k, op.outputs[k]);
    if (is_in_place(target))
      rename_written(member(inputs.is_array() && !inputs.empty() ? inputs[0] : json{}, "arg"), made[0]);
    ops_.push_back(std::move(op));
    return Unit{};
  }

  // ---- Graphs in calls: blocks without gradients or with autocast, branches, loops ----

  struct Bodies {
    std::vector<const json*> graphs;
    std::vector<const json*> arguments;  ///< After the last graph: tensors, numbers or lists, in order.
  };
  static Bodies bodies_of(const json& inputs) {
    Bodies found;
    static const json kNone = json::array();
    const json& all = inputs.is_array() ? inputs : kNone;  // No copy: the graphs are kept by address.
    for (const json& input : all) {
      const json& arg = member(input, "arg");
      if (const json& graph = member(member(arg, "as_graph"), "graph"); graph.is_object()) {
        found.graphs.push_back(&graph);
        found.arguments.clear();
      } else if (!arg.contains("as_string")) {
        found.arguments.push_back(&arg);
      }
    }
    return found;
  }

  /// Returns whether the call runs its one graph once, as it stands.
  static bool runs_in_place(std::string_view target) {
    constexpr std::string_view kHigher = "torch.ops.higher_order.";
    if (!target.starts_with(kHigher)) return false;
    target.remove_prefix(kHigher.size());
    return target.starts_with("wrap") || target == "strict_mode" || target == "invoke_subgraph" ||
           target == "tag_activation_checkpoint";
  }

  /// Runs `each` with the names of a graph in place of the enclosing ones; the ops in it are called
  /// `within`/NAME.
  template <class Each>
  Result<Unit> in_body(const json& graph, const std::string& within, const std::string& place, Each each) {
    if (depth_ >= kDeepestList) return fail(place, "has graphs that are nested too deeply");
    ++depth_;
    auto names = std::exchange(tensor_of_name_, {});
    auto prefix = std::exchange(prefix_, within + "/");
    const json* const tensors = std::exchange(tensors_of_file_, &member(graph, "tensor_values"));
    const json* const numbers = std::exchange(numbers_of_file_, &member(graph, "sym_int_values"));
    const Result<Unit> done = each(names);
    tensor_of_name_ = std::move(names), prefix_ = std::move(prefix);
    tensors_of_file_ = tensors, numbers_of_file_ = numbers;
    --depth_;
    return done;
  }

  Result<Unit> add_nodes_of(const json& graph, const std::string& place) {
    const json& nodes = member(graph, "nodes");
    if (!nodes.is_array()) return fail(place, "has a graph without nodes");
    for (std::size_t k = 0; k < nodes.size(); ++k) EMPLACE_TRY(add_node(nodes[k], k));
    return Unit{};
  }

  /// Adds the ops of a graph in place of its call, whose results are called `made`.
  Result<Unit> inline_body(const json& graph, const std::vector<const json*>& arguments,
                           const std::vector<std::string>& made, const std::string& name,
                           const std::string& place) {
    return in_body(graph, name, place, [&](auto& outer) -> Result<Unit> {
      const json& inputs = member(graph, "inputs");
      for (std::size_t k = 0; inputs.is_array() && k < inputs.size() && k < arguments.size(); ++k) {
        const std::string inner = text(member(member(inputs[k], "as_tensor"), "name"));
        const auto from = outer.find(text(member(member(*arguments[k], "as_tensor"), "name")));
        if (!inner.empty() && from != outer.end()) tensor_of_name_[inner] = from->second;
      }
      EMPLACE_TRY(add_nodes_of(graph, place));
      std::vector<std::string> results;
      collect_tensors(member(graph, "outputs"), results, 0);
      if (results.size() != made.size())
        return fail(place, fmt::format("has {} results, but its graph has {}", made.size(), results.size()));
      for (std::size_t k = 0; k < made.size(); ++k) {
        const auto known = tensor_of_name_.find(results[k]);
        if (known == tensor_of_name_.end())
          return fail(place, "returns " + in_quotes(results[k]) + ", which is not defined");
        outer[made[k]] = known->second;
      }
      return Unit{};
    });
  }

  /// The work of a graph that stays in its op.
  Result<std::int64_t> work_of(const json& graph, const std::string& name, const std::string& place) {
    const std::size_t tensors = tensors_.size();
    auto ops = std::exchange(ops_, {});
    std::int64_t flops = 0;
    const Result<Unit> done = in_body(graph, name, place, [&](auto&) -> Result<Unit> {
      std::vector<std::string> inputs;
      collect_tensors(member(graph, "inputs"), inputs, 0);
      for (const std::string& input : inputs) {
        EMPLACE_TRY_ASSIGN(auto spec, spec_of(input, place));
        add_tensor(input, 0, std::move(spec));
      }
      return add_nodes_of(graph, place);
    });
    for (const OpSpec& op : ops_) flops = capped::plus(flops, op.flops);
    ops_ = std::move(ops);
    tensors_.resize(tensors);
    if (!done) return done.error();
    return flops;
  }

  /// Counts the graphs of a call: the costlier branch of a condition; one iteration of a loop for each slice
  /// of the inputs that a map or scan takes apart, and one of a loop of unknown length.
  Result<Unit> count_bodies(const std::string& target, const Bodies& bodies, OpSpec& op,
                            const std::string& place) {
    if (bodies.graphs.empty()) return Unit{};
    const bool branches = target.ends_with(".cond"), scans = target.ends_with(".scan");
    const bool maps = target.ends_with(".map_impl") || target.ends_with(".map");
    for (const json* graph : bodies.graphs) {
      EMPLACE_TRY_ASSIGN(const std::int64_t flops, work_of(*graph, op.name, place));
      op.flops = branches ? std::max(op.flops, flops) : capped::plus(op.flops, flops);
    }
    // The argument whose tensors are taken apart along their first axis: a scan's follow what it carries.
    const std::size_t taken = scans ? 1 : 0;
    std::optional<std::int64_t> trips;
    if ((scans || maps) && taken < bodies.arguments.size()) {
      std::vector<std::string> sliced;
      collect_tensors(*bodies.arguments[taken], sliced, 0);
      const auto known = sliced.empty() ? tensor_of_name_.end() : tensor_of_name_.find(sliced[0]);
      if (known != tensor_of_name_.end() && !tensors_[known->second].spec.shape.empty())
        trips = tensors_[known->second].spec.shape[0];
    }
    op.flops = capped::times(op.flops, trips.value_or(1));
    if (!branches && !trips) uncounted_.insert(op.type);
    return Unit{};
  }

  /// After an in-place op, the name of its first argument refers to the result.
  void rename_written(const json& arg, const std::string& result) {
    const std::string name = text(member(member(arg, "as_tensor"), "name"));
    if (!name.empty()) tensor_of_name_[name] = tensor_of_name_[result];
  }

  /// Collects the names of the tensors in a node's outputs.
  static void collect_tensors(const json& from, std::vector<std::string>& out, int depth) {
    if (depth > kDeepestList) return;
    if (from.is_array())
      for (const json& one : from) collect_tensors(one, out, depth + 1);
    if (!from.is_object()) return;
    if (const std::string name = text(member(member(from, "as_tensor"), "name")); !name.empty())
      out.push_back(name);
    for (const char* key : {"as_tensors", "as_optional_tensors"}) {
      const json& list = member(from, key);
      for (const json& one : list.is_array() ? list : json::array()) {
        const std::string plain = text(member(one, "name"));
        if (!plain.empty()) out.push_back(plain);
        collect_tensors(one, out, depth + 1);
      }
    }
  }

  Result<AtenArg> tensor_argument(const std::string& name, AtenCall& call, const std::string& place) {
    const auto it = tensor_of_name_.find(name);
    if (it == tensor_of_name_.end())
      return fail(place, "reads " + in_quotes(name) + ", which is not defined before");
    AtenArg arg;
    arg.kind = AtenArg::Kind::kTensor, arg.number = static_cast<std::int64_t>(call.tensors.size());
    call.tensors.push_back(tensors_[it->second]);
    return arg;
  }

  Result<AtenArg> argument(const json& from, AtenCall& call, const std::string& place, int depth) {
    using ArgKind = AtenArg::Kind;
    AtenArg arg;
    if (!from.is_object() || from.empty() || depth > kDeepestList) return arg;
    const std::string& key = from.begin().key();
    const json& value = from.begin().value();
    if (key == "as_none") return arg;
    arg.kind = ArgKind::kOther;
    if (key == "as_tensor") return tensor_argument(text(member(value, "name")), call, place);
    if (key == "as_int" && value.is_number_integer())
      arg.kind = ArgKind::kInt, arg.number = value.get<std::int64_t>();
    if (key == "as_bool" && value.is_boolean())
      arg.kind = ArgKind::kBool, arg.number = value.get<bool>() ? 1 : 0;
    if (key == "as_string") arg.text = text(value);
    if (key == "as_float") arg.kind = ArgKind::kFloat;
    if (key == "as_sym_int") return symbolic(value);
    if (!value.is_array() || key == "as_floats" || key == "as_strings") return arg;
    arg.kind = ArgKind::kList;
    for (const json& one : value) {
      Result<AtenArg> item = AtenArg{};
      if (one.is_boolean()) {
        item->kind = ArgKind::kBool, item->number = one.get<bool>() ? 1 : 0;
      } else if (one.is_number_integer()) {
        item->kind = ArgKind::kInt, item->number = one.get<std::int64_t>();
      } else if (key == "as_sym_ints") {
        item = symbolic(one);
      } else if (key == "as_tensors") {
        item = tensor_argument(text(member(one, "name")), call, place);
      } else {
        item = argument(one, call, place, depth + 1);
      }
      if (!item) return item;
      arg.items.push_back(*std::move(item));
    }
    return arg;
  }

  /// Resolves a number of the program: {"as_int": 4}, or a name whose formula is in sym_int_values.
  Result<AtenArg> symbolic(const json& from) {
    AtenArg arg;
    arg.kind = AtenArg::Kind::kOther;
    const std::string name = text(member(from, "as_name"));
    const json& known = name.empty() ? from : member(*numbers_of_file_, name.c_str());
    if (!known.is_object()) return arg;
    if (const auto value = size(known, 1); value && *value)
      arg.kind = AtenArg::Kind::kInt, arg.number = **value;
    return arg;
  }

  Result<OpGraph> build() {
    // A parameter may have the same name as a node.
    std::set<std::string> names;
    for (std::size_t k = 0; k < ops_.size(); ++k)
      if (!state_.contains(k)) names.insert(ops_[k].name);
    for (const std::size_t k : state_)
      while (!names.insert(ops_[k].name).second) ops_[k].name += "'";
    OpGraphBuilder builder;
    json meta{{"kind", "inference"}};
    if (!uncounted_.empty()) meta["uncounted"] = uncounted_;
    builder.set_name(name_of_file(where_, {".pt2"}))
        .set_source("pt2")
        .set_meta_json(meta.dump(-1, ' ', false, json::error_handler_t::replace));
    for (OpSpec& op : ops_) builder.add(std::move(op));
    return built(std::move(builder), where_);
  }

  const std::string_view where_;
  DimUsage dims_;
  const json& weights_;
  const json* tensors_of_file_ = nullptr;
  const json* numbers_of_file_ = nullptr;
  std::string prefix_;  // The names of ops in the graph that is read start with it.
  int depth_ = 0;
  std::vector<AtenTensor> tensors_;
  std::unordered_map<std::string, std::uint32_t> tensor_of_name_;
  std::vector<OpSpec> ops_;
  std::set<std::size_t> state_;
  std::set<std::string> uncounted_;
};

}  // namespace

bool looks_like_pt2(std::span<const std::byte> bytes) { return text_of(bytes).starts_with("PK\3\4"); }

Result<OpGraph> parse_pt2(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims) {
  const auto archive = opened(bytes);
  if (!archive) return invalid(where, archive.error().context);
  std::optional<zip_uint64_t> chosen, weights;
  for (zip_int64_t k = 0; k < zip_get_num_entries(archive->get(), 0); ++k) {
    const char* raw = zip_get_name(archive->get(), static_cast<zip_uint64_t>(k), ZIP_FL_ENC_RAW);
    const std::string_view name = raw == nullptr ? "" : raw;
    const bool model = (name.starts_with("models/") || name.find("/models/") != std::string_view::npos) &&
                       name.ends_with(".json");
    if (name.ends_with("data/weights/model_weights_config.json")) weights = static_cast<zip_uint64_t>(k);
    if (model && (!chosen || name.ends_with("models/model.json"))) chosen = static_cast<zip_uint64_t>(k);
  }
  if (!chosen) return invalid(where, "has no exported program", "write one with torch.export.save");
  const auto text = unpacked(archive->get(), *chosen);
  if (!text) return invalid(where, text.error().context);
  const json program = json::parse(*text, nullptr, false);
  if (program.is_discarded()) return invalid(where, "has a program that is not JSON");
  const auto listed = weights ? unpacked(archive->get(), *weights) : Result<std::string>{std::string{}};
  if (!listed) return invalid(where, listed.error().context);
  return Pt2Reader{where, dims, json::parse(*listed, nullptr, false)}.read(program);
}

}  // namespace emplace

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/formats/reading/file_parts.h"
#include "graph/formats/torch/aten_ops.h"
#include "graph/formats/torch/fx.h"
#include "graph/formats/torch/fx_roles.h"
#include "graph/formats/torch/fx_text.h"
#include "graph/symbolic_size.h"

namespace emplace {
namespace {

using Kind = FxExpr::Kind;

/// Name and sizes of a type such as "f32[64, 3][3, 1]cuda:0"; without a size list it is not a tensor.
struct TypeText {
  std::string_view dtype;
  std::vector<std::string_view> sizes;
};
std::optional<TypeText> tensor_type(std::string_view type) {
  const std::size_t open = type.find('[');
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  TypeText text;
  text.dtype = type.substr(0, open);
  int depth = 0;
  std::size_t begin = open + 1;
  for (std::size_t k = open + 1; k < type.size(); ++k) {
    const char c = type[k];
    const bool ends = c == ']' && depth == 0;
    if ((c == ',' && depth == 0) || ends) {
      if (const auto size = type.substr(begin, k - begin);
          size.find_first_not_of(' ') != std::string_view::npos)
        text.sizes.push_back(size);
      begin = k + 1;
    }
    if (ends) return text;
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
  }
  return std::nullopt;
}

/// The value of a name.
struct Value {
  enum class Kind : std::uint8_t { kNothing, kNumber, kTensor, kTuple };
  Kind kind = Kind::kNothing;
  std::uint32_t tensor = 0;                     ///< kTensor: index into the graph's tensors.
  std::map<std::int64_t, std::uint32_t> parts;  ///< kTuple: tensors by index.
  std::optional<std::int64_t> number;           ///< kNumber: value, if known.
};

class FxReader {
 public:
  FxReader(const FxText& text, std::string_view where, const OpenDims& dims)
      : text_{text}, where_{where}, given_{dims}, dims_{dims} {}

  Result<OpGraph> read() {
    collect_parts();
    collect_ties();
    for (const FxStatement& input : text_.inputs) EMPLACE_TRY(add_input(input));
    for (const FxStatement& one : text_.statements) EMPLACE_TRY(add_statement(one));
    if (dims_.any_missing())
      return invalid(where_, "has symbolic sizes", "set them with " + dims_.missing_as_option());
    EMPLACE_TRY(dims_.all_used(where_));
    return build();
  }

 private:
  Error fail(std::string_view what, std::string_view cure = {}) const {
    return invalid(fmt::format("{}: line {}", where_, line_), what, cure);
  }

  /// Collects the types of tuple elements; a tuple itself has no type.
  void collect_parts() {
    for (const FxStatement& one : text_.statements)
      if (one.value.kind == Kind::kItem && one.value.items[0].kind == Kind::kName &&
          one.value.items[1].kind == Kind::kInt && !one.type.empty())
        parts_of_[one.value.items[0].text].emplace(one.value.items[1].number, one.type);
  }

  /// Finds parameters that nothing reads although their twin is read more than once: torch.export gives each
  /// name of a tied weight an input, and all readers the last one.
  void collect_ties() {
    std::unordered_map<std::string_view, int> reads;
    std::vector<const FxStatement*> parameters;
    for (const FxStatement& one : text_.inputs)
      if (one.name.starts_with("p_")) parameters.push_back(&one);
    for (const FxStatement& one : text_.statements) {
      if (one.value.kind == Kind::kName && one.value.text.starts_with("self.") && !one.type.empty())
        parameters.push_back(&one);
      count_reads(one.value, reads);
    }
    std::set<std::string_view> shared;  // Types of parameters that several calls read.
    for (const FxStatement* one : parameters)
      if (reads[one->name] > 1) shared.insert(one->type);
    for (const FxStatement* one : parameters)
      if (reads[one->name] == 0 && shared.contains(one->type)) ties_.insert(one->name);
  }
  static void count_reads(const FxExpr& from, std::unordered_map<std::string_view, int>& reads) {
    // "w.t" calls a method of w.
    if (from.kind == Kind::kName || from.kind == Kind::kCall)
      ++reads[from.text.substr(0, from.text.find('.'))];
    for (const FxExpr& item : from.items) count_reads(item, reads);
  }

  Result<std::optional<TensorSpec>> spec_of(std::string_view type) {
    const auto text = tensor_type(type);
    if (!text) return std::optional<TensorSpec>{};
    const auto dtype = aten_dtype(text->dtype);
    if (!dtype) return fail(dtype.error().context);
    TensorSpec spec{*dtype, {}};
    if (text->dtype == "c128") spec = {DType::kF64, {2}};
    for (std::size_t axis = 0; axis < text->sizes.size(); ++axis) {
      const auto size = evaluate_size(text->sizes[axis], axis, dims_);
      if (!size) return fail("size " + size.error().context);
      spec.shape.push_back(size->value_or(1));
    }
    return std::optional<TensorSpec>{std::move(spec)};
  }

  std::uint32_t add_tensor(std::uint32_t op, std::uint32_t output, TensorSpec spec) {
    tensors_.push_back({{op, output}, std::move(spec)});
    backward_.push_back(false);
    newest_.push_back(static_cast<std::uint32_t>(newest_.size()));
    return static_cast<std::uint32_t>(tensors_.size() - 1);
  }
  void name_tensor(std::string_view name, std::uint32_t tensor) {
    Value value;
    value.kind = Value::Kind::kTensor, value.tensor = tensor;
    values_[name] = std::move(value);
  }

  /// Adds a state op with one output; returns its tensor.
  std::uint32_t add_state(std::string_view name, std::string_view type, TensorSpec spec) {
    OpSpec op;
    op.name = std::string{name};
    op.type = std::string{type};
    op.outputs = {spec};
    const auto tensor = add_tensor(static_cast<std::uint32_t>(ops_.size()), 0, std::move(spec));
    ops_.push_back(std::move(op));
    name_tensor(name, tensor);
    return tensor;
  }

  Result<Unit> add_input(const FxStatement& input) {
    line_ = input.line;
    if (ties_.contains(input.name)) return Unit{};
    EMPLACE_TRY_ASSIGN(auto spec, spec_of(input.type));
    if (input.type.starts_with("Sym(")) return add_number(input.name, input.type);
    if (!spec.has_value()) {
      if (input.type.empty()) untyped_inputs_.insert(input.name);
      return input.type.empty() ? Result<Unit>{Unit{}} : add_number(input.name, "");
    }
    untyped_inputs_.erase(input.name);  // Exported modules have the types below the signature.
    const DType dtype = spec->dtype;
    const std::uint32_t tensor = add_state(input.name, "Input", *std::move(spec));
    backward_[tensor] = input.name.starts_with("tangents");
    roles_.add_input(input.name, dtype, tensor);
    inputs_.push_back(static_cast<std::uint32_t>(ops_.size() - 1));
    return Unit{};
  }

  /// Handles "Sym(s0*2)": a number that follows from the sizes, or is known only at run time.
  Result<Unit> add_number(std::string_view name, std::string_view type) {
    Value value;
    value.kind = Value::Kind::kNumber;
    if (type.starts_with("Sym(") && type.ends_with(')')) {
      DimUsage quiet{given_};  // A number that no tensor size needs may stay unknown.
      if (const auto number = evaluate_size(type.substr(4, type.size() - 5), 1, quiet))
        value.number = *number;
    }
    values_[name] = std::move(value);
    return Unit{};
  }

  Result<Unit> add_statement(const FxStatement& one) {
    line_ = one.line;
    if (!one.has_value) return values_.contains(one.name) ? Result<Unit>{Unit{}} : add_input(one);
    if (one.type.starts_with("Sym(")) return add_number(one.name, one.type);
    const FxExpr& value = one.value;
    switch (value.kind) {
      case Kind::kName:
        return add_name(one);
      case Kind::kItem:
        return add_item(one);
      case Kind::kCall:
        return add_call(one, value.text, value.items);
      case Kind::kInfix:
        return add_call(one, infix_name(value), value.items);
      default:
        values_[one.name] = {};
        return Unit{};
    }
  }

  static std::string_view infix_name(const FxExpr& value) {
    static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"+", "add"},        {"-", "sub"},           {"*", "mul"},        {"/", "div"}, {"@", "matmul"},
        {"**", "pow"},       {"//", "floor_divide"}, {"%", "remainder"},  {"<", "lt"},  {"<=", "le"},
        {">", "gt"},         {">=", "ge"},           {"==", "eq"},        {"!=", "ne"}, {"&", "bitwise_and"},
        {"|", "bitwise_or"}, {"^", "bitwise_xor"},   {"~", "bitwise_not"}};
    if (value.items.size() == 1 && value.text == "-") return "neg";
    for (const auto& [sign, name] : kNames)
      if (sign == value.text) return name;
    return "unknown";
  }

  const Value* find(std::string_view name) const {
    const auto it = values_.find(name);
    return it == values_.end() ? nullptr : &it->second;
  }

  /// Handles `a = b`, `w = self.w`, `y = x.T`.
  Result<Unit> add_name(const FxStatement& one) {
    const std::string_view name = one.value.text;
    if (const Value* known = find(name)) {
      values_[one.name] = Value{*known};
      return Unit{};
    }
    if (ties_.contains(one.name)) return Unit{};
    if (const auto known = attributes_.find(name); known != attributes_.end()) {
      name_tensor(one.name, known->second);
      return Unit{};
    }
    EMPLACE_TRY_ASSIGN(auto spec, spec_of(one.type));
    const std::size_t dot = name.rfind('.');
    if (name.starts_with("self.")) {
      if (spec.has_value()) {
        const bool weight = name.find("param") != std::string_view::npos ||
                            name.find("weight") != std::string_view::npos ||
                            name.find("bias") != std::string_view::npos;
        attributes_[name] = add_state(one.name, weight ? "Parameter" : "Constant", *std::move(spec));
      } else {
        untyped_.insert(one.name);  // Typed by its first reader.
      }
      return Unit{};
    }
    if (dot != std::string_view::npos && find(name.substr(0, dot)) && spec.has_value()) {
      FxExpr self;
      self.kind = Kind::kName, self.text = name.substr(0, dot);
      return add_call(one, name.substr(dot + 1), {&self, 1});
    }
    if (dot == std::string_view::npos) return fail(in_quotes(name) + " is not defined before");
    values_[one.name] = {};
    return Unit{};
  }

  /// Handles `a = b[1]` of a tuple, or a part of a tensor.
  Result<Unit> add_item(const FxStatement& one) {
    const FxExpr& from = one.value.items[0];
    const FxExpr& index = one.value.items[1];
    const Value* known = from.kind == Kind::kName ? find(from.text) : nullptr;
    if (from.kind == Kind::kName && !known) return fail(in_quotes(from.text) + " is not defined before");
    if (known && known->kind == Value::Kind::kTuple) {
      const auto part = known->parts.find(index.kind == Kind::kInt ? index.number : -1);
      if (part == known->parts.end()) return fail(in_quotes(one.name) + " has no type", kTypes);
      name_tensor(one.name, part->second);
      return Unit{};
    }
    if (known && known->kind == Value::Kind::kTensor) return add_call(one, "getitem", one.value.items);
    values_[one.name] = {};
    return Unit{};
  }

  /// The current version of a tensor, after the in-place ops so far.
  std::uint32_t newest(std::uint32_t tensor) {
    while (newest_[tensor] != tensor) tensor = newest_[tensor] = newest_[newest_[tensor]];
    return tensor;
  }

  // ---- Calls ----

  struct Read {
    AtenCall call;
    std::vector<std::uint32_t> tensors;
  };

  /// Converts an argument; adds the tensors in it to the call.
  Result<AtenArg> argument(const FxExpr& from, Read& read, const FxStatement& one) {
    AtenArg arg;
    arg.name = std::string{from.keyword};
    switch (from.kind) {
      case Kind::kNone:
        break;
      case Kind::kBool:
        arg.kind = AtenArg::Kind::kBool, arg.number = from.number;
        break;
      case Kind::kInt:
        arg.kind = AtenArg::Kind::kInt, arg.number = from.number;
        break;
      case Kind::kName:
        return named_argument(from, read, one, std::move(arg));
      case Kind::kList:
      case Kind::kCall:
      case Kind::kInfix:
      case Kind::kItem:
        arg.kind = from.kind == Kind::kList ? AtenArg::Kind::kList : AtenArg::Kind::kOther;
        for (const FxExpr& item : from.items) {
          EMPLACE_TRY_ASSIGN(auto inner, argument(item, read, one));
          arg.items.push_back(std::move(inner));
        }
        break;
      case Kind::kText:
        arg.text = std::string{from.text};
        [[fallthrough]];
      default:
        arg.kind = AtenArg::Kind::kOther;
    }
    return arg;
  }

  Result<AtenArg> named_argument(const FxExpr& from, Read& read, const FxStatement& one, AtenArg arg) {
    arg.kind = AtenArg::Kind::kOther;
    if (untyped_.contains(from.text)) {
      EMPLACE_TRY_ASSIGN(auto spec, spec_of(one.type));
      untyped_.erase(from.text);
      add_state(from.text, "Constant", spec.value_or(TensorSpec{}));
    }
    if (untyped_inputs_.contains(from.text))
      return fail("input " + in_quotes(from.text) + " has no type", kTypes);
    const Value* value = find(from.text);
    const bool dotted = from.text.find('.') != std::string_view::npos;
    if (!value && !dotted && !from.text.starts_with("torch") && from.text != "self" && from.text != "device")
      return fail(in_quotes(from.text) + " is not defined before");
    if (!value) return arg;
    const auto add = [&](std::uint32_t tensor) {
      tensor = newest(tensor);
      AtenArg one_tensor;
      one_tensor.kind = AtenArg::Kind::kTensor,
      one_tensor.number = static_cast<std::int64_t>(read.tensors.size());
      read.tensors.push_back(tensor);
      read.call.tensors.push_back(tensors_[tensor]);
      return one_tensor;
    };
    if (value->kind == Value::Kind::kTensor) {
      std::string name = std::move(arg.name);
      arg = add(value->tensor);
      arg.name = std::move(name);
    } else if (value->kind == Value::Kind::kTuple) {
      arg.kind = AtenArg::Kind::kList;
      for (const auto& [index, tensor] : value->parts) arg.items.push_back(add(tensor));
    } else if (value->kind == Value::Kind::kNumber && value->number) {
      arg.kind = AtenArg::Kind::kInt, arg.number = *value->number;
    }
    return arg;
  }

  /// The results of a call by index in its tuple; a single tensor has index 0. Empty if the call returns no
  /// tensor.
  Result<std::vector<std::pair<std::int64_t, TensorSpec>>> results(const FxStatement& one, bool& tuple) {
    std::vector<std::pair<std::int64_t, TensorSpec>> all;
    EMPLACE_TRY_ASSIGN(auto spec, spec_of(one.type));
    tuple = !spec.has_value();
    if (!tuple) all.emplace_back(0, *std::move(spec));
    const auto parts = parts_of_.find(one.name);
    if (!tuple || parts == parts_of_.end()) return all;
    for (const auto& [index, type] : parts->second) {
      EMPLACE_TRY_ASSIGN(auto part, spec_of(type));
      if (part.has_value()) all.emplace_back(index, *std::move(part));
    }
    return all;
  }

  /// Resolves the callee: `x.flatten(1)` is a method of a tensor, `self.conv1(x)` a module.
  std::pair<std::string, bool> target_of(std::string_view callee, std::span<const FxExpr> args) const {
    if (callee.starts_with("self.")) return {"module::" + std::string{callee.substr(5)}, false};
    const std::size_t dot = callee.rfind('.');
    if (dot != std::string_view::npos && values_.contains(callee.substr(0, dot)))
      return {std::string{callee.substr(dot + 1)}, true};
    // The functional wrapper of a custom op takes the op as its first argument.
    if (callee.find("auto_functionalized") != std::string_view::npos && !args.empty() &&
        args[0].kind == Kind::kName)
      return {std::string{args[0].text}, false};
    return {std::string{callee}, false};
  }

  Result<Unit> add_call(const FxStatement& one, std::string_view callee, std::span<const FxExpr> args) {
    const auto [target, method] = target_of(callee, args);
    Read read;
    read.call.target = target;
    if (method) {
      FxExpr self;
      self.kind = Kind::kName, self.text = callee.substr(0, callee.rfind('.'));
      EMPLACE_TRY_ASSIGN(auto arg, argument(self, read, one));
      read.call.args.push_back(std::move(arg));
    }
    for (const FxExpr& from : args) {
      EMPLACE_TRY_ASSIGN(auto arg, argument(from, read, one));
      read.call.args.push_back(std::move(arg));
    }
    bool tuple = false;
    EMPLACE_TRY_ASSIGN(auto made, results(one, tuple));
    if (one.writes && !read.tensors.empty()) {
      tuple = false;
      made = {{0, read.call.tensors[0].spec}};
    }
    if (made.empty()) {
      // The result is not a tensor, or is not read: a tensor that is read must have a type.
      Value value;
      value.kind = one.type.empty() ? Value::Kind::kTuple : Value::Kind::kNothing;
      if (one.type.empty() && read_as_tensor(one.name))
        return fail(in_quotes(one.name) + " has no type", kTypes);
      values_[one.name] = std::move(value);
      return Unit{};
    }
    add_op(one.name, tuple, std::move(read), std::move(made));
    return Unit{};
  }

  bool read_as_tensor(std::string_view name) {
    if (plainly_read_.empty()) {
      plainly_read_.insert(std::string_view{});
      for (const FxStatement& one : text_.statements) {
        if (one.value.kind == Kind::kItem) continue;
        for (const FxExpr& item : one.value.items) collect_read(item);
      }
    }
    return plainly_read_.contains(name);
  }
  void collect_read(const FxExpr& from) {
    if (from.kind == Kind::kName) plainly_read_.insert(from.text);
    for (const FxExpr& item : from.items) collect_read(item);
  }

  void add_op(std::string_view name, bool tuple, Read read,
              std::vector<std::pair<std::int64_t, TensorSpec>>&& made) {
    OpSpec op;
    op.name = std::string{name};
    const auto number = static_cast<std::uint32_t>(ops_.size());
    Value value;
    value.kind = tuple ? Value::Kind::kTuple : Value::Kind::kTensor;
    bool backward = false;
    for (const std::uint32_t tensor : read.tensors) backward = backward || backward_[tensor];
    std::vector<std::uint32_t> places;
    for (auto& [index, spec] : made) {
      op.outputs.push_back(spec);
      places.push_back(add_tensor(number, static_cast<std::uint32_t>(places.size()), std::move(spec)));
      backward_[places.back()] = backward;
      value.parts[index] = places.back();
    }
    value.tensor = places.front();
    op.phase = backward ? Phase::kBackward : Phase::kForward;
    if (!describe_aten(read.call, op)) uncounted_.insert(op.type);
    const bool in_place = is_in_place(read.call.target);
    roles_.add_call(op.type, in_place, read.call, read.tensors, places,
                    capped::elements(op.outputs[0].shape));
    // Later readers of the written tensor read the result.
    if (in_place && !tuple && !read.tensors.empty()) newest_[read.tensors[0]] = value.tensor;
    ops_.push_back(std::move(op));
    values_[name] = std::move(value);
  }

  Result<OpGraph> build() {
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      OpSpec& op = ops_[inputs_[k]];
      op.type = std::string{roles_.state_type(k)};
    }
    for (OpSpec& op : ops_)
      if (op.type == "Parameter" || op.type == "Buffer") op.param_bytes = bytes_of(op.outputs);
    OpGraphBuilder builder;
    builder.set_name(name_of_file(where_, {".gz", ".zst", ".py", ".txt"}))
        .set_source("fx")
        .set_meta_json(meta().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    for (OpSpec& op : ops_) builder.add(std::move(op));
    return built(std::move(builder), where_);
  }

  nlohmann::json meta() const {
    nlohmann::json meta{{"kind", std::any_of(backward_.begin(), backward_.end(), [](bool b) { return b; })
                                     ? "training"
                                     : "inference"}};
    nlohmann::json notes = nlohmann::json::array();
    if (text_.graphs > 1)
      notes.push_back(fmt::format("the file has {} graphs; the first one is read", text_.graphs));
    if (!inputs_.empty())
      notes.push_back(
          "inferred from their use which inputs are parameters, because the text does not contain it");
    if (!ties_.empty())
      notes.push_back(
          fmt::format("parameters that nothing reads beside one of their type that several ops "
                      "read: {}; they are taken as other names of that one",
                      ties_.size()));
    if (!notes.empty()) meta["notes"] = std::move(notes);
    if (!uncounted_.empty()) meta["uncounted"] = uncounted_;
    return meta;
  }

  static constexpr std::string_view kTypes = "print the graph with types: GraphModule.print_readable()";

  const FxText& text_;
  const std::string_view where_;
  const OpenDims& given_;
  DimUsage dims_;
  std::size_t line_ = 0;
  std::unordered_map<std::string_view, Value> values_;
  std::unordered_map<std::string_view, std::map<std::int64_t, std::string_view>> parts_of_;
  std::unordered_map<std::string_view, std::uint32_t> attributes_;  // Tensors by attribute of the module.
  std::set<std::string_view> ties_;
  std::set<std::string_view> untyped_, untyped_inputs_, plainly_read_;
  std::vector<AtenTensor> tensors_;
  std::vector<bool> backward_;         // [tensors] Whether a backward op produced it.
  std::vector<std::uint32_t> newest_;  // [tensors] Newest version, written by an in-place op; else itself.
  std::vector<OpSpec> ops_;
  std::vector<std::uint32_t> inputs_;  // Op numbers of the inputs, in the order of roles_.
  FxRoles roles_;
  std::set<std::string> uncounted_;
};

}  // namespace

bool looks_like_fx(std::span<const std::byte> bytes) {
  const std::string_view text = text_of(bytes).substr(0, std::size_t{1} << 16);
  const std::size_t module = text.find("(torch.nn.Module)");
  return module != std::string_view::npos && text.find("def forward(", module) != std::string_view::npos;
}

Result<OpGraph> parse_fx(std::span<const std::byte> bytes, std::string_view where, const OpenDims& dims) {
  EMPLACE_TRY_ASSIGN(const auto text, parse_fx_text(text_of(bytes), where));
  return FxReader{text, where, dims}.read();
}

}  // namespace emplace

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/capped.h"
#include "graph/formats/hlo/hlo.h"
#include "graph/formats/hlo/hlo_text.h"
#include "graph/formats/hlo/hlo_work.h"
#include "graph/formats/reading/file_parts.h"
#include "graph/op_kind.h"

namespace emplace {
namespace {

/// The quoted text after KEY= in metadata={…}.
std::string_view quoted_after(std::string_view metadata, std::string_view key) {
  const std::string with = std::string{key} + "=\"";
  const std::size_t at = metadata.find(with);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = metadata.substr(at + with.size());
  std::size_t end = 0;
  while (end < rest.size() && rest[end] != '"') end += rest[end] == '\\' ? 2 : 1;
  return rest.substr(0, std::min(end, rest.size()));
}

/// "jit(step)/transpose(jvp(Block))/dot_general" → "Block".
std::string scope_of(std::string_view op_name) {
  std::string scope;
  const std::size_t last = op_name.rfind('/');
  if (last == std::string_view::npos) return scope;
  for (std::string_view rest = op_name.substr(0, last); !rest.empty();) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (part.starts_with("jit(") || part.starts_with("pjit")) continue;
    for (bool inner = true; inner;) {
      inner = false;
      for (const std::string_view wrap : {"transpose(", "jvp(", "vmap(", "checkpoint(", "remat("})
        if (part.starts_with(wrap)) part.remove_prefix(wrap.size()), inner = true;
    }
    while (part.ends_with(')')) part.remove_suffix(1);
    if (!part.empty()) scope.append(scope.empty() ? "" : "/").append(part);
  }
  return scope;
}

class HloReader {
 public:
  HloReader(const HloText& text, std::string_view where) : text_{text}, where_{where}, work_{text, where} {}

  Result<OpGraph> read() {
    const auto entry = std::find_if(text_.computations.begin(), text_.computations.end(),
                                    [](const HloComputation& one) { return one.entry; });
    if (entry == text_.computations.end()) return invalid(where_, "has no ENTRY computation");
    find_aliases();
    find_weights(*entry);
    for (const HloInstruction& one : entry->instructions) {
      line_ = one.line;
      EMPLACE_TRY(add(*entry, one));
    }
    OpGraphBuilder builder;
    builder.set_name(name_of_file(where_, {".gz", ".zst", ".txt", ".hlo"}))
        .set_source("hlo")
        .set_meta_json(meta().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    for (OpSpec& op : ops_) builder.add(std::move(op));
    return built(std::move(builder), where_);
  }

 private:
  Error fail(std::string_view what) const { return invalid(fmt::format("{}: line {}", where_, line_), what); }

  /// Finds parameters whose memory holds a result: "input_output_alias={ {1}: (6, {}, must-alias) }".
  void find_aliases() {
    std::size_t at = text_.header.find("input_output_alias=");
    if (at == std::string_view::npos) return;
    const std::size_t end = text_.header.find("alias) }", at);
    while ((at = text_.header.find(": (", at)) != std::string_view::npos && at < end) {
      const auto numbers = hlo_numbers(text_.header.substr(at + 3, text_.header.find(',', at) - at - 3));
      if (!numbers.empty()) aliased_.insert(numbers[0]);
      at += 3;
    }
  }

  /// In a file whose parameters have no names, a parameter looks like a weight if products alone read it, as
  /// their second and larger factor, without a batch.
  void find_weights(const HloComputation& entry) {
    for (const HloInstruction& one : entry.instructions)
      if (one.opcode == "parameter") {
        const std::string_view name = quoted_after(one.attribute("metadata"), "op_name");
        named_ = named_ || name.find("params") != std::string_view::npos ||
                 name.find("opt_state") != std::string_view::npos;
      }
    if (named_) return;
    std::set<std::string_view> no_weights;
    const auto shape_of = [&](std::string_view name) -> const HloShape* {
      const auto it = entry.by_name.find(name);
      return it == entry.by_name.end() ? nullptr : &entry.instructions[it->second].shape;
    };
    for (const HloInstruction& one : entry.instructions)
      for (std::size_t k = 0; k < one.operands.size(); ++k) {
        const HloShape *weight = shape_of(one.operands[k]), *data = shape_of(one.operands[0]);
        const bool product = one.opcode == "dot" && one.attribute("lhs_batch_dims").empty();
        const bool second = product && k == 1 && weight != nullptr && data != nullptr && !weight->tuple &&
                            is_floating(weight->tensor.dtype) &&
                            capped::elements(weight->tensor.shape) > capped::elements(data->tensor.shape);
        if (second) weights_.insert(one.operands[k]);
        if (!second) no_weights.insert(one.operands[k]);
      }
    for (const std::string_view name : no_weights) weights_.erase(name);
  }

  static void flatten(const HloShape& shape, std::vector<TensorSpec>& out) {
    if (!shape.tuple) out.push_back(shape.tensor);
    for (const HloShape& part : shape.parts) flatten(part, out);
  }

  Result<Unit> add(const HloComputation& in, const HloInstruction& one) {
    std::vector<const std::vector<EdgeSpec>*> read;
    for (const std::string_view name : one.operands) {
      const auto it = values_.find(name);
      if (it == values_.end()) return fail("reads " + in_quotes(name) + ", which is not defined before");
      read.push_back(&it->second);
    }
    std::vector<EdgeSpec> inputs;
    for (const auto* edges : read) inputs.insert(inputs.end(), edges->begin(), edges->end());
    if ((leaves_ += inputs.size()) > kMaxLeaves) return fail("exceeds the limit of 2^24 tuple elements");
    if (one.opcode == "tuple") {
      values_[one.name] = std::move(inputs);
      return Unit{};
    }
    if (one.opcode == "get-tuple-element") return add_element(in, one, read);
    return add_op(in, one, std::move(inputs));
  }

  Result<Unit> add_element(const HloComputation& in, const HloInstruction& one,
                           const std::vector<const std::vector<EdgeSpec>*>& read) {
    const auto index = hlo_numbers(one.attribute("index"));
    if (one.operands.size() != 1 || index.size() != 1) return fail("does not take an element of a tuple");
    const HloShape& tuple = in.instructions[in.by_name.find(one.operands[0])->second].shape;
    if (!tuple.tuple || index[0] < 0 || static_cast<std::size_t>(index[0]) >= tuple.parts.size())
      return fail(fmt::format("takes element {} of a tuple, which is out of range", index[0]));
    std::size_t begin = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(index[0]); ++k) begin += tuple.parts[k].leaves();
    const std::size_t end = begin + tuple.parts[static_cast<std::size_t>(index[0])].leaves();
    if (end > read[0]->size() || one.shape.leaves() != end - begin)
      return fail("takes an element that is out of range");
    values_[one.name] = {read[0]->begin() + static_cast<std::ptrdiff_t>(begin),
                         read[0]->begin() + static_cast<std::ptrdiff_t>(end)};
    return Unit{};
  }

  Result<Unit> add_op(const HloComputation& in, const HloInstruction& one, std::vector<EdgeSpec> inputs) {
    EMPLACE_TRY_ASSIGN(const auto count, work_.of(in, one));
    const std::string_view metadata = one.attribute("metadata"), op_name = quoted_after(metadata, "op_name");
    OpSpec op;
    op.name = std::string{one.name};
    op.inputs = std::move(inputs);
    flatten(one.shape, op.outputs);
    const std::vector<bool> carried = carried_through(one, op.outputs.size(), op.inputs.size());
    op.flops = count.flops;
    const OpKind* kind = find_kind(Vocabulary::kHlo, one.opcode);
    op.type = type_of(one, kind == nullptr ? StateKind::kNone : kind->state, count, op_name);
    if (count.unknown) uncounted_.insert(op.type);
    op.group = scope_of(op_name);
    op.phase = op_name.find("transpose(") != std::string_view::npos ? Phase::kBackward : Phase::kForward;
    op.view = kind != nullptr && kind->view;
    if (op.view) op.attrs_json = R"({"view":true})";
    if (op.type == "Parameter" || op.type == "Buffer" || op.type == "OptimizerState")
      op.param_bytes = bytes_of(op.outputs);
    training_ = training_ || op.phase == Phase::kBackward;
    if (const std::int64_t size = hlo_group_size(one, text_.header); size > 0) group_sizes_[op.name] = size;
    std::vector<EdgeSpec> made;
    std::vector<TensorSpec> changed;
    for (std::size_t k = 0; k < op.outputs.size(); ++k) {
      if (carried[k]) {
        made.push_back(op.inputs[k]);
        continue;
      }
      made.push_back({static_cast<std::uint32_t>(ops_.size()), static_cast<std::uint32_t>(changed.size())});
      changed.push_back(std::move(op.outputs[k]));
    }
    op.outputs = std::move(changed);
    if ((leaves_ += made.size()) > kMaxLeaves) return fail("exceeds the limit of 2^24 tuple elements");
    values_[one.name] = std::move(made);
    ops_.push_back(std::move(op));
    return Unit{};
  }

  /// Which leaves of a loop's result its body passes on as they are, such as weights: they are the operands
  /// themselves. [leaves] All false for other instructions, and if the loop changes everything.
  std::vector<bool> carried_through(const HloInstruction& one, std::size_t leaves, std::size_t inputs) {
    std::vector<bool> carried(leaves, false);
    if (one.opcode != "while") return carried;
    ++loops_;
    const auto names = hlo_names(one.attribute("body"));
    const auto body = names.empty() ? text_.by_name.end() : text_.by_name.find(names[0]);
    if (body == text_.by_name.end() || inputs != leaves || !one.shape.tuple) return carried;
    const HloComputation& in = text_.computations[body->second];
    const auto instruction = [&](std::string_view name) -> const HloInstruction* {
      const auto it = in.by_name.find(name);
      return it == in.by_name.end() ? nullptr : &in.instructions[it->second];
    };
    const HloInstruction* root = in.instructions.empty() ? nullptr : &in.instructions.back();
    for (const HloInstruction& each : in.instructions)
      if (each.root) root = &each;
    if (root == nullptr || root->opcode != "tuple" || root->operands.size() != one.shape.parts.size())
      return carried;
    std::size_t leaf = 0;
    for (std::size_t k = 0; k < root->operands.size(); ++k) {
      const std::size_t end = leaf + one.shape.parts[k].leaves();
      const HloInstruction* from = instruction(root->operands[k]);
      const HloInstruction* of =
          from == nullptr || from->operands.size() != 1 ? nullptr : instruction(from->operands[0]);
      const bool same = of != nullptr && from->opcode == "get-tuple-element" && of->opcode == "parameter" &&
                        hlo_numbers(from->attribute("index")) == std::vector{static_cast<std::int64_t>(k)};
      for (; leaf < end && leaf < leaves; ++leaf) carried[leaf] = same;
    }
    if (std::ranges::all_of(carried, [](bool leaf_is) { return leaf_is; })) carried.assign(leaves, false);
    return carried;
  }

  std::string type_of(const HloInstruction& one, StateKind state, const HloWork::Count& count,
                      std::string_view op_name) const {
    if (state == StateKind::kConstant) return "Constant";
    if (state == StateKind::kInput) {
      const auto number = hlo_numbers(one.arguments);
      if (op_name.find("opt_state") != std::string_view::npos) return "OptimizerState";
      if (op_name.find("params") != std::string_view::npos) return "Parameter";
      return !number.empty() && aliased_.contains(number[0]) ? "Buffer" : "Input";
    }
    std::string type = "hlo::" + std::string{one.opcode};
    if (one.opcode == "custom-call") {
      const std::string_view target = one.attribute("custom_call_target");
      if (target.size() > 2) type.append(":").append(target.substr(1, target.size() - 2));
      return type;
    }
    if (count.convolution && one.opcode != "convolution") return type + "_convolution";
    if (count.dot && one.opcode != "dot") return type + "_dot";
    return type;
  }

  nlohmann::json meta() const {
    nlohmann::json meta{{"kind", training_ ? "training" : "inference"},
                        {"module", printable(text_.name, 120)}};
    std::vector<std::string> notes;
    if (work_.loops_once() > 0)
      notes.push_back(
          fmt::format("{} loops of unknown length count as one iteration each", work_.loops_once()));
    if (loops_ > 0)
      notes.push_back(
          fmt::format("loops: {}; each is placed as one op, on one device; to place the iterations of a loop "
                      "over layers, compile it unrolled: jax.lax.scan(…, unroll=True)",
                      loops_));
    if (!named_ && !weights_.empty())
      notes.push_back(
          fmt::format("the file has no names of parameters: {} parameters that only products read, as "
                      "their larger second factor, look like weights, and count as inputs; the op_name of a "
                      "weight contains 'params' where jax passes it in an argument of that name",
                      weights_.size()));
    if (!notes.empty()) meta["notes"] = notes;
    if (!group_sizes_.empty()) meta["group_sizes"] = group_sizes_;
    if (!uncounted_.empty()) meta["uncounted"] = uncounted_;
    return meta;
  }

  static constexpr std::size_t kMaxLeaves = std::size_t{1} << 24;

  const HloText& text_;
  const std::string_view where_;
  HloWork work_;
  std::size_t line_ = 0, leaves_ = 0;
  bool training_ = false, named_ = false;
  std::size_t loops_ = 0;
  std::set<std::string_view> weights_;  // Parameters that look like weights by their use.
  std::set<std::int64_t> aliased_;
  std::map<std::string, std::int64_t> group_sizes_;  // Devices that take part in each collective.
  std::set<std::string> uncounted_;  // Types of ops with work that no rule counts, inside a body too.
  std::unordered_map<std::string_view, std::vector<EdgeSpec>> values_;
  std::vector<OpSpec> ops_;
};

}  // namespace

bool looks_like_hlo(std::span<const std::byte> bytes) {
  std::string_view text = text_of(bytes).substr(0, std::size_t{1} << 14);
  while (!text.empty()) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with("//")) return text.starts_with("HloModule ");
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return false;
}

Result<OpGraph> parse_hlo(std::span<const std::byte> bytes, std::string_view where) {
  EMPLACE_TRY_ASSIGN(const auto text, parse_hlo_text(text_of(bytes), where));
  return HloReader{text, where}.read();
}

}  // namespace emplace

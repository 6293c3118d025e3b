#include <fmt/core.h>

#include <algorithm>

#include "graph/formats/tensorflow/tf_inliner.h"
#include "graph/formats/tensorflow/tf_ops.h"
#include "graph/formats/tensorflow/tf_step.h"

namespace emplace::tf {
namespace {

constexpr std::size_t kDeepest = 100, kMaxResults = 4'000'000;

void add_attribute(NodeDef& node, const char* key, const AttrValue& value) {
  NodeDef::Attr& attr = *node.add_attr();
  attr.set_key(key);
  *attr.mutable_value() = value;
}
void add_text(NodeDef& node, const char* key, const std::string& text) {
  AttrValue value;
  value.set_s(text);
  add_attribute(node, key, value);
}

const NameAttrList* function_of(const CallSite& call, std::string_view attribute) {
  const AttrValue* value = find_in(call.attributes, attribute);
  return value != nullptr && value->value_case() == AttrValue::kFunc ? &value->func() : nullptr;
}

}  // namespace

bool Inliner::is_calling(const NodeDef& node) const {
  return is_call(node.op()) || functions_.contains(node.op());
}

std::uint32_t Inliner::argument_length(const OpDef::ArgDef& arg, const Attributes& attributes) {
  const std::string& by = arg.number_attr().empty() ? arg.type_list_attr() : arg.number_attr();
  if (by.empty()) return 1;
  NodeDef holder;
  if (const AttrValue* value = find_in(attributes, by)) add_attribute(holder, by.c_str(), *value);
  return list_length(holder, by);
}

Result<Inliner::FunctionResult> Inliner::run_function(const CallSite& call, const NameAttrList& function,
                                                      std::span<const TensorRef> arguments,
                                                      std::vector<std::string> waits_for,
                                                      const std::string& prefix) {
  const std::string called = in_quotes(function.name());
  const auto it = functions_.find(function.name());
  if (it == functions_.end())
    return fail(call.name, "calls the function " + called + ", which is not in the file");
  if (std::find(running_.begin(), running_.end(), it->second) != running_.end())
    return fail(call.name, "calls the function " + called + ", which calls itself",
                "a step must end: unroll the recursion");
  if (running_.size() >= kDeepest)
    return fail(call.name, fmt::format("calls functions more than {} deep", kDeepest));
  const FunctionDef& def = *it->second;
  Body body{.function = &def, .attributes = &function.attr(), .waits_for = std::move(waits_for)};
  EMPLACE_TRY(bind_arguments(call, arguments, body));
  for (const NodeDef& node : def.node_def()) {
    if (node.name().empty() || node.op().empty())
      return fail(call.name, "calls " + called + ", which has a node without a name or a type");
    if (!body.nodes.emplace(node.name(), &node).second)
      return fail(call.name, "calls " + called + ", where " + in_quotes(node.name()) + " appears twice");
    body.names.emplace(node.name(), free_name(prefix + node.name()));
  }
  running_.push_back(&def);
  for (const NodeDef& node : def.node_def()) EMPLACE_TRY(add(node, body, true));
  running_.pop_back();
  return returned_by(call, body);
}

Result<Unit> Inliner::bind_arguments(const CallSite& call, std::span<const TensorRef> arguments, Body& body) {
  const OpDef& signature = body.function->signature();
  std::size_t at = 0;
  for (const OpDef::ArgDef& arg : signature.input_arg()) {
    const std::uint32_t length = argument_length(arg, *body.attributes);
    if (length > arguments.size() - at) {
      at = arguments.size() + 1;
      break;
    }
    const auto given = arguments.subspan(at, length);
    body.arguments[arg.name()].assign(given.begin(), given.end());
    if (length == 1 && arg.handle_data_size() == 1) handles_.emplace_back(given[0], arg.handle_data(0));
    at += length;
  }
  if (at == arguments.size()) return Unit{};
  return fail(call.name, fmt::format("passes {} arguments to the function {}, which takes a different number",
                                     arguments.size(), in_quotes(signature.name())));
}

Result<Inliner::FunctionResult> Inliner::returned_by(const CallSite& call, const Body& body) {
  const FunctionDef& def = *body.function;
  FunctionResult ran;
  for (const OpDef::ArgDef& arg : def.signature().output_arg()) {
    const auto it = std::find_if(def.ret().begin(), def.ret().end(),
                                 [&](const FunctionDef::Text& one) { return one.key() == arg.name(); });
    if (it == def.ret().end())
      return fail(call.name, "calls " + in_quotes(def.signature().name()) + ", whose result " +
                                 in_quotes(arg.name()) + " has no source");
    EMPLACE_TRY_ASSIGN(auto tensors, tensors_of(call.node, body, it->value()));
    const std::uint32_t length = argument_length(arg, *body.attributes);
    returned_ += std::max<std::size_t>(tensors.size(), length);
    if (returned_ > kMaxResults) return invalid(where_, "returns too many results from functions");
    if (tensors.size() == 1 &&
        !parse_input(it->value()).has_number)  // A name without a number refers to the whole list.
      for (std::uint32_t k = 1; k < length; ++k)
        tensors.push_back({tensors.front().node, tensors.front().output + k});
    ran.results.insert(ran.results.end(), tensors.begin(), tensors.end());
  }
  for (const FunctionDef::Text& effect : def.control_ret()) {
    EMPLACE_TRY_ASSIGN(auto waits, control_of(call.name, body, effect.value()));
    ran.effects.push_back(std::move(waits));
  }
  return ran;
}

Result<Unit> Inliner::lower(const CallSite& call) {
  const std::string& op = call.node.op();
  if (functions_.contains(op)) return lower_call(call);
  if (op == "SymbolicGradient" || op == "For")
    return fail(call.name, "calls a function (" + op + "), which cannot be inlined",
                "freeze the graph with convert_variables_to_constants_v2");
  if (op == "If" || op == "StatelessIf" || op == "Case" || op == "StatelessCase") return lower_branches(call);
  if (op == "While" || op == "StatelessWhile") return lower_loop(call);
  return lower_call(call);
}

Result<Unit> Inliner::lower_call(const CallSite& call) {
  ++out_.calls;
  NameAttrList function;
  function.set_name(call.node.op());
  *function.mutable_attr() = call.attributes;
  if (!functions_.contains(call.node.op())) {
    const NameAttrList* called = function_of(call, "f");
    if (called == nullptr) return fail(call.name, "has no function to call (f)");
    function = *called;
  }
  std::span<const TensorRef> arguments = call.inputs;
  if (call.node.op() == "RemoteCall" && !arguments.empty())
    arguments = arguments.subspan(1);  // Skip the device argument.
  EMPLACE_TRY_ASSIGN(const auto waits, gathered(call));
  EMPLACE_TRY_ASSIGN(auto ran, run_function(call, function, arguments, waits, call.name + "/"));
  return finish(call, function.name(), std::move(ran.results), std::move(ran.effects));
}

Result<std::vector<std::string>> Inliner::gathered(const CallSite& call) {
  if (call.waits_for.size() < 2) return call.waits_for;
  EMPLACE_TRY_ASSIGN(auto made, make(free_name(call.name + "/control_inputs"), "NoOp"));
  for (const std::string& waits : call.waits_for) made->add_input(waits);
  return std::vector<std::string>{"^" + made->name()};
}

Result<Unit> Inliner::finish(const CallSite& call, const std::string& function,
                             std::vector<TensorRef> results, std::vector<std::string> effects) {
  if (effects.empty())
    for (const TensorRef& result : results) effects.push_back("^" + result.node);
  EMPLACE_TRY_ASSIGN(auto made, make(call.name, "NoOp"));
  NodeDef& node = *made;
  node.set_device(call.node.device());
  std::sort(effects.begin(), effects.end());
  effects.erase(std::unique(effects.begin(), effects.end()), effects.end());
  for (const std::string& effect : effects) node.add_input(effect);
  add_text(node, "call", call.node.op());
  if (!function.empty()) add_text(node, "function", function);
  if (const AttrValue* shapes = find_in(call.attributes, "_output_shapes"))
    for (std::size_t k = 0; k < results.size() && k < static_cast<std::size_t>(shapes->list().shape_size());
         ++k)
      declared_.emplace_back(results[k], shapes->list().shape(static_cast<int>(k)));
  bytes_ += node.ByteSizeLong();
  results_.emplace(call.name, std::move(results));
  return Unit{};
}

Result<NodeDef*> Inliner::piece(const CallSite& call, const std::string& name, std::string_view op,
                                const char* types, std::size_t k) {
  auto made = make(free_name(call.name + "/" + name), op);
  if (!made) return made;
  const AttrValue* list = find_in(call.attributes, types);
  if (list != nullptr && k < static_cast<std::size_t>(list->list().type_size())) {
    AttrValue type;
    type.set_type(list->list().type(static_cast<int>(k)));
    add_attribute(**made, "T", type);
  }
  (*made)->set_device(call.node.device());
  bytes_ += 64 + (*made)->name().size();
  return made;
}

/// Puts Switch nodes before the branches and Merge nodes after them.
Result<Unit> Inliner::lower_branches(const CallSite& call) {
  ++out_.conditionals;
  std::vector<std::pair<std::string, const NameAttrList*>> branches;
  if (call.node.op().ends_with("If")) {
    branches = {{"else", function_of(call, "else_branch")}, {"then", function_of(call, "then_branch")}};
  } else if (const AttrValue* list = find_in(call.attributes, "branches")) {
    for (const NameAttrList& one : list->list().func())
      branches.emplace_back(fmt::format("branch{}", branches.size()), &one);
  }
  const auto unnamed = [](const auto& one) { return one.second == nullptr; };
  if (branches.empty() || std::any_of(branches.begin(), branches.end(), unnamed))
    return fail(call.name, "has no functions for its branches");
  if (call.inputs.empty()) return fail(call.name, "has no condition");
  EMPLACE_TRY_ASSIGN(const auto waits, gathered(call));
  AttrValue outputs;
  outputs.set_i(static_cast<std::int64_t>(branches.size()));
  std::vector<TensorRef> arguments;
  for (std::size_t k = 1; k < call.inputs.size(); ++k) {
    EMPLACE_TRY_ASSIGN(auto made, piece(call, fmt::format("switch_{}", k - 1),
                                        branches.size() == 2 ? "Switch" : "_SwitchN", "Tin", k - 1));
    made->add_input(call.inputs[k].text());
    made->add_input(call.inputs[0].text());
    for (const std::string& one : waits) made->add_input(one);
    add_attribute(*made, "num_outs", outputs);
    arguments.push_back({made->name(), 0});
  }
  std::vector<FunctionResult> all;
  std::vector<std::string> effects, begin = waits;
  begin.push_back("^" + call.inputs[0].node);
  for (std::size_t b = 0; b < branches.size(); ++b) {
    for (TensorRef& one : arguments) one.output = static_cast<std::uint32_t>(b);
    EMPLACE_TRY_ASSIGN(auto ran, run_function(call, *branches[b].second, arguments, begin,
                                              call.name + "/" + branches[b].first + "/"));
    effects.insert(effects.end(), ran.effects.begin(), ran.effects.end());
    if (!all.empty() && all.front().results.size() != ran.results.size())
      return fail(call.name, "has branches with different numbers of results");
    all.push_back(std::move(ran));
  }
  std::vector<TensorRef> results;
  for (std::size_t k = 0; k < all.front().results.size(); ++k) {
    EMPLACE_TRY_ASSIGN(auto made, piece(call, fmt::format("merge_{}", k), "Merge", "Tout", k));
    for (const FunctionResult& ran : all) made->add_input(ran.results[k].text());
    results.push_back({made->name(), 0});
  }
  return finish(call, "", std::move(results), std::move(effects));
}

/// Builds Enter → Merge → Switch → body → NextIteration, back to Merge; Exit leaves the loop.
Result<Unit> Inliner::lower_loop(const CallSite& call) {
  const NameAttrList* cond = function_of(call, "cond");
  const NameAttrList* body = function_of(call, "body");
  if (cond == nullptr || body == nullptr) return fail(call.name, "has no functions (cond, body)");
  EMPLACE_TRY_ASSIGN(const auto waits, gathered(call));
  const std::size_t n = call.inputs.size();
  std::vector<TensorRef> merged, inside, results;
  std::vector<int> merges;  // Positions of the Merge nodes.
  for (std::size_t k = 0; k < n; ++k) {
    EMPLACE_TRY_ASSIGN(auto enter, piece(call, fmt::format("enter_{}", k), "Enter", "T", k));
    enter->add_input(call.inputs[k].text());
    for (const std::string& one : waits) enter->add_input(one);
    add_text(*enter, "frame_name", call.name);
    EMPLACE_TRY_ASSIGN(auto merge, piece(call, fmt::format("merge_{}", k), "Merge", "T", k));
    merge->add_input(enter->name());
    merges.push_back(out_.graph.node_size() - 1);
    merged.push_back({merge->name(), 0});
  }
  EMPLACE_TRY_ASSIGN(auto condition_body, run_function(call, *cond, merged, {}, call.name + "/cond/"));
  if (condition_body.results.empty()) return fail(call.name, "has a condition without a result");
  EMPLACE_TRY_ASSIGN(auto condition, piece(call, "LoopCond", "LoopCond", "", 0));
  condition->add_input(condition_body.results[0].text());
  for (std::size_t k = 0; k < n; ++k) {
    EMPLACE_TRY_ASSIGN(auto fork, piece(call, fmt::format("switch_{}", k), "Switch", "T", k));
    fork->add_input(merged[k].text());
    fork->add_input(condition->name());
    inside.push_back({fork->name(), 1});
    EMPLACE_TRY_ASSIGN(auto exit, piece(call, fmt::format("exit_{}", k), "Exit", "T", k));
    exit->add_input(fork->name());
    results.push_back({exit->name(), 0});
  }
  EMPLACE_TRY_ASSIGN(auto ran,
                     run_function(call, *body, inside, {"^" + condition->name()}, call.name + "/body/"));
  if (ran.results.size() != n)
    return fail(call.name, "has a body whose number of results differs from the loop's");
  for (std::size_t k = 0; k < n; ++k) {
    EMPLACE_TRY_ASSIGN(auto next, piece(call, fmt::format("next_{}", k), "NextIteration", "T", k));
    next->add_input(ran.results[k].text());
    out_.graph.mutable_node(merges[k])->add_input(next->name());
  }
  return finish(call, "", std::move(results), {});
}

}  // namespace emplace::tf

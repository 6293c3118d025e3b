#include "solver/methods.h"

#include <array>
#include <string>
#include <vector>

#include "base/lab_words.h"
#include "base/text/words.h"
#include "solver/heuristics.h"
#include "solver/search/anneal.h"
#include "solver/search/local_search.h"

namespace emplace {
namespace {

std::vector<const Method*>& added_methods() {
  static std::vector<const Method*> methods;
  return methods;
}

/// A method that is a function.
class Heuristic final : public Method {
 public:
  using Find = Result<Answer> (*)(const Problem&, Executor&);
  Heuristic(std::string_view name, std::string_view summary, Find function)
      : name_{name}, summary_{summary}, find_{function} {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return summary_; }
  Result<Answer> find(const Problem& problem, Executor& executor) const override {
    return find_(problem, executor);
  }

 private:
  const std::string_view name_, summary_;
  const Find find_;
};

const std::array<Heuristic, 14>& heuristics() {
  static const std::array<Heuristic, 14> all{
      {{"single-cpu", "everything on the best single device of this kind",
        [](const Problem& problem, Executor& executor) { return single_device(problem, executor, "cpu"); }},
       {"single-gpu", "everything on the best single device of this kind",
        [](const Problem& problem, Executor& executor) { return single_device(problem, executor, "gpu"); }},
       {"random", "best of 100 random placements, each group on a device with room for its state",
        random_placements},
       {"round-robin", "groups assigned to devices in turn", round_robin},
       {"expert", "by layer, as the experts of the papers did", expert},
       {"contiguous", "topological order cut by cost, one piece per device", contiguous},
       {"scotch", "Scotch's static mapping, devices weighted by speed", scotch},
       {"mincut", "Scotch over the GPUs only: fewest bytes cut", min_cut},
       {"mincut-cpu", "Scotch over all devices: fewest bytes cut", min_cut_with_cpu},
       {"metis", "METIS, parts weighted by speed, bytes as second constraint", metis},
       {"m-topo", "topological order, device by device up to a memory bound", m_topo},
       {"m-etf", "earliest start first, on devices with enough memory (m-ETF)", m_etf},
       {"m-sct", "m-etf with favourite children from a linear program (m-SCT)", m_sct},
       {"heft", "by upward rank, each op where it ends first (HEFT)", heft}}};
  return all;
}

}  // namespace

std::span<const Method* const> all_methods() {
  static const auto methods = [] {
    std::vector<const Method*> all;
    for (const Heuristic& each : heuristics()) all.push_back(&each);
    return all;
  }();
  return methods;
}

std::span<const Method* const> search_methods() {
  static const LocalSearch local_search;
  static const Anneal anneal;
  static const std::array<const Method*, 2> methods{&local_search, &anneal};
  return methods;
}

std::span<const Method* const> transforming_methods() { return added_methods(); }

void add_transforming_methods(std::initializer_list<const Method*> methods) {
  added_methods().insert(added_methods().end(), methods);
}

Result<const Method*> find_compared_method(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& methods : {all_methods(), search_methods(), transforming_methods()}) {
    for (const Method* method : methods) {
      if (method->name() == name) return method;
      names.push_back(method->name());
    }
  }
  const std::string where = "method '" + printable(name, 60) + "'";
  if (const auto missing = not_in_this_build(LabWord::kMethod, where, name)) return *missing;
  const std::string_view near = nearest_word(name, names);
  std::string all;
  for (const std::string_view known : names) all.append(all.empty() ? "methods: " : ", ").append(known);
  return invalid(where, "is unknown", near.empty() ? all : "did you mean '" + std::string{near} + "'?");
}

Result<const Method*> find_method(std::string_view name) {
  auto method = find_compared_method(name);
  if (method && (*method)->transforms_graph()) {
    return invalid("method '" + std::string{name} + "'",
                   "measures a transformed graph and returns no placement", "use it in `compare`");
  }
  return method;
}

}  // namespace emplace

#include "solver/methods.h"

#include <array>
#include <string>
#include <vector>

#include "base/lab_words.h"
#include "base/text/words.h"
#include "solver/list/list_methods.h"
#include "solver/partitioners/partition_methods.h"
#include "solver/partitioners/simple_methods.h"
#include "solver/search/anneal.h"
#include "solver/search/local_search.h"

namespace emplace {
namespace {

std::vector<const Method*>& added_methods() {
  static std::vector<const Method*> methods;
  return methods;
}

}  // namespace

std::span<const Method* const> all_methods() {
  static const SingleDevice single_cpu{"cpu"}, single_gpu{"gpu"};
  static const RandomGroups random;
  static const RoundRobin round_robin;
  static const Expert expert;
  static const Contiguous contiguous;
  static const Scotch scotch;
  static const MinCut mincut, mincut_cpu{MinCut::Parts::kAllDevices};
  static const Metis metis;
  static const MTopo m_topo;
  static const MEtf m_etf;
  static const MSct m_sct;
  static const Heft heft;
  static const std::array<const Method*, 14> methods{&single_cpu, &single_gpu, &random, &round_robin, &expert,
                                                     &contiguous, &scotch,     &mincut, &mincut_cpu,  &metis,
                                                     &m_topo,     &m_etf,      &m_sct,  &heft};
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
  if (const auto missing = not_in_this_build(where, name)) return *missing;
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

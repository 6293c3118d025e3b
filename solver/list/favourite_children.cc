#include "solver/list/favourite_children.h"

#include <Clp_C_Interface.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace emplace {
namespace {

/// The functions of Clp that are used, as declared by Clp_C_Interface.h.
struct Clp {
  decltype(&::Clp_newModel) new_model;
  decltype(&::Clp_deleteModel) delete_model;
  decltype(&::Clp_setLogLevel) set_log_level;
  decltype(&::Clp_loadProblem) load_problem;
  decltype(&::ClpSolve_new) new_options;
  decltype(&::ClpSolve_delete) delete_options;
  decltype(&::ClpSolve_setSolveType) set_solve_type;
  decltype(&::ClpSolve_setSpecialOption) set_special_option;
  decltype(&::Clp_initialSolveWithOptions) initial_solve;
  decltype(&::Clp_status) status;
  decltype(&::Clp_getColSolution) column_solution;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::optional<Clp> open_clp() {
  // OpenBLAS would start a thread per core, although the matrices are too small to benefit.
  // NOLINTNEXTLINE(concurrency-mt-unsafe): runs once, and OpenBLAS reads nothing else when it is loaded.
  ::setenv("OPENBLAS_NUM_THREADS", "1", /*overwrite=*/0);
  void* const library = ::dlopen("libClp.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Clp clp{};
  const bool whole =
      find(library, "Clp_newModel", clp.new_model) && find(library, "Clp_deleteModel", clp.delete_model) &&
      find(library, "Clp_setLogLevel", clp.set_log_level) &&
      find(library, "Clp_loadProblem", clp.load_problem) && find(library, "ClpSolve_new", clp.new_options) &&
      find(library, "ClpSolve_delete", clp.delete_options) &&
      find(library, "ClpSolve_setSolveType", clp.set_solve_type) &&
      find(library, "ClpSolve_setSpecialOption", clp.set_special_option) &&
      find(library, "Clp_initialSolveWithOptions", clp.initial_solve) &&
      find(library, "Clp_status", clp.status) && find(library, "Clp_getColSolution", clp.column_solution);
  return whole ? std::optional<Clp>{clp} : std::nullopt;
}

/// Clp, loaded on the first linear program: it brings LAPACK and its threads, which no other part of this
/// program needs. Errors: kNoPlacement if the library is not installed. Any thread.
Result<const Clp*> loaded_clp() {
  static const std::optional<Clp> clp = open_clp();
  if (clp) return &*clp;
  return Error{Errc::kNoPlacement, "libClp.so.1 is not on this machine; install coinor-libclp1"};
}

struct Edge {
  std::uint32_t from, to;  // Indices within the window.
  double us;               // Transfer time.
};

/// Mean link over the pairs of fast devices.
struct MeanLink {
  double latency_us = 0, us_per_byte = 0;
};

MeanLink mean_link_of(const ListTask& task) {
  const std::vector<DeviceId> devices = fast_devices(task.problem.devices);
  MeanLink mean;
  double pairs = 0;
  for (const DeviceId s : devices) {
    for (const DeviceId t : devices) {
      if (s == t) continue;
      const TransferLine& line = task.transfers.line(s, t);
      mean.latency_us += (line.latency_ns + kRoundingNs) * 1e-3;
      mean.us_per_byte += line.ns_per_byte * 1e-3;
      ++pairs;
    }
  }
  mean.latency_us /= std::max(1.0, pairs);
  mean.us_per_byte /= std::max(1.0, pairs);
  return mean;
}

/// Edges among the ops of a window; one per pair, for its largest tensor.
std::vector<Edge> edges_within(const ListTask& task, std::span<const OpId> window, const MeanLink& link,
                               std::vector<std::uint32_t>& number) {
  for (std::uint32_t k = 0; k < window.size(); ++k) number[index(window[k])] = k + 1;
  std::vector<Edge> edges;
  for (std::uint32_t k = 0; k < window.size(); ++k) {
    const std::size_t first = edges.size();
    for (const BufferId read : task.lowered.reads(window[k])) {
      const std::uint32_t from = number[index(task.lowered.owner(read))];
      if (from == 0) continue;
      const double us = link.latency_us + link.us_per_byte * static_cast<double>(task.lowered.bytes(read));
      const auto known = std::find_if(edges.begin() + static_cast<std::ptrdiff_t>(first), edges.end(),
                                      [&](const Edge& edge) { return edge.from == from - 1; });
      if (known == edges.end()) {
        edges.push_back({from - 1, k, us});
      } else {
        known->us = std::max(known->us, us);
      }
    }
  }
  for (const OpId op : window) number[index(op)] = 0;
  return edges;
}

// ClpSolve options: do not install Clp's SIGINT handler, which would end the process instead of ours.
constexpr int kDualSimplex = 0, kInterrupts = 2, kLeftAlone = 1;

/// A linear program in Clp's format: columns are ops (their start times), then edges, then the end.
class LinearProgram {
 public:
  LinearProgram(std::span<const double> us, std::span<const Edge> edges)
      : ops_{us.size()}, columns_(us.size() + edges.size() + 1) {
    const std::size_t end = columns_.size() - 1;
    for (std::size_t i = 0; i < us.size(); ++i) row({{end, 1.0}, {i, -1.0}}, us[i]);
    std::vector<std::vector<std::pair<std::size_t, double>>> out(us.size()), in(us.size());
    for (std::size_t e = 0; e < edges.size(); ++e) {
      row({{edges[e].to, 1.0}, {edges[e].from, -1.0}, {ops_ + e, -edges[e].us}}, us[edges[e].from]);
      out[edges[e].from].push_back({ops_ + e, 1.0});
      in[edges[e].to].push_back({ops_ + e, 1.0});
    }
    for (const auto* sides : {&out, &in}) {
      for (const auto& side : *sides)
        if (side.size() > 1) row(side, static_cast<double>(side.size() - 1));
    }
  }

  /// Returns the x of each edge; empty if Clp found no optimum.
  std::vector<double> solve(const Clp& clp, std::size_t edges) {
    std::vector<CoinBigIndex> begin{0};
    std::vector<int> rows;
    std::vector<double> values;
    for (const auto& column : columns_) {
      for (const auto& [r, value] : column) {
        rows.push_back(r);
        values.push_back(value);
      }
      begin.push_back(static_cast<CoinBigIndex>(rows.size()));
    }
    constexpr double kInfinity = std::numeric_limits<double>::max();
    std::vector<double> lower(columns_.size(), 0), upper(columns_.size(), kInfinity),
        cost(columns_.size(), 0);
    std::fill(upper.begin() + static_cast<std::ptrdiff_t>(ops_), upper.end() - 1, 1.0);
    cost.back() = 1;
    const std::vector<double> no_limit(at_least_.size(), kInfinity);
    const std::unique_ptr<Clp_Simplex, decltype(clp.delete_model)> model{clp.new_model(), clp.delete_model};
    clp.set_log_level(model.get(), 0);
    clp.load_problem(model.get(), static_cast<int>(columns_.size()), static_cast<int>(at_least_.size()),
                     begin.data(), rows.data(), values.data(), lower.data(), upper.data(), cost.data(),
                     at_least_.data(), no_limit.data());
    const std::unique_ptr<Clp_Solve, decltype(clp.delete_options)> options{clp.new_options(),
                                                                           clp.delete_options};
    clp.set_solve_type(options.get(), kDualSimplex, -1);
    clp.set_special_option(options.get(), kInterrupts, kLeftAlone, -1);
    clp.initial_solve(model.get(), options.get());
    if (clp.status(model.get()) != 0) return {};
    const double* solution = clp.column_solution(model.get());
    return {solution + ops_, solution + ops_ + edges};
  }

 private:
  void row(const std::vector<std::pair<std::size_t, double>>& terms, double at_least) {
    for (const auto& [column, value] : terms)
      columns_[column].push_back({static_cast<int>(at_least_.size()), value});
    at_least_.push_back(at_least);
  }

  const std::size_t ops_;
  std::vector<std::vector<std::pair<int, double>>> columns_;
  std::vector<double> at_least_;
};

}  // namespace

Result<std::vector<OpId>> favourite_children(const ListTask& task, std::size_t most) {
  EMPLACE_TRY_ASSIGN(const auto clp, loaded_clp());
  const MeanLink link = mean_link_of(task);
  std::vector<OpId> favourite(task.lowered.num_ops(), kNoOp), kernels;
  for (const OpId op : task.problem.graph.topological_order())
    if (task.lowered.takes_time(op)) kernels.push_back(op);
  std::vector<std::uint32_t> number(task.lowered.num_ops(), 0);
  const std::size_t windows = (kernels.size() + most - 1) / std::max<std::size_t>(1, most);
  for (std::size_t w = 0; w < windows; ++w) {
    const std::size_t begin = kernels.size() * w / windows, end = kernels.size() * (w + 1) / windows;
    const std::span<const OpId> window{kernels.data() + begin, end - begin};
    const std::vector<Edge> edges = edges_within(task, window, link, number);
    if (edges.empty()) continue;
    std::vector<double> us;
    for (const OpId op : window) us.push_back(static_cast<double>(task.best_ns[index(op)]) * 1e-3);
    const std::vector<double> x = LinearProgram{us, edges}.solve(*clp, edges.size());
    if (x.empty()) return Error{Errc::kNoPlacement, "Clp found no optimum of a feasible linear program"};
    for (std::size_t e = 0; e < edges.size(); ++e)
      if (x[e] < 0.5) favourite[index(window[edges[e].from])] = window[edges[e].to];
  }
  return favourite;
}

}  // namespace emplace

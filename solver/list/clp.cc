#include "solver/list/clp.h"

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace emplace {
namespace {

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

}  // namespace

Result<const Clp*> Clp::load() {
  static const std::optional<Clp> clp = open_clp();
  if (clp) return &*clp;
  return Error{Errc::kNoPlacement, "libClp.so.1 is not on this machine; install coinor-libclp1"};
}

}  // namespace emplace

#pragma once
/// Clp, loaded on the first linear program: it brings LAPACK and its threads, which no other part of this
/// program needs.

#include <Clp_C_Interface.h>

#include "base/result.h"

namespace emplace {

/// The functions used, as declared by Clp_C_Interface.h.
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

  /// Loads the library on the first call; later calls return the same object. Errors: kNoPlacement if the
  /// library is not installed. Any thread.
  static Result<const Clp*> load();
};

}  // namespace emplace

#pragma once
/// Clp, loaded when a linear programme is first to be solved: with it come LAPACK and its threads, which no
/// other part of this program needs, least of all the processes of a run.

#include <Clp_C_Interface.h>

#include "base/result.h"

namespace emplace {

/// The functions that are used, as Clp_C_Interface.h declares them.
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

  /// The same at every call. Errors: kNoPlacement if the library is not on this machine. Any thread.
  static Result<const Clp*> load();
};

}  // namespace emplace

emplace_bench(learning_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/learning_bench.cc LINKS emplace_policy emplace_solver emplace_executor
  SMOKE "updates:20/")

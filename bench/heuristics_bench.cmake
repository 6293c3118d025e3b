emplace_bench(heuristics_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/heuristics_bench.cc LINKS emplace_solver test_support
  SMOKE "/1000")

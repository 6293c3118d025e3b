emplace_bench(simulate_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/simulate_bench.cc LINKS emplace_executor emplace_models emplace_solver test_support
  SMOKE "1000|Lowering")

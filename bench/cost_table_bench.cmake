emplace_bench(cost_table_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/cost_table_bench.cc LINKS emplace_models emplace_placement
  SMOKE "layers:1$")

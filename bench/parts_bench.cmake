emplace_bench(parts_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/parts_bench.cc LINKS emplace_pretrained emplace_worlds
  SMOKE "BM_Parts/30/")

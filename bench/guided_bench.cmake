emplace_bench(guided_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/guided_bench.cc LINKS emplace_pretrained emplace_worlds
  SMOKE "BM_Guided/100/30/")

# On random worlds, which are the laboratory's.
if(NOT EMPLACE_LAB)
  return()
endif()
emplace_bench(parts_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/parts_bench.cc LINKS emplace_lab
  SMOKE "BM_Parts/30/")

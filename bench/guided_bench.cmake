# On random worlds, which are the laboratory's.
if(NOT EMPLACE_LAB)
  return()
endif()
emplace_bench(guided_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/guided_bench.cc LINKS emplace_lab
  SMOKE "BM_Guided/100/30/")

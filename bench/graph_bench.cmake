emplace_bench(graph_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/graph_bench.cc LINKS emplace_models SMOKE "1000|Generate/2")

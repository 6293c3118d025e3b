emplace_bench(top_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/top_bench.cc LINKS emplace_commands)

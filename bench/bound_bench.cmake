emplace_bench(bound_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/bound_bench.cc LINKS emplace_placement test_support SMOKE "/1000")

emplace_bench(nn_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/nn_bench.cc LINKS emplace_policy emplace_executor test_support SMOKE "1000")

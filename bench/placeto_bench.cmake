emplace_bench(placeto_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/placeto_bench.cc LINKS emplace_policy test_support SMOKE "/64")

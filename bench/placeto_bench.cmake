emplace_bench(placeto_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/placeto_bench.cc LINKS emplace_policy emplace_executor test_support
  SMOKE "/64|updates:2/")

emplace_bench(transport_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/transport_bench.cc LINKS emplace_runtime PkgConfig::ZMQ)

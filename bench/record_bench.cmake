emplace_bench(record_bench SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/record_bench.cc LINKS emplace_record SQLiteCpp PkgConfig::SQLITE3
  SMOKE "Pack")

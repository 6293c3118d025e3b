# Converts a file into a C++ source: cmake -DOUTPUT=file.cc -DFILE=path -P embed.cmake
file(READ ${FILE} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUTPUT} "#include \"launcher/pretrained/scheduler_policy.h\"\n\nnamespace emplace::launcher {\nnamespace {\n"
  "constexpr unsigned char kBytes[] = {\n${hex}0};\n}  // namespace\n"
  "std::span<const std::byte> embedded_weights() { return std::as_bytes(std::span{kBytes}.first(${bytes})); }\n"
  "}  // namespace emplace::launcher\n")

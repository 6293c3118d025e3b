# Converts files into a C++ source that defines each as a std::string_view, which HEADER declares:
#   cmake -DOUTPUT=file.cc -DHEADER=folder/header.h -DNAMESPACE=emplace::layer "-DFILES=kName=path;kName=path|path" -P embed.cmake
# Files joined by "|" become one.
set(source "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
foreach(entry ${FILES})
  string(REGEX MATCH "^([A-Za-z]+)=(.+)$" matched "${entry}")
  set(name ${CMAKE_MATCH_1})
  string(REPLACE "|" ";" paths "${CMAKE_MATCH_2}")
  set(hex "")
  foreach(path ${paths})
    file(READ ${path} more HEX)
    string(APPEND hex "${more}")
  endforeach()
  string(LENGTH "${hex}" digits)
  math(EXPR bytes "${digits} / 2")
  string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND source "namespace {\nconstexpr unsigned char ${name}Bytes[] = {\n${hex}0};\n}\n"
    "const std::string_view ${name}{reinterpret_cast<const char*>(${name}Bytes), ${bytes}};\n")
endforeach()
string(APPEND source "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${source}")

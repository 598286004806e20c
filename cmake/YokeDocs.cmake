# cmake/YokeDocs.cmake: the target `docs` generates a reference of the installed headers in <build>/docs/html, with
# Doxygen. A warning of Doxygen is an error. Without Doxygen the target fails and says so.
find_program(YOKE_DOXYGEN doxygen)
mark_as_advanced(YOKE_DOXYGEN)
if(NOT YOKE_DOXYGEN)
  add_custom_target(docs
    COMMAND ${CMAKE_COMMAND} -E echo "docs: Doxygen is not installed; install the package doxygen and configure again"
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  return()
endif()

# The headers have plain comments. The filter makes them Doxygen's, and escapes what Doxygen would read as a command.
set(filter ${PROJECT_BINARY_DIR}/docs/filter.sed)
file(WRITE ${filter} [[
\,^ *//,{
  s,[@<>\\#"&],\\&,g
  s,^( *)//,\1///,
}
\,^[^"]*[;{\,)] +// ,s,^([^"/]*[;{\,)]) +// (.*)$,\1 ///< \2,
]])
set(folders runtime/include frontends/tensor/include plugin_api/include plugin_api/program/include plugin_api/sdk/include)
list(TRANSFORM folders PREPEND ${PROJECT_SOURCE_DIR}/)
list(JOIN folders " " input)
file(WRITE ${PROJECT_BINARY_DIR}/docs/Doxyfile "
PROJECT_NAME = yoke
PROJECT_NUMBER = ${PROJECT_VERSION}
OUTPUT_DIRECTORY = ${PROJECT_BINARY_DIR}/docs
INPUT = ${input}
RECURSIVE = YES
FILE_PATTERNS = *.h
FILTER_PATTERNS = *.h=\"sed -E -f ${filter}\"
STRIP_FROM_PATH = ${input}
EXCLUDE_SYMBOLS = *::detail
EXTRACT_ALL = YES
MARKDOWN_SUPPORT = NO
MACRO_EXPANSION = YES
INCLUDE_PATH = ${input}
GENERATE_LATEX = NO
HAVE_DOT = NO
QUIET = YES
WARN_AS_ERROR = FAIL_ON_WARNINGS
")
add_custom_target(docs COMMAND ${YOKE_DOXYGEN} ${PROJECT_BINARY_DIR}/docs/Doxyfile
  COMMAND ${CMAKE_COMMAND} -E echo "docs: ${PROJECT_BINARY_DIR}/docs/html/index.html" VERBATIM)

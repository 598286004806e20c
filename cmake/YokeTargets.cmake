# cmake/YokeTargets.cmake: flags for yoke's own targets, and one helper per kind of target.
include(${CMAKE_CURRENT_LIST_DIR}/YokePlugin.cmake)  # yoke_add_backend

# Flags that every target of yoke has; set on targets only, so nothing leaks into what embeds yoke.
function(yoke_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20 c_std_11)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    # GCC 12 sees an overlap in every `"text" + std::string` (its bug 105651); and it notes where its releases differ in how they pass a
    # class, which matters only to objects of two compilers in one program.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
  if(YOKE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(YOKE_SANITIZE STREQUAL "address")
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
    # These two compare type information across shared objects, where hidden classes have one copy each.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr,function>)
  elseif(YOKE_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  elseif(YOKE_SANITIZE)
    message(FATAL_ERROR "YOKE_SANITIZE is '${YOKE_SANITIZE}'; it takes address, thread, or nothing")
  endif()
endfunction()

# Compiles the sources of each folder as one, except those that need other flags and those whose path contains one of the words given.
# Names in the anonymous namespaces of sources compiled as one must differ.
function(yoke_group_sources target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(base ${target} SOURCE_DIR)
  foreach(source ${sources})
    set(alone FALSE)
    foreach(word ${ARGN})
      string(FIND ${source} ${word} place)
      if(NOT place EQUAL -1)
        set(alone TRUE)
      endif()
    endforeach()
    if(source MATCHES "\\.cpp$" AND NOT alone)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${base})
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${base})
      string(MAKE_C_IDENTIFIER "in_${folder}" group)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# Where tests do not look at speed, the time to compile matters more: two thirds of that at -O1, and with clang's sanitizers half at -O0.
set(YOKE_COLD_FLAGS $<$<CONFIG:Release>:-O1>)
set(YOKE_HOT_FLAGS $<$<CONFIG:Release>:-O3>)
if(YOKE_SANITIZE STREQUAL "address")
  set(YOKE_COLD_FLAGS -O0)
  set(YOKE_HOT_FLAGS -O1)
endif()
# After a precompiled header GCC takes its system headers for ours, and warns about what it inlines from them.
set(YOKE_HEADER_FLAGS "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")

# yoke_configure_product(<target> [HOT <source>...] [ALONE <part of a path>...]): flags for what ships: the libraries, plugins and commands.
# They are compiled with one precompiled header and, with YOKE_UNITY, a folder at a time, except those that are ALONE. Only the HOT sources,
# which run at every launch, are fully optimized; the others run once per program or command.
function(yoke_configure_product target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;ALONE")
  yoke_configure_target(${target})
  target_compile_options(${target} PRIVATE ${YOKE_COLD_FLAGS} ${YOKE_HEADER_FLAGS})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")  # -fPIC as in libraries, so that they can share the header
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM yoke_headers)
  if(YOKE_UNITY)
    # clang warns when a local name equals one of another file's unnamed namespace.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-shadow>)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL yoke_group_sources ${target} ${arg_ALONE})")  # after subfolders have added their sources
  endif()
  foreach(source ${arg_HOT})
    if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      message(FATAL_ERROR "yoke_configure_product(${target}): the HOT source '${source}' does not exist in ${CMAKE_CURRENT_SOURCE_DIR}")
    endif()
  endforeach()
  if(arg_HOT)
    set_source_files_properties(${arg_HOT} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    set_property(SOURCE ${arg_HOT} APPEND PROPERTY COMPILE_OPTIONS ${YOKE_HOT_FLAGS})
  endif()
endfunction()

# yoke_add_headers(<target> <OBJECT or EXECUTABLE> HEADERS ...): a precompiled header for targets of the same kind with the same flags.
function(yoke_add_headers target type)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "HEADERS")
  set(source ${CMAKE_BINARY_DIR}/cmake/${target}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  if(type STREQUAL "EXECUTABLE")
    add_executable(${target} EXCLUDE_FROM_ALL ${source})
  else()
    add_library(${target} ${type} EXCLUDE_FROM_ALL ${source})
  endif()
  list(TRANSFORM arg_HEADERS REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${arg_HEADERS})
  # Without clang's time stamp two builds of a header are equal, as ccache needs them.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# `yoke_headers`: the precompiled header of yoke_configure_product: the parts of the standard library that most sources include, and no header
# of yoke, so that a change of one compiles only the sources that include it. -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON shows missing includes.
set(YOKE_COMMON_HEADERS algorithm array atomic charconv chrono cmath condition_variable cstdint cstring deque fstream functional iostream limits
  map memory mutex numeric optional set span sstream stdexcept string string_view system_error thread unordered_map utility vector)
yoke_add_headers(yoke_headers OBJECT HEADERS ${YOKE_COMMON_HEADERS})
yoke_configure_target(yoke_headers)
target_compile_options(yoke_headers PRIVATE ${YOKE_COLD_FLAGS})

# `plugins`: the backends and yoke-probe; `train`: these and the yoke command; `programs`: everything that is installed;
# `tests_<label>`: what ctest -L <label> needs.
add_custom_target(plugins)
add_custom_target(train)
add_custom_target(programs)
add_dependencies(train plugins)
add_dependencies(programs train)

# yoke_adopt_backend(<name>): a backend of this tree (yoke_add_backend made it): our flags, its place in the build, and installed.
function(yoke_adopt_backend name)
  set(target yoke_backend_${name})
  yoke_configure_product(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/yoke)
  add_dependencies(plugins ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/yoke COMPONENT runtime)
endfunction()

# How tests are compiled. A test's own code runs once: little optimization, and of the sanitizers only what finds wrong memory and races.
function(yoke_configure_test name)
  yoke_configure_target(${name})
  target_compile_options(${name} PRIVATE ${YOKE_COLD_FLAGS} ${YOKE_HEADER_FLAGS})
  if(YOKE_SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
    # GCC's name for it; clang 14 has none that C sees too.
    target_compile_definitions(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:__SANITIZE_ADDRESS__=1>)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
endfunction()

# `tests_headers`: the precompiled header of tests: GoogleTest, and what nearly every test includes.
function(yoke_add_test_headers)
  find_package(GTest REQUIRED)
  # A program, because only programs have the same flags as programs.
  yoke_add_headers(tests_headers EXECUTABLE HEADERS gmock/gmock.h gtest/gtest.h ${YOKE_COMMON_HEADERS} filesystem)
  yoke_configure_test(tests_headers)
endfunction()

# yoke_add_test(<name> SOURCES ... LIBS ... LABELS ... [TIMEOUT s] [ENVIRONMENT ...]): a GoogleTest program; each test in it is one test of ctest.
function(yoke_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${arg_SOURCES})
  yoke_configure_test(${name})
  target_precompile_headers(${name} REUSE_FROM tests_headers)
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  target_compile_definitions(${name} PRIVATE
    YOKE_TEST_PLUGIN_DIR="${CMAKE_BINARY_DIR}/lib/yoke" YOKE_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  foreach(label ${arg_LABELS})
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
      add_dependencies(tests_${label} plugins)
    endif()
    add_dependencies(tests_${label} ${name})
  endforeach()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  # One label holds all words, because a list does not survive the discovery; `ctest -L unit` looks for the word in it.
  string(REPLACE ";" "+" label "${arg_LABELS}")
  set(properties LABELS ${label} TIMEOUT ${arg_TIMEOUT})
  if(arg_ENVIRONMENT)
    list(APPEND properties ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. PROPERTIES ${properties})
endfunction()

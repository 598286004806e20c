# cmake/YokeTargets.cmake: flags for yoke's own targets, and one helper per kind of target.
include(${CMAKE_CURRENT_LIST_DIR}/YokePlugin.cmake)  # yoke_add_backend

# yoke_configure_target(<target>): flags of every target. They are set on targets
# only, so projects that embed yoke do not inherit them.
function(yoke_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20 c_std_11)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    # GCC 12 warns about an overlap in every `"text" + std::string` (GCC bug 105651). Its notes about changes of the
    # calling convention matter only when objects of different GCC releases are linked.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-psabi>)
  if(YOKE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  else()  # a new operation needs a case wherever operations have a meaning
    target_compile_options(${target} PRIVATE -Werror=switch)
  endif()
  if(YOKE_SANITIZE STREQUAL "address")
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
    # Both checks compare type information across shared objects, but a hidden class has one copy in each of them.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=vptr,function>)
  elseif(YOKE_SANITIZE STREQUAL "thread")
    target_compile_options(${target} PRIVATE -fsanitize=thread -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=thread)
  elseif(YOKE_SANITIZE)
    message(FATAL_ERROR "YOKE_SANITIZE is '${YOKE_SANITIZE}'; it takes address, thread, or nothing")
  endif()
endfunction()

# yoke_group_sources(<target> <part of a path>...): compiles the sources of each folder in units of about 150 KB, except
# those whose path contains one of the arguments. Names in the anonymous namespaces of a folder must therefore differ.
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
      file(SIZE ${source} size)
      if(NOT DEFINED bytes_${group})
        set(bytes_${group} 0)
      endif()
      math(EXPR bytes_${group} "${bytes_${group}} + ${size}")
      math(EXPR part "${bytes_${group}} / 150000")
      string(APPEND group "_${part}")
      set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# Code that does not run at every launch is compiled with -O1, which takes two thirds of the time. With clang's
# address sanitizer, -O0 compiles in a third of the time of -O1, but the code runs several times slower. Test code runs
# only once, so only tests use -O0.
set(YOKE_COLD_FLAGS $<$<CONFIG:Release>:-O1>)
set(YOKE_HOT_FLAGS $<$<CONFIG:Release>:-O3>)
set(YOKE_TEST_FLAGS ${YOKE_COLD_FLAGS})
if(YOKE_SANITIZE STREQUAL "address")
  set(YOKE_TEST_FLAGS -O0)
endif()
# GCC does not recognize system headers in a precompiled header and warns about inlined standard library code.
set(YOKE_HEADER_FLAGS "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")

# yoke_configure_product(<target> [HOT <source>...] [ALONE <part of a path>...]): flags of installed libraries, plugins
# and commands. All share one precompiled header. With YOKE_UNITY, each folder is one unit, except sources whose path
# contains an ALONE argument. Only HOT sources, which run at every launch, are fully optimized.
function(yoke_configure_product target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HOT;ALONE")
  yoke_configure_target(${target})
  target_compile_options(${target} PRIVATE ${YOKE_COLD_FLAGS} ${YOKE_HEADER_FLAGS})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")  # -fPIC as in libraries, so that the precompiled header fits both
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  target_precompile_headers(${target} REUSE_FROM yoke_headers)
  if(YOKE_UNITY)
    # clang warns when a local name equals a name in the anonymous namespace of another file of the unit.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-shadow>)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    # Deferred, because subfolders add sources later.
    cmake_language(EVAL CODE "cmake_language(DEFER CALL yoke_group_sources ${target} ${arg_ALONE})")
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

# yoke_add_headers(<target> <OBJECT or EXECUTABLE> HEADERS ...): adds a precompiled
# header for targets of the same kind with the same flags.
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
  # ccache needs two builds of a header to be equal, so clang must not store a timestamp.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# `yoke_headers`: the precompiled header of yoke_configure_product, with common headers of the standard library. It has
# no header of yoke, so a changed header recompiles only the sources that include it.
# -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON finds missing includes.
set(YOKE_COMMON_HEADERS algorithm array atomic charconv chrono cmath condition_variable cstdint cstring deque fstream functional iostream limits
  map memory mutex numeric optional set span sstream stdexcept string string_view system_error thread unordered_map utility vector)
yoke_add_headers(yoke_headers OBJECT HEADERS ${YOKE_COMMON_HEADERS})
yoke_configure_target(yoke_headers)
target_compile_options(yoke_headers PRIVATE ${YOKE_COLD_FLAGS})

# Targets for building a part: `plugins` (the backends and yoke-probe), `train` (plugins and the yoke command),
# `programs` (everything that is installed), `tests_<label>` (everything that ctest -L <label> needs).
add_custom_target(plugins)
add_custom_target(train)
add_custom_target(programs)
add_dependencies(train plugins)
add_dependencies(programs train)

# yoke_adopt_backend(<name>): flags, build folder and install rule of a backend of this tree, after yoke_add_backend.
function(yoke_adopt_backend name)
  set(target yoke_backend_${name})
  yoke_configure_product(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/yoke)
  add_dependencies(plugins ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/yoke COMPONENT runtime)
endfunction()

# yoke_configure_test(<target>): flags of tests. Test code runs once, so it has
# little optimization, and no undefined-behavior sanitizer.
function(yoke_configure_test name)
  yoke_configure_target(${name})
  target_compile_options(${name} PRIVATE ${YOKE_TEST_FLAGS} ${YOKE_HEADER_FLAGS})
  if(YOKE_SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
    # GCC defines this macro; clang 14 has no equivalent that works in C.
    target_compile_definitions(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:__SANITIZE_ADDRESS__=1>)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
endfunction()

# `tests_headers`: the precompiled header of tests, with GoogleTest and common headers of the standard library.
function(yoke_add_test_headers)
  find_package(GTest REQUIRED)
  # An executable, because the flags must equal those of the tests.
  yoke_add_headers(tests_headers EXECUTABLE HEADERS gmock/gmock.h gtest/gtest.h ${YOKE_COMMON_HEADERS} filesystem)
  yoke_configure_test(tests_headers)
endfunction()

# yoke_join_sources(<target>): compiles the sources *_test.cpp of the target's folder in groups of about 60 KB, because
# most of the time goes to headers and templates that they share. All of their code is in anonymous namespaces.
function(yoke_join_sources target)
  get_target_property(sources ${target} SOURCES)
  set(others "")  # sources that stay alone, and groups
  set(group "")
  set(bytes 0)
  set(count 0)
  foreach(source IN LISTS sources ITEMS "")
    if(source)
      if(NOT source MATCHES "^[a-z_0-9][a-z_0-9/]*_test\\.cpp$")
        list(APPEND others ${source})
        continue()
      endif()
      file(SIZE ${CMAKE_CURRENT_SOURCE_DIR}/${source} size)
      math(EXPR bytes "${bytes} + ${size}")
      list(APPEND group ${source})
      cmake_path(GET source PARENT_PATH folder)
      target_include_directories(${target} BEFORE PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
    endif()
    if(group AND (NOT source OR bytes GREATER 60000))
      list(LENGTH group length)
      if(length EQUAL 1)
        list(APPEND others ${group})
      else()
        list(JOIN group "," joined)
        set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_${count}.cpp)
        set_property(SOURCE ${output} PROPERTY GENERATED TRUE)
        list(TRANSFORM group PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE depends)
        add_custom_command(OUTPUT ${output} DEPENDS ${depends} ${PROJECT_SOURCE_DIR}/cmake/JoinSources.cmake VERBATIM
          COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DBASE=${CMAKE_CURRENT_SOURCE_DIR} -DSOURCES=${joined}
            -P ${PROJECT_SOURCE_DIR}/cmake/JoinSources.cmake)
        list(APPEND others ${output})
        math(EXPR count "${count} + 1")
      endif()
      set(group "")
      set(bytes 0)
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${others}")
endfunction()

# yoke_add_test(<name> SOURCES ... LIBS ... LABELS ... [TIMEOUT s] [ENVIRONMENT ...] [SEPARATE] [SWEEPS pattern...]): adds
# a GoogleTest program; ctest runs each of its tests in its own process. With a sanitizer and without SEPARATE, four
# processes run a quarter of the tests each. Sanitizers leave out the tests that match SWEEPS: those that repeat other
# tests with many settings, or take long.
function(yoke_add_test name)
  cmake_parse_arguments(arg "SEPARATE" "TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT;SWEEPS" ${ARGN})
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${arg_SOURCES})
  yoke_configure_test(${name})
  target_precompile_headers(${name} REUSE_FROM tests_headers)
  target_link_libraries(${name} PRIVATE ${arg_LIBS} yoke_test_paths)
  if(YOKE_UNITY)
    yoke_join_sources(${name})
  endif()
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
  # gtest_discover_tests does not keep lists, so one label holds all words; `ctest -L unit` matches part of a label.
  string(REPLACE ";" "+" label "${arg_LABELS}")
  set(properties LABELS ${label} TIMEOUT ${arg_TIMEOUT})
  if(arg_ENVIRONMENT)
    list(APPEND properties ENVIRONMENT "${arg_ENVIRONMENT}")
  endif()
  if(arg_SEPARATE OR NOT YOKE_SANITIZE)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}. PROPERTIES ${properties})
    return()
  endif()
  set(filter "")
  if(arg_SWEEPS)
    list(JOIN arg_SWEEPS ":" filter)
    set(filter GTEST_FILTER=-${filter})
  endif()
  # With a sanitizer, a process takes longer to start and to end than most tests take.
  foreach(part 0 1 2 3)
    add_test(NAME ${name}.part_${part} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.part_${part} PROPERTIES ${properties} TIMEOUT 1200)
    set_property(TEST ${name}.part_${part} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=4 GTEST_SHARD_INDEX=${part} ${filter})
  endforeach()
endfunction()

# cmake/YokeTargets.cmake: flags for yoke's own targets, and one helper per kind of target.
include(${CMAKE_CURRENT_LIST_DIR}/YokePlugin.cmake)  # yoke_add_backend

# Flags that every target of yoke has; set on targets only, so nothing leaks into what embeds yoke.
function(yoke_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20 c_std_11)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
    # GCC 12 sees an overlap in every `"text" + std::string` (its bug 105651).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>)
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

# `programs`: all that a user runs, without the tests; `plugins`: the backends; `tests_<label>`: what ctest -L <label> needs.
add_custom_target(programs)
add_custom_target(plugins)
add_dependencies(programs plugins)

# yoke_adopt_backend(<name>): a backend of this tree (yoke_add_backend made it): our flags, its place in the build, and installed.
function(yoke_adopt_backend name)
  set(target yoke_backend_${name})
  yoke_configure_target(${target})
  set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/yoke)
  add_dependencies(plugins ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/yoke COMPONENT runtime)
endfunction()

# How tests are compiled. A test's own code runs once, but takes most of the time to compile: little optimization, and of the sanitizers only
# what finds wrong memory and races.
function(yoke_configure_test name)
  yoke_configure_target(${name})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # Behind a precompiled header GCC forgets which of its headers are its own, and warns of what it inlines from them.
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
  if(YOKE_SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
    # GCC's name for it; clang 14 has none that C sees too.
    target_compile_definitions(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:__SANITIZE_ADDRESS__=1>)
  endif()
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
endfunction()

# `tests_headers`: what nearly every test includes, compiled once for all of them: that halves the time that clang takes for a test and saves GCC a
# quarter. -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON does without, as suits ccache better; so a test names what it includes.
function(yoke_add_test_headers)
  find_package(GTest REQUIRED)
  set(headers)
  foreach(header gmock/gmock.h gtest/gtest.h filesystem functional iostream)
    list(APPEND headers $<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>)
  endforeach()
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/tests_headers.cpp CONTENT "")
  # A program, because only programs have the same flags as programs.
  add_executable(tests_headers EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/tests_headers.cpp)
  yoke_configure_test(tests_headers)
  target_precompile_headers(tests_headers PRIVATE ${headers})
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

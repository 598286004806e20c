# What the tests do with this project; it is built and run on PoCL, which is OpenCL on the processor.
find_path(YOKE_OPENCL_HEADERS CL/cl.h)
mark_as_advanced(YOKE_OPENCL_HEADERS)
if(NOT YOKE_OPENCL_HEADERS)
  message(STATUS "no tests of the OpenCL backend: there is no CL/cl.h (Debian: opencl-c-headers)")
  return()
endif()
if(YOKE_SANITIZE)
  return()  # OpenCL drivers bring LLVM, which no sanitizer was built into
endif()

yoke_add_out_of_tree(opencl ${CMAKE_CURRENT_LIST_DIR} -DOPENCL_INCLUDE_DIR=${YOKE_OPENCL_HEADERS})

# Two devices, so that copies between devices are tried: PoCL makes as many of the processor as it is told.
function(yoke_add_opencl_test name timeout)
  add_test(NAME out_of_tree.opencl.${name}
    COMMAND ${CMAKE_COMMAND} -D what=${name} -D commands=${YOKE_INSTALLED_PREFIX}/all/bin -D source=${CMAKE_CURRENT_FUNCTION_LIST_DIR}
      -D work=${YOKE_OUT_OF_TREE_DIR}/opencl -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/try.cmake)
  set_tests_properties(out_of_tree.opencl.${name} PROPERTIES LABELS out_of_tree TIMEOUT ${timeout} SKIP_REGULAR_EXPRESSION "SKIPPED:"
    FIXTURES_REQUIRED "installed_tree;out_of_tree_opencl" ENVIRONMENT "POCL_DEVICES=pthread pthread;POCL_CACHE_DIR=${YOKE_OUT_OF_TREE_DIR}/opencl/cache")
endfunction()

yoke_add_opencl_test(TrainsAsCcDoes 600)
yoke_add_opencl_test(ConformsInAllButPrograms 1200)
yoke_add_opencl_test(ConformsInPrograms 3000)
yoke_add_opencl_test(ConformsInOptimizedPrograms 3000)
yoke_add_opencl_test(SaysWhyThereIsNoDevice 120)

# GNU's compiler builds it above.
find_program(YOKE_CLANG clang++)
mark_as_advanced(YOKE_CLANG)
if(YOKE_CLANG)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  add_test(NAME out_of_tree.opencl.CompilesWithClangWithoutAWarning
    COMMAND ${YOKE_CLANG} -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
      -I ${YOKE_INSTALLED_PREFIX}/plugin/${CMAKE_INSTALL_INCLUDEDIR} -idirafter ${YOKE_OPENCL_HEADERS} ${sources})
  set_tests_properties(out_of_tree.opencl.CompilesWithClangWithoutAWarning PROPERTIES LABELS out_of_tree TIMEOUT 600 FIXTURES_REQUIRED installed_tree)
endif()

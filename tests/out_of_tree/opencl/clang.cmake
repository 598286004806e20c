# tests/out_of_tree/opencl/clang.cmake: run by ctest; compiles `sources` with `compiler`, where warnings are errors. One source per
# call, so that a compiler cache in `launcher` can answer.
file(MAKE_DIRECTORY ${work})
foreach(source ${sources})
  cmake_path(GET source STEM name)
  execute_process(COMMAND ${launcher} ${compiler} -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror
    -I ${include} -idirafter ${headers} -c ${source} -o ${work}/${name}.o COMMAND_ERROR_IS_FATAL ANY)
endforeach()

# Adds the operation `cbrt` to a copy of the sources. With its row in ops.def alone, no file that gives operations a
# meaning compiles; with one case in each, everything does, and a program with cbrt runs. Run by ctest.
set(copied plugin_api/program plugin_api/include plugin_api/sdk plugin_api/conformance plugin_api/examples/opencl
  plugins/cc plugins/codegen runtime/include frontends/tensor)
file(REMOVE_RECURSE ${FOLDER})
foreach(folder ${copied})
  cmake_path(GET folder PARENT_PATH parent)
  file(COPY ${SOURCE}/${folder} DESTINATION ${FOLDER}/${parent})
endforeach()

# Inserts `text` after the line or lines `anchor`, which the file must contain once.
function(insert file anchor text)
  file(READ ${FOLDER}/${file} content)
  string(FIND "${content}" "${anchor}" first)
  string(FIND "${content}" "${anchor}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "${file} must contain once:\n${anchor}")
  endif()
  string(REPLACE "${anchor}" "${anchor}${text}" content "${content}")
  file(WRITE ${FOLDER}/${file} "${content}")
endfunction()

set(flags -std=c++20 -Wall -Werror=switch -DYOKE_CC_ISA=plain)
foreach(folder plugin_api/program/include plugin_api/program/src plugin_api/include plugin_api/sdk/include
    plugin_api/conformance plugin_api/conformance/program runtime/include frontends/tensor/include)
  list(APPEND flags -I${FOLDER}/${folder})
endforeach()

# Fails unless compiling the file succeeds (`expected` is TRUE) or fails because of the new operation.
function(compile file expected)
  execute_process(COMMAND ${COMPILER} ${flags} -fsyntax-only ${FOLDER}/${file}
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(expected AND NOT code EQUAL 0)
    message(FATAL_ERROR "${file} does not compile with the operation:\n${text}")
  elseif(NOT expected AND (code EQUAL 0 OR NOT text MATCHES "Cbrt"))
    message(FATAL_ERROR "${file} compiles without a case for the new operation, or fails for another reason:\n${text}")
  endif()
endfunction()

# The row.
insert(plugin_api/program/include/yoke/program/ops.def
  "YOKE_OP(Sqrt,         sqrt,        \"sqrt\",        1, kCall,  kFloats,   kSame, kFunction,   0, 0, 4,  3,  1)\n"
  "YOKE_OP(Cbrt, cbrt, \"cbrt\", 1, kCall, kFloats, kSame, kFunction, 0, 0, 16, 4, 4)\n")
set(meanings
  plugin_api/program/src/scalar.cpp             # evaluation
  frontends/tensor/src/derivatives.cpp          # derivative
  plugins/cc/tile/kernels_map.cpp               # cc's kernel
  plugins/codegen/expression.cpp                # kernels of cuda and hip
  plugin_api/examples/opencl/expression.cpp     # OpenCL's kernel
  plugin_api/conformance/program/bound.cpp)     # its range, for the conformance kit
foreach(file ${meanings})
  compile(${file} FALSE)
endforeach()

# Its meaning.
insert(plugin_api/program/src/scalar.cpp "      return number(std::sqrt(x));\n"
  "    case Op::kCbrt:\n      return number(std::cbrt(x));\n")
insert(frontends/tensor/src/derivatives.cpp "      return rules({[&] { return dy * 0.5 / y; }});\n"
  "    case Op::kCbrt:\n      return rules({[&] { return dy / (y * y * 3); }});\n")
insert(plugins/cc/tile/operations.h "YOKE_CC_FUNCTION(Sqrt, __builtin_sqrtf(x), __builtin_sqrt(x))\n"
  "YOKE_CC_FUNCTION(Cbrt, ::cbrtf(x), ::cbrt(x))\n")
# Twice in each file: it is a function of floats, and none of integers.
foreach(file plugin_api/examples/opencl/expression.cpp plugins/codegen/expression.cpp)
  file(READ ${FOLDER}/${file} content)
  string(REPLACE "    case Op::kErf:\n" "    case Op::kErf:\n    case Op::kCbrt:\n" content "${content}")
  file(WRITE ${FOLDER}/${file} "${content}")
endforeach()
insert(plugin_api/conformance/program/bound.cpp "    case Op::kSign:\n    case Op::kFloor:\n"
  "    case Op::kCbrt:\n")
foreach(file ${meanings})
  compile(${file} TRUE)
endforeach()

# It runs.
file(WRITE ${FOLDER}/main.cpp [[
#include <yoke/program/execute.h>
#include <yoke/program/text.h>

#include <array>
#include <vector>

#include "generator.h"

int main() {
  using namespace yoke::program;
  const std::string text =
      "yoke.program 1\nprogram p() {\n  arg x : f32[2] in\n  arg y : f32[2] out\n  y[i] = cbrt(x[i])\n}\n";
  const Module module = parse_and_verify(text);
  std::vector<float> x = {27, -8};
  std::vector<float> y(2);
  const std::array<void*, 2> arguments = {x.data(), y.data()};
  execute(module.programs[0], arguments, {});
  bool is_generated = false;
  for (std::uint64_t i = 0; i < 1000 && !is_generated; ++i) {
    is_generated = print(yoke::conformance::generate_case(1, i, {}).program).find("cbrt(") != std::string::npos;
  }
  return print(module) == text && y[0] == 3 && y[1] == -2 && is_generated ? 0 : 1;
}
]])
file(GLOB sources ${FOLDER}/plugin_api/program/src/*.cpp ${FOLDER}/plugin_api/conformance/program/generator*.cpp
  ${FOLDER}/plugin_api/conformance/program/case.cpp ${FOLDER}/plugin_api/conformance/program/edit.cpp
  ${FOLDER}/plugin_api/conformance/program/borders.cpp ${FOLDER}/plugin_api/conformance/program/error_units.cpp)
list(TRANSFORM sources REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
file(WRITE ${FOLDER}/all.cpp ${includes})
execute_process(COMMAND ${COMPILER} ${flags} -O0 ${FOLDER}/main.cpp ${FOLDER}/all.cpp -o ${FOLDER}/main
  RESULT_VARIABLE code ERROR_VARIABLE text)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "building a program with the operation failed:\n${text}")
endif()
execute_process(COMMAND ${FOLDER}/main RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "cbrt is not parsed, printed, evaluated or generated")
endif()
file(REMOVE_RECURSE ${FOLDER})

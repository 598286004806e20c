// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/compiler/options.cpp: see options.h.
#include "options.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "settings.h"
#include "vendor.h"

namespace fake_gpu {
namespace {

bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

// Returns the value of an option that has one of these names.
bool take(const std::string& word, std::initializer_list<std::string_view> names, std::string& value) {
  for (const std::string_view name : names) {
    if (starts_with(word, name)) {
      value = word.substr(name.size());
      return true;
    }
  }
  return false;
}

Options read_nvrtc(const std::vector<std::string>& words) {
  static constexpr std::array kPlain = {"--std=",
                                        "-std=",
                                        "--ptxas-options=",
                                        "--maxrregcount=",
                                        "--extra-device-vectorization",
                                        "--restrict",
                                        "-restrict",
                                        "--generate-line-info",
                                        "-lineinfo",
                                        "--ftz=",
                                        "--prec-div=",
                                        "--prec-sqrt=",
                                        "-D",
                                        "--define-macro=",
                                        "-w",
                                        "--device-as-default-execution-space",
                                        "-default-device",
                                        "--dopt=",
                                        "--disable-warnings"};
  Options result;
  result.architecture = "sm_75";  // the default of NVRTC 13
  bool fused = true;
  for (const std::string& word : words) {
    std::string value;
    if (take(word, {"--gpu-architecture=", "-arch="}, value)) {
      const bool is_virtual = starts_with(value, "compute_");
      std::string number = value.substr(std::min(value.size(), value.find('_') + 1));
      if (!number.empty() && (number.back() == 'a' || number.back() == 'f') && number != "75") {
        result.is_specific = number.back() == 'a';
        number.pop_back();
      }
      if ((!is_virtual && !starts_with(value, "sm_")) ||
          std::none_of(kCapabilities.begin(), kCapabilities.end(),
                       [&](int known) { return std::to_string(known) == number; })) {
        return {kInvalidOption, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n", ""};
      }
      result.architecture = "sm_" + number;
      result.is_virtual = is_virtual;
    } else if (take(word, {"--fmad=", "-fmad="}, value)) {
      fused = value != "false";
    } else if (std::none_of(kPlain.begin(), kPlain.end(),
                            [&](const char* known) { return starts_with(word, known); })) {
      return {kInvalidOption, "nvrtc: error: unrecognized option '" + word + "' found\n", ""};
    }
  }
  if (fused) {
    complain("kernels are compiled without --fmad=false, so the real compiler would change results");
  }
  return result;
}

Options read_hiprtc(const std::vector<std::string>& words) {
  // The architectures that ROCm 5.2 knows; the real library ends the process for others.
  static constexpr std::array kKnown = {
      "gfx600",  "gfx601",  "gfx602",  "gfx700",  "gfx701",  "gfx702",  "gfx703",  "gfx704",  "gfx705",
      "gfx801",  "gfx802",  "gfx803",  "gfx805",  "gfx810",  "gfx900",  "gfx902",  "gfx904",  "gfx906",
      "gfx908",  "gfx909",  "gfx90a",  "gfx90c",  "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030",
      "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"};
  Options result;
  bool fused = true;
  for (const std::string& word : words) {
    std::string value;
    if (take(word, {"--offload-arch=", "--gpu-architecture="}, value)) {
      const std::string name = value.substr(0, value.find(':'));
      if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end()) {
        complain("hiprtcCompileProgram for " + value + " would end the process in ROCm 5.2");
        return {kCompilationFailed, "", ""};
      }
      result.architecture = name;
    } else if (take(word, {"-ffp-contract="}, value)) {
      fused = value != "off";
    } else if (!starts_with(word, "-O") && !starts_with(word, "-std=") && !starts_with(word, "--std=") &&
               !starts_with(word, "-D") && !starts_with(word, "-f") && !starts_with(word, "-W") &&
               word != "-w") {
      return {kCompilationFailed, "error: unknown argument: '" + word + "'\n", ""};
    }
  }
  if (result.architecture.empty()) {
    return {kCompilationFailed, "", ""};
  }
  if (fused) {
    complain("kernels are compiled without -ffp-contract=off, so the real compiler would change results");
  }
  return result;
}

}  // namespace

Options read_options(const std::vector<std::string>& words) {
  return kHip ? read_hiprtc(words) : read_nvrtc(words);
}

}  // namespace fake_gpu

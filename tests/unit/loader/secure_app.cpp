// SPDX-License-Identifier: Apache-2.0
// tests/unit/loader/secure_app.cpp: prints whether it runs under AT_SECURE, and the backends that it finds.
#include <sys/auxv.h>
#include <yoke/runtime/runtime.h>

#include <exception>
#include <iostream>

int main(int argc, char** argv) {
  try {
    std::cout << "secure=" << (getauxval(AT_SECURE) != 0) << '\n';
    yoke::RuntimeOptions options;
    if (argc > 1) {
      options.plugin_dirs = {argv[1]};
    }
    const yoke::Runtime runtime(options);
    for (const auto& report : runtime.list_backends()) {
      std::cout << report.name << " usable=" << report.usable << " " << report.verdict << '\n';
    }
    return 0;
  } catch (const std::exception& error) {
    std::cout << "error=" << error.what() << '\n';
    return 1;
  }
}

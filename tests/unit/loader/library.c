/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/loader/library.c: a library that a plugin brings along; it tells the test that it was mapped. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int loader_test_library(void);
int loader_test_library(void) {
  return 0;
}

__attribute__((constructor)) static void record_loading(void) {
  const char* path = getenv("YOKE_TEST_LOADED");
  if (path != NULL) {
    FILE* file = fopen(path, "a");
    if (file != NULL) {
      fputs(LIBRARY_NAME "\n", file);
      fclose(file);
    }
  }
}

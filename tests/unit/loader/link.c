/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/loader/link.c: plugins with defects that only the linker can make, and libraries that plugins
 * link. CMakeLists.txt chooses one with a macro. */
#include <stdio.h>
#include <stdlib.h>
#include <yoke/plugin.h>

extern YOKE_EXPORT int loader_test_library(void);
extern YOKE_EXPORT void* loader_test_symbol(void);

#if defined(LINK_ENTRY_IS_DATA)
extern YOKE_EXPORT int yoke_plugin_entry;
int yoke_plugin_entry = 1;
#else
extern YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                             yoke_error* error);
#endif

#if defined(LINK_LIBRARY)
int loader_test_library(void) {
  return 0;
}

/* Records that it was loaded, as plugin.cpp does. */
__attribute__((constructor)) static void record_loading(void) {
  const char* path = getenv("YOKE_TEST_LOADED");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file != NULL) {
    fputs(LINK_LIBRARY "\n", file);
    fclose(file);
  }
}
#elif defined(LINK_NO_ENTRY)
void* loader_test_symbol(void) {
  return NULL;
}
#elif defined(LINK_FOREIGN_ENTRY) /* the entry comes from a library */
void* loader_test_symbol(void) {
  return (void*)(uintptr_t)yoke_plugin_entry;
}
#elif !defined(LINK_ENTRY_IS_DATA)
int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  (void)args;
  (void)out_plugin;
  (void)error;
#if defined(LINK_CALLS_LIBRARY)
  return loader_test_library();
#else
  return YOKE_STATUS_UNAVAILABLE;
#endif
}
#endif

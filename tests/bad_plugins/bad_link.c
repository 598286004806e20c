/* SPDX-License-Identifier: Apache-2.0 */
/* tests/bad_plugins/bad_link.c: what only the linker can make wrong; one compile definition each. */
#include <yoke/plugin.h>

YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error);

#if defined(BAD_NO_ENTRY)
YOKE_EXPORT int bad_something_else(void);
YOKE_EXPORT int bad_something_else(void) {
  return 1;
}
#elif defined(BAD_ENTRY_OF_DEPENDENCY)
/* The entry comes from a library that this one links. */
YOKE_EXPORT void* bad_uses_entry(void);
YOKE_EXPORT void* bad_uses_entry(void) {
  return (void*)(uintptr_t)yoke_plugin_entry;
}
#else
extern int bad_dependency(void);
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error) {
  (void)args;
  (void)out_plugin;
  (void)error;
#if defined(BAD_CALLS_NOBODY)
  return bad_dependency();
#else
  return YOKE_UNAVAILABLE;
#endif
}
#endif

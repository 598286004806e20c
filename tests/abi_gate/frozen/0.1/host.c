/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi_gate/frozen/0.1/host.c: PLUGIN.so [computes]: an application as somebody wrote it for ABI 0.1. Every struct that it
 * hands out ends at a page that nobody may touch: a plugin that reads or writes past struct_size dies here. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <yoke/backend.h>

struct yoke_error {
  int32_t code;
  char text[256];
};

static int log_count;

static void* at_the_edge(const void* from, size_t byte_count) {
  const size_t page = 4096;
  char* pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) return NULL;
  return memcpy(pages + page - byte_count, from, byte_count);
}

static void take_log(void* self, int32_t level, const char* text, uint64_t length) {
  (void)self;
  ++log_count;
  printf("log %d %.*s\n", (int)level, (int)length, text);
}
static void take_error(yoke_error* error, int32_t code, int64_t vendor_code, const char* text, uint64_t length) {
  (void)vendor_code;
  if (error == NULL) return;
  error->code = code;
  snprintf(error->text, sizeof error->text, "%.*s", (int)length, text);
}
static void trace_begin(void* self, const char* name) {
  (void)self, (void)name;
}
static void trace_end(void* self) {
  (void)self;
}

#define NEED(condition) \
  do { if (!(condition)) return printf("line %d: %s; %s\n", __LINE__, #condition, error.text), 1; } while (0)
#define CALL(call) NEED((call) == YOKE_OK)

static const char program[] =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2\n}\n";

static int compute(const yoke_backend_api* api, const yoke_program_api* programs, yoke_device* device, int computes) {
  static yoke_error error;
  const float in[4] = {1, 2, 3, 4};
  float out[4] = {0, 0, 0, 0};
  yoke_buffer *x = NULL, *y = NULL, *work = NULL;
  yoke_code* code = NULL;
  yoke_routine* routine = NULL;
  const yoke_program_text text = {sizeof text, YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0, program, sizeof program - 1};
  const yoke_entry_info blank_entry = {.struct_size = sizeof blank_entry};
  const yoke_argument_info blank_argument = {.struct_size = sizeof blank_argument};
  const yoke_verdict blank_verdict = {.struct_size = sizeof blank_verdict};
  yoke_entry_info* entry = at_the_edge(&blank_entry, sizeof blank_entry);
  yoke_argument_info* argument = at_the_edge(&blank_argument, sizeof blank_argument);
  yoke_verdict* verdict = at_the_edge(&blank_verdict, sizeof blank_verdict);
  uint32_t count = 0;
  yoke_binding* bindings;

  CALL(programs->can_compile(device, at_the_edge(&text, sizeof text), 1, verdict, &count, &error));
  NEED(count == 1 && verdict->verdict != YOKE_VERDICT_UNSUPPORTED);
  CALL(programs->code_compile(device, at_the_edge(&text, sizeof text), &code, &error));
  CALL(programs->code_entry_count(code, &count, &error));
  CALL(programs->code_describe(code, 0, entry, &error));
  NEED(count == 1 && entry->argument_count == 2 && strcmp(entry->name, "twice") == 0);
  CALL(programs->code_argument(code, 0, 1, argument, &error));
  NEED(argument->byte_count == sizeof out && argument->access == YOKE_ACCESS_OUT && argument->struct_size == sizeof *argument);
  CALL(api->buffer_create(device, sizeof in, YOKE_MEMORY_DEVICE, &x, &error));
  CALL(api->buffer_create(device, sizeof out, YOKE_MEMORY_DEVICE, &y, &error));
  CALL(api->buffer_create(device, entry->workspace_byte_count, YOKE_MEMORY_DEVICE, &work, &error));
  bindings = at_the_edge((const yoke_binding[2]){{x, 0}, {y, 0}}, 2 * sizeof *bindings);
  CALL(api->from_host(NULL, x, 0, in, sizeof in, NULL, &error));
  CALL(programs->routine_link(code, 0, bindings, 2, work, 0, &routine, &error));
  CALL(programs->routine_launch(NULL, routine, NULL, 0, &error));
  CALL(api->to_host(NULL, y, 0, out, sizeof out, &error));
  printf("y = %g %g %g %g\n", (double)out[0], (double)out[1], (double)out[2], (double)out[3]);
  NEED(!computes || (out[0] == 2 && out[1] == 4 && out[2] == 6 && out[3] == 8));
  programs->routine_destroy(routine);
  programs->code_destroy(code);
  api->buffer_destroy(work), api->buffer_destroy(y), api->buffer_destroy(x);
  return 0;
}

int main(int argc, char** argv) {
  static yoke_error error;
  const yoke_host_api services = {sizeof services, NULL, take_log, take_error, trace_begin, trace_end};
  yoke_entry_args args = {sizeof args, YOKE_ABI_MAJOR, 0, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, NULL};
  const yoke_device_info blank_info = {.struct_size = sizeof blank_info};
  const yoke_live_counts blank_live = {.struct_size = sizeof blank_live};
  yoke_device_info* info = at_the_edge(&blank_info, sizeof blank_info);
  yoke_live_counts* live = at_the_edge(&blank_live, sizeof blank_live);
  yoke_plugin_entry_fn entry = NULL;
  yoke_plugin* plugin = NULL;
  yoke_device* device = NULL;
  const yoke_backend_api* api;
  const yoke_program_api* programs;
  void* file = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (file == NULL) return printf("usage: host PLUGIN.so [computes]; %s\n", argc > 1 ? dlerror() : "no file"), 2;
  *(void**)&entry = dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL);
  NEED(entry != NULL && info != NULL && live != NULL);

  args.host = at_the_edge(&services, sizeof services);
  CALL(entry(at_the_edge(&args, sizeof args), &plugin, &error));
  NEED(plugin->magic == YOKE_PLUGIN_MAGIC && plugin->prefix_size >= sizeof *plugin);
  NEED(plugin->abi_major == YOKE_ABI_MAJOR && plugin->abi_minor <= YOKE_ABI_MINOR);
  api = plugin->get_table(plugin, YOKE_BACKEND_TABLE);
  programs = plugin->get_table(plugin, YOKE_PROGRAM_TABLE);
  NEED(api != NULL && api->struct_size >= sizeof *api);
  NEED(programs != NULL && programs->struct_size >= sizeof *programs);
  CALL(api->device_describe(plugin, 0, info, &error));
  printf("%s %s on %s\n", plugin->backend_name, plugin->plugin_version, info->name);
  NEED(api->device_describe(plugin, 4000000000u, info, &error) == YOKE_OUT_OF_RANGE && error.text[0] != '\0');
  CALL(api->device_open(plugin, 0, NULL, 0, &device, &error));
  if (compute(api, programs, device, argc > 2) != 0) return 1;
  CALL(api->device_close(device, &error));
  CALL(api->live_counts(plugin, live, &error));
  NEED(live->devices + live->buffers + live->codes + live->routines == 0);
  plugin->destroy(plugin);
  return 0;
}

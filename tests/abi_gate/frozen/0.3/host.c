/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi_gate/frozen/0.3/host.c: PLUGIN.so [computes]: an application for ABI 0.3. Every struct that it passes ends
 * at an inaccessible page, so a plugin that reads or writes past its end crashes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <yoke/backend.h>
#include <yoke/ext/memory.h>

struct yoke_error {
  int32_t code;
  char text[256];
};

static void* at_edge(const void* from, size_t byte_count) {
  const size_t page = 4096;
  char* pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) return NULL;
  return memcpy(pages + page - byte_count, from, byte_count);
}
/* A copy of the struct at the end of a page. */
#define EDGE(type, ...) at_edge(&(const type){__VA_ARGS__}, sizeof(type))

static void take_log(void* self, int32_t level, const char* text, uint64_t length) {
  (void)self;
  printf("log %d %.*s\n", (int)level, (int)length, text);
}
static void take_error(yoke_error* error, int32_t code, int64_t vendor_code, const char* text, uint64_t length) {
  (void)vendor_code;
  if (error == NULL) return;
  error->code = code;
  snprintf(error->text, sizeof error->text, "%.*s", (int)length, text);
}
static void* allocate(void* self, uint64_t byte_count, uint64_t alignment) {
  (void)self;
  return aligned_alloc(alignment, (byte_count / alignment + 1) * alignment);
}
static void deallocate(void* self, void* memory) {
  (void)self;
  free(memory);
}
static int callback_count;
static void count_callback(void* user, int32_t status) {
  (void)user;
  callback_count += status == YOKE_STATUS_OK;
}
static int release_count;
static void count_release(void* user) {
  (void)user;
  ++release_count;
}

static yoke_error error;
#define NEED(condition) \
  do { if (!(condition)) return printf("line %d: %s; %s\n", __LINE__, #condition, error.text), 1; } while (0)
#define CALL(call) NEED((call) == YOKE_STATUS_OK)

static const char program[] =
    "yoke.program 1\nprogram twice() {\n  arg x : f32[4] in\n  arg y : f32[4] out\n  y[i] = x[i] * 2\n}\n";

/* Runs `twice` on a stream, or with a NULL stream. */
static int compute(const yoke_backend_api* api, const yoke_stream_api* streams, const yoke_program_api* programs,
                   yoke_device* device, yoke_stream* stream, int computes) {
  const float in[4] = {1, 2, 3, 4};
  float out[4] = {0, 0, 0, 0};
  yoke_buffer *memory = NULL, *work = NULL;
  yoke_code* code = NULL;
  yoke_routine* routine = NULL;
  uint32_t count = 0;
  const yoke_compile_args* text =
      EDGE(yoke_compile_args, .struct_size = sizeof *text, .format = YOKE_PROGRAM_FORMAT, .text = program,
           .byte_count = sizeof program - 1, .version = YOKE_PROGRAM_VERSION);
  yoke_entry_info* entry = EDGE(yoke_entry_info, .struct_size = sizeof *entry);
  yoke_argument_info* argument = EDGE(yoke_argument_info, .struct_size = sizeof *argument);
  yoke_verdict* verdict = EDGE(yoke_verdict, .verdict = 0);

  CALL(programs->can_compile(device, text, 1, sizeof *verdict, verdict, &count, &error));
  NEED(count == 1 && verdict->verdict != YOKE_VERDICT_UNSUPPORTED);
  CALL(programs->code_compile(device, text, &code, &error));
  CALL(programs->code_entry_count(code, &count, &error));
  CALL(programs->code_describe(code, 0, entry, &error));
  NEED(count == 1 && entry->argument_count == 2 && strcmp(entry->name, "twice") == 0);
  CALL(programs->code_argument(code, 0, 1, argument, &error));
  NEED(argument->byte_count == sizeof out && argument->access == YOKE_ACCESS_OUT && argument->alignment >= 4);
  CALL(api->buffer_create(device, EDGE(yoke_buffer_args, .struct_size = sizeof(yoke_buffer_args), .byte_count = 512,
                                       .kind = YOKE_MEMORY_DEVICE), &memory, &error));
  CALL(api->buffer_create(device, EDGE(yoke_buffer_args, .struct_size = sizeof(yoke_buffer_args),
                                       .byte_count = entry->workspace_byte_count, .kind = YOKE_MEMORY_DEVICE),
                          &work, &error));
  const yoke_binding bindings[2] = {{memory, 0, 16, 0}, {memory, 256, 16, 0}};
  CALL(programs->routine_link(
      code, EDGE(yoke_link_args, .struct_size = sizeof(yoke_link_args), .bindings = at_edge(bindings, sizeof bindings),
                 .binding_count = 2, .binding_stride = sizeof bindings[0],
                 .workspace = EDGE(yoke_binding, work, 0, entry->workspace_byte_count, 0)), &routine, &error));
  CALL(api->from_host(stream, memory, 0, in, sizeof in, NULL, &error));
  CALL(programs->routine_launch(stream, routine, NULL, 0, &error));
  CALL(api->to_host(stream, memory, 256, out, sizeof out, &error));
  if (stream != NULL) CALL(streams->stream_wait(stream, UINT64_MAX, &error));
  printf("y = %g %g %g %g\n", (double)out[0], (double)out[1], (double)out[2], (double)out[3]);
  NEED(!computes || (out[0] == 2 && out[1] == 4 && out[2] == 6 && out[3] == 8));
  programs->routine_destroy(routine);
  programs->code_destroy(code);
  api->buffer_destroy(work), api->buffer_destroy(memory);
  return 0;
}

/* Events with timing, a host callback, an abort. */
static int use_streams(const yoke_stream_api* streams, yoke_device* device, yoke_stream* stream) {
  yoke_event *start = NULL, *stop = NULL;
  yoke_stream* other = NULL;
  int32_t state = YOKE_STATE_PENDING;
  uint64_t ns = 0;
  const yoke_event_args* timed = EDGE(yoke_event_args, .struct_size = sizeof *timed, .flags = YOKE_EVENT_TIMING);

  CALL(streams->event_record(stream, timed, &start, &error));
  if (streams->stream_host_callback != NULL) CALL(streams->stream_host_callback(stream, count_callback, NULL, &error));
  CALL(streams->event_record(stream, timed, &stop, &error));
  CALL(streams->event_wait(stop, UINT64_MAX, &error));
  CALL(streams->event_query(stop, &state, &error));
  NEED(state == YOKE_STATE_DONE);
  NEED(streams->stream_host_callback == NULL || callback_count == 1);
  if (streams->event_elapsed != NULL) CALL(streams->event_elapsed(start, stop, &ns, &error));
  CALL(streams->stream_create(device, EDGE(yoke_stream_args, .struct_size = sizeof(yoke_stream_args)), &other, &error));
  CALL(streams->stream_wait_event(other, stop, &error));
  if (streams->stream_abort != NULL) {
    CALL(streams->stream_abort(other, &error));
    NEED(streams->stream_wait(other, UINT64_MAX, &error) == YOKE_STATUS_ABORTED);
    CALL(streams->stream_query(other, &state, &error));
    NEED(state == YOKE_STATE_FAILED);
    CALL(streams->stream_wait(stream, UINT64_MAX, &error));
  }
  streams->event_destroy(start), streams->event_destroy(stop);
  streams->stream_destroy(other);
  return 0;
}

/* Pinned and imported memory. */
static int use_memory(const yoke_backend_api* api, const yoke_memory_api* memory, yoke_device* device) {
  static float ours[64];
  const float in[2] = {5, 6};
  void* pinned = NULL;
  yoke_buffer* imported = NULL;
  CALL(memory->pinned_allocate(
      device, EDGE(yoke_pinned_args, .struct_size = sizeof(yoke_pinned_args), .byte_count = 100), &pinned, &error));
  NEED((uintptr_t)pinned % YOKE_BUFFER_ALIGNMENT == 0);
  memset(pinned, 1, 100);
  memory->pinned_free(device, pinned);
  if (memory->buffer_import == NULL) return 0;
  CALL(memory->buffer_import(device, EDGE(yoke_import_args, .struct_size = sizeof(yoke_import_args),
                                          .address = (uintptr_t)ours, .byte_count = sizeof ours,
                                          .kind = YOKE_MEMORY_HOST, .release = count_release), &imported, &error));
  CALL(api->from_host(NULL, imported, 8, in, sizeof in, NULL, &error));
  NEED(ours[2] == 5 && ours[3] == 6 && release_count == 0);
  api->buffer_destroy(imported);
  NEED(release_count == 1);
  return 0;
}

int main(int argc, char** argv) {
  const yoke_host_api services = {.struct_size = sizeof services, .log = take_log, .error_set = take_error,
                                  .allocate = allocate, .deallocate = deallocate};
  yoke_device_info* info = EDGE(yoke_device_info, .struct_size = sizeof *info);
  yoke_live_counts* live = EDGE(yoke_live_counts, .struct_size = sizeof *live);
  yoke_plugin_entry_fn entry = NULL;
  yoke_plugin* plugin = NULL;
  yoke_device* device = NULL;
  yoke_stream* stream = NULL;
  char reason[YOKE_REASON_CAPACITY];
  uint32_t count = 0;
  void* file = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (file == NULL) return printf("usage: host PLUGIN.so [computes]; %s\n", argc > 1 ? dlerror() : "no file"), 2;
  *(void**)&entry = dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL);
  NEED(entry != NULL && info != NULL && live != NULL);

  CALL(entry(EDGE(yoke_entry_args, .struct_size = sizeof(yoke_entry_args), .min_minor = 3, .max_minor = 3,
                  .host = at_edge(&services, sizeof services)), &plugin, &error));
  NEED(plugin->magic == YOKE_PLUGIN_MAGIC && plugin->prefix_size >= sizeof *plugin);
  NEED(plugin->abi_major == 0 && plugin->abi_minor == 3 && plugin->kind == YOKE_PLUGIN_KIND_BACKEND);
  const yoke_backend_api* api = plugin->get_table(plugin, YOKE_BACKEND_TABLE);
  const yoke_stream_api* streams = plugin->get_table(plugin, YOKE_STREAM_TABLE);
  const yoke_program_api* programs = plugin->get_table(plugin, YOKE_PROGRAM_TABLE);
  const yoke_memory_api* memory = plugin->get_table(plugin, YOKE_MEMORY_TABLE);
  NEED(api != NULL && api->struct_size >= sizeof *api);
  NEED(programs != NULL && programs->struct_size >= sizeof *programs);
  CALL(api->device_count(plugin, &count, reason, sizeof reason, &error));
  NEED(count != 0 && reason[0] == '\0');
  CALL(api->device_describe(plugin, 0, info, &error));
  printf("%s %s on %s\n", plugin->name, plugin->plugin_version, info->name);
  NEED(api->device_describe(plugin, 4000000000u, info, &error) == YOKE_STATUS_OUT_OF_RANGE && error.text[0] != '\0');
  CALL(api->device_open(plugin, EDGE(yoke_device_args, .struct_size = sizeof(yoke_device_args)), &device, &error));
  if (compute(api, streams, programs, device, NULL, argc > 2) != 0) return 1;
  if (streams != NULL) {
    CALL(streams->stream_create(device, EDGE(yoke_stream_args, .struct_size = sizeof(yoke_stream_args)), &stream, &error));
    if (compute(api, streams, programs, device, stream, argc > 2) != 0) return 1;
    if (use_streams(streams, device, stream) != 0) return 1;
    streams->stream_destroy(stream);
  }
  if (memory != NULL && use_memory(api, memory, device) != 0) return 1;
  CALL(api->device_close(device, &error));
  CALL(api->live_counts(plugin, live, &error));
  NEED(live->devices + live->buffers + live->streams + live->events + live->codes + live->routines == 0);
  plugin->destroy(plugin);
  return 0;
}

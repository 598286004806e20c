/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi_gate/frozen/0.1/plugin.c: a backend as somebody wrote it for ABI 0.1: tiers 0 to 2, one program. */
#include <stdlib.h>
#include <string.h>
#include <yoke/backend.h>
#include <yoke/ext/peer.h>

struct yoke_device {
  uint64_t used_bytes, peak_bytes;
  int64_t limit_bytes;
};
struct yoke_buffer {
  struct yoke_device* device;
  uint64_t byte_count;
  int32_t kind;
  char* bytes;
};
struct yoke_stream {
  int unused;
};
struct yoke_event {
  int unused;
};
struct yoke_code {
  int unused;
};
struct yoke_routine {
  const float* in;
  float* out;
};

static const yoke_host_api* host;
static yoke_live_counts live;

static int32_t fail(yoke_error* error, int32_t code, const char* text) {
  host->error_set(error, code, 0, text, strlen(text));
  return code;
}

/* Fills what the caller has room for; its struct_size stays. */
static void give(void* theirs, void* mine, uint64_t byte_count) {
  uint64_t size;
  memcpy(&size, theirs, sizeof size);
  memcpy(mine, &size, sizeof size);
  memcpy(theirs, mine, size < byte_count ? size : byte_count);
}

static int32_t device_count(yoke_plugin* plugin, uint32_t* out_count, yoke_error* error) {
  (void)plugin, (void)error;
  *out_count = 1;
  return YOKE_OK;
}

static int32_t device_describe(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info, yoke_error* error) {
  yoke_device_info mine = {0};
  (void)plugin;
  if (ordinal != 0) return fail(error, YOKE_OUT_OF_RANGE, "there is one device, number 0");
  strcpy(mine.name, "frozen at 0.1");
  strcpy(mine.unique_id, "frozen:0");
  mine.memory_bytes = 1u << 20;
  mine.type_mask = 1u << YOKE_F32;
  mine.kind = YOKE_DEVICE_OTHER;
  mine.compute_unit_count = mine.suggested_stream_count = 1;
  mine.numa_node = -1;
  give(info, &mine, sizeof mine);
  return YOKE_OK;
}

static int32_t device_open(yoke_plugin* plugin, uint32_t ordinal, const yoke_option* options, uint32_t option_count,
                           yoke_device** out_device, yoke_error* error) {
  yoke_device* device;
  (void)plugin;
  if (ordinal != 0) return fail(error, YOKE_OUT_OF_RANGE, "there is one device, number 0");
  device = calloc(1, sizeof *device);
  if (device == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  device->limit_bytes = 1 << 20;
  if (option_count == 1 && strcmp(options->name, "memory_limit") == 0) device->limit_bytes = options->integer;
  ++live.devices;
  *out_device = device;
  return YOKE_OK;
}

static int32_t device_close(yoke_device* device, yoke_error* error) {
  if (device == NULL) return YOKE_OK;
  if (live.buffers + live.streams + live.events + live.codes + live.routines != 0)
    return fail(error, YOKE_FAILED_PRECONDITION, "objects are alive");
  free(device);
  --live.devices;
  return YOKE_OK;
}

static int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) {
  yoke_memory_info mine = {0, device->used_bytes, device->peak_bytes, (uint64_t)device->limit_bytes};
  (void)error;
  give(info, &mine, sizeof mine);
  return YOKE_OK;
}

static int32_t buffer_create(yoke_device* device, uint64_t byte_count, int32_t kind, yoke_buffer** out_buffer,
                             yoke_error* error) {
  yoke_buffer* buffer;
  if (byte_count > (uint64_t)device->limit_bytes - device->used_bytes)
    return fail(error, YOKE_OUT_OF_DEVICE_MEMORY, "the device is full");
  buffer = malloc(sizeof *buffer);
  if (buffer == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  buffer->device = device;
  buffer->byte_count = byte_count;
  buffer->kind = kind;
  buffer->bytes = aligned_alloc(64, (byte_count / 64 + 1) * 64);
  if (buffer->bytes == NULL) return free(buffer), fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  device->used_bytes += byte_count;
  if (device->peak_bytes < device->used_bytes) device->peak_bytes = device->used_bytes;
  ++live.buffers;
  *out_buffer = buffer;
  return YOKE_OK;
}

static void buffer_destroy(yoke_buffer* buffer) {
  if (buffer == NULL) return;
  buffer->device->used_bytes -= buffer->byte_count;
  --live.buffers;
  free(buffer->bytes);
  free(buffer);
}

static int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
  yoke_buffer_info mine = {0, buffer->byte_count, (uint64_t)(uintptr_t)buffer->bytes, buffer->kind, 0};
  (void)error;
  give(info, &mine, sizeof mine);
  return YOKE_OK;
}

static int fits(const yoke_buffer* buffer, uint64_t offset, uint64_t byte_count) {
  return offset <= buffer->byte_count && byte_count <= buffer->byte_count - offset;
}

static int32_t from_host(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                         uint64_t byte_count, int32_t* out_source, yoke_error* error) {
  (void)stream;
  if (!fits(dst, dst_offset, byte_count)) return fail(error, YOKE_OUT_OF_RANGE, "from_host leaves the buffer");
  memcpy(dst->bytes + dst_offset, src, byte_count);
  if (out_source != NULL) *out_source = YOKE_SOURCE_COPIED;
  return YOKE_OK;
}

static int32_t to_host(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst, uint64_t byte_count,
                       yoke_error* error) {
  (void)stream;
  if (!fits(src, src_offset, byte_count)) return fail(error, YOKE_OUT_OF_RANGE, "to_host leaves the buffer");
  memcpy(dst, src->bytes + src_offset, byte_count);
  return YOKE_OK;
}

static int32_t live_counts(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
  yoke_live_counts mine = live;
  (void)plugin, (void)error;
  give(counts, &mine, sizeof mine);
  return YOKE_OK;
}

static int32_t option_specs(yoke_plugin* plugin, uint32_t capacity, yoke_option_spec* specs, uint32_t* out_count,
                            yoke_error* error) {
  yoke_option_spec mine = {0, "memory_limit", "Bytes that buffers may take.", YOKE_OPTION_INTEGER, 0, 1, 1 << 20, 1 << 20,
                           0, 0, 0, NULL, NULL};
  (void)plugin, (void)error;
  if (capacity != 0) give(specs, &mine, sizeof mine);
  *out_count = 1;
  return YOKE_OK;
}

static int32_t stream_create(yoke_device* device, int32_t priority, yoke_stream** out_stream, yoke_error* error) {
  (void)device, (void)priority;
  *out_stream = calloc(1, sizeof **out_stream);
  if (*out_stream == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  ++live.streams;
  return YOKE_OK;
}
static void stream_destroy(yoke_stream* stream) {
  live.streams -= stream != NULL;
  free(stream);
}
static int32_t stream_query(yoke_stream* stream, int32_t* out_done, yoke_error* error) {
  (void)stream, (void)error;
  *out_done = 1;
  return YOKE_OK;
}
static int32_t stream_wait(yoke_stream* stream, uint64_t timeout_ns, yoke_error* error) {
  (void)stream, (void)timeout_ns, (void)error;
  return YOKE_OK;
}
static int32_t event_record(yoke_stream* stream, yoke_event** out_event, yoke_error* error) {
  (void)stream;
  *out_event = calloc(1, sizeof **out_event);
  if (*out_event == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  ++live.events;
  return YOKE_OK;
}
static void event_destroy(yoke_event* event) {
  live.events -= event != NULL;
  free(event);
}
static int32_t event_query(yoke_event* event, int32_t* out_done, yoke_error* error) {
  (void)event, (void)error;
  *out_done = 1;
  return YOKE_OK;
}
static int32_t event_wait(yoke_event* event, uint64_t timeout_ns, yoke_error* error) {
  (void)event, (void)timeout_ns, (void)error;
  return YOKE_OK;
}
static int32_t stream_wait_event(yoke_stream* stream, yoke_event* event, yoke_error* error) {
  (void)stream, (void)event, (void)error;
  return YOKE_OK;
}

/* The one program: `program twice()`, x and y of f32[4], y twice x. */
static int is_twice(const yoke_program_text* text) {
  static const char name[] = "program twice(";
  uint64_t i;
  for (i = 0; i + sizeof name - 1 <= text->byte_count; ++i)
    if (memcmp(text->bytes + i, name, sizeof name - 1) == 0) return 1;
  return 0;
}

static int32_t formats(yoke_plugin* plugin, uint32_t capacity, yoke_format* rows, uint32_t* out_count, yoke_error* error) {
  yoke_format mine = {0, YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0};
  (void)plugin, (void)error;
  if (capacity != 0) give(rows, &mine, sizeof mine);
  *out_count = 1;
  return YOKE_OK;
}
static int32_t can_compile(yoke_device* device, const yoke_program_text* text, uint32_t capacity, yoke_verdict* verdicts,
                           uint32_t* out_count, yoke_error* error) {
  yoke_verdict mine = {0};
  (void)device, (void)error;
  mine.verdict = is_twice(text) ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_UNSUPPORTED;
  strcpy(mine.reason, is_twice(text) ? "" : "only `twice` runs here");
  if (capacity != 0) give(verdicts, &mine, sizeof mine);
  *out_count = 1;
  return YOKE_OK;
}
static int32_t code_compile(yoke_device* device, const yoke_program_text* text, yoke_code** out_code, yoke_error* error) {
  yoke_code* code;
  (void)device;
  if (!is_twice(text)) return fail(error, YOKE_UNIMPLEMENTED, "only `twice` runs here");
  code = calloc(1, sizeof *code);
  if (code == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  ++live.codes;
  *out_code = code;
  return YOKE_OK;
}
static void code_destroy(yoke_code* code) {
  live.codes -= code != NULL;
  free(code);
}
static int32_t code_entry_count(yoke_code* code, uint32_t* out_count, yoke_error* error) {
  (void)code, (void)error;
  *out_count = 1;
  return YOKE_OK;
}
static int32_t code_describe(yoke_code* code, uint32_t entry, yoke_entry_info* info, yoke_error* error) {
  yoke_entry_info mine = {0};
  (void)code;
  if (entry != 0) return fail(error, YOKE_OUT_OF_RANGE, "there is one entry");
  strcpy(mine.name, "twice");
  strcpy(mine.fingerprint, "frozen-twice");
  mine.argument_count = 2;
  mine.deterministic = 1;
  give(info, &mine, sizeof mine);
  return YOKE_OK;
}
static int32_t code_argument(yoke_code* code, uint32_t entry, uint32_t argument, yoke_argument_info* info,
                             yoke_error* error) {
  yoke_argument_info mine = {0};
  (void)code;
  if (entry != 0 || argument > 1) return fail(error, YOKE_OUT_OF_RANGE, "there is one entry with two arguments");
  strcpy(mine.name, argument == 0 ? "x" : "y");
  mine.type = YOKE_F32;
  mine.access = argument == 0 ? YOKE_ACCESS_IN : YOKE_ACCESS_OUT;
  mine.rank = 1;
  mine.dims[0] = 4;
  mine.byte_count = 16;
  give(info, &mine, sizeof mine);
  return YOKE_OK;
}
static int32_t routine_link(yoke_code* code, uint32_t entry, const yoke_binding* bindings, uint32_t binding_count,
                            yoke_buffer* workspace, uint64_t workspace_offset, yoke_routine** out_routine,
                            yoke_error* error) {
  yoke_routine* routine;
  (void)code, (void)entry, (void)workspace, (void)workspace_offset;
  if (binding_count != 2) return fail(error, YOKE_INVALID_ARGUMENT, "two buffers are bound");
  routine = malloc(sizeof *routine);
  if (routine == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  routine->in = (const float*)(void*)(bindings[0].buffer->bytes + bindings[0].offset);
  routine->out = (float*)(void*)(bindings[1].buffer->bytes + bindings[1].offset);
  ++live.routines;
  *out_routine = routine;
  return YOKE_OK;
}
static void routine_destroy(yoke_routine* routine) {
  live.routines -= routine != NULL;
  free(routine);
}
static int32_t routine_launch(yoke_stream* stream, yoke_routine* routine, const int64_t* symbol_values,
                              uint32_t symbol_count, yoke_error* error) {
  int i;
  (void)stream, (void)symbol_values, (void)symbol_count, (void)error;
  for (i = 0; i < 4; ++i) routine->out[i] = 2 * routine->in[i];
  return YOKE_OK;
}

static int32_t peer_access(yoke_device* device, yoke_device* other, int32_t* out_allowed, yoke_error* error) {
  (void)error;
  *out_allowed = device == other;
  return YOKE_OK;
}

static const yoke_backend_api backend_table = {sizeof(yoke_backend_api), device_count, device_describe, device_open,
                                               device_close, device_memory, buffer_create, buffer_destroy,
                                               buffer_describe, from_host, to_host, NULL, NULL, live_counts,
                                               option_specs};
static const yoke_stream_api stream_table = {sizeof(yoke_stream_api), stream_create, stream_destroy, stream_query,
                                             stream_wait, event_record, event_destroy, event_query, event_wait,
                                             stream_wait_event, NULL, NULL, NULL};
static const yoke_program_api program_table = {sizeof(yoke_program_api), formats, can_compile, code_compile, code_destroy,
                                               code_entry_count, code_describe, code_argument, routine_link,
                                               routine_destroy, routine_launch};
static const yoke_peer_api peer_table = {sizeof(yoke_peer_api), peer_access};

static const void* get_table(yoke_plugin* plugin, const char* id) {
  (void)plugin;
  if (strcmp(id, YOKE_BACKEND_TABLE) == 0) return &backend_table;
  if (strcmp(id, YOKE_STREAM_TABLE) == 0) return &stream_table;
  if (strcmp(id, YOKE_PROGRAM_TABLE) == 0) return &program_table;
  return strcmp(id, YOKE_PEER_TABLE) == 0 ? &peer_table : NULL;
}

static void destroy(yoke_plugin* plugin) {
  free(plugin);
}

YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error);
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  yoke_plugin* plugin;
  host = args->host;
  if (args->min_major > YOKE_ABI_MAJOR || args->max_major < YOKE_ABI_MAJOR ||
      (args->min_major == YOKE_ABI_MAJOR && args->min_minor > YOKE_ABI_MINOR))
    return fail(error, YOKE_FAILED_PRECONDITION, "this plugin speaks ABI 0.1");
  plugin = calloc(1, sizeof *plugin);
  if (plugin == NULL) return fail(error, YOKE_RESOURCE_EXHAUSTED, "no memory");
  plugin->magic = YOKE_PLUGIN_MAGIC;
  plugin->prefix_size = sizeof *plugin;
  plugin->abi_major = YOKE_ABI_MAJOR;
  plugin->abi_minor = YOKE_ABI_MINOR;
  plugin->backend_name = "frozen";
  plugin->plugin_version = "0.1.0";
  plugin->vendor = "yoke";
  plugin->destroy = destroy;
  plugin->get_table = get_table;
  *out_plugin = plugin;
  host->log(host->host, YOKE_LOG_DEBUG, "frozen.enter", 12);
  host->trace_begin(host->host, "frozen"), host->trace_end(host->host);
  return YOKE_OK;
}

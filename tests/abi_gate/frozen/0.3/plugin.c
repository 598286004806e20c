/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi_gate/frozen/0.3/plugin.c: a backend for ABI 0.3 with tiers 0 to 2 and "yoke.memory/1". It computes on
 * the calling thread, and runs one program, `twice`. */
#include <stdlib.h>
#include <string.h>
#include <yoke/backend.h>
#include <yoke/ext/memory.h>

struct yoke_device {
  uint64_t used_bytes, peak_bytes, limit_bytes;
};
struct yoke_buffer {
  yoke_device* device;
  uint64_t byte_count;
  int32_t kind;
  char* bytes;
  void (*release)(void* user); /* of imported memory */
  void* user;
};
struct yoke_stream {
  int32_t status;
};
struct yoke_event {
  int32_t status;
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
static char greeting[YOKE_NAME_CAPACITY];

static int32_t fail(yoke_error* error, int32_t code, const char* text) {
  if (host->error_set != NULL) host->error_set(error, code, 0, text, strlen(text));
  return code;
}
/* Writes as much of `ours` as the caller has room for; its struct_size stays. */
static void give(void* theirs, const void* ours, uint64_t byte_count) {
  uint64_t size = *(uint64_t*)theirs;
  memcpy((char*)theirs + 8, (const char*)ours + 8, (size < byte_count ? size : byte_count) - 8);
}
/* Reads as much as the caller gave. `ours` is zero before. */
static void take(void* ours, const void* theirs, uint64_t byte_count) {
  uint64_t size = *(const uint64_t*)theirs;
  memcpy(ours, theirs, size < byte_count ? size : byte_count);
}
static void give_row(uint32_t capacity, uint64_t stride, void* rows, const void* ours, uint64_t byte_count,
                     uint32_t* out_count) {
  if (capacity != 0) memcpy(rows, ours, stride < byte_count ? stride : byte_count);
  *out_count = 1;
}
/* Allocates and counts an object. Returns NULL after setting the error. */
static void* add(size_t byte_count, uint64_t* counter, yoke_error* error) {
  void* object = calloc(1, byte_count);
  if (object == NULL) fail(error, YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  *counter += object != NULL;
  return object;
}
static void drop(void* object, uint64_t* counter) {
  *counter -= object != NULL;
  free(object);
}
static int32_t device_count(yoke_plugin* plugin, uint32_t* out_count, char* out_reason, uint64_t capacity,
                            yoke_error* error) {
  (void)plugin, (void)error;
  if (capacity != 0) out_reason[0] = '\0';
  *out_count = 1;
  return YOKE_STATUS_OK;
}
static int32_t device_describe(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info, yoke_error* error) {
  yoke_device_info ours = {.unique_id = "frozen:0",
                           .memory_bytes = 1u << 20,
                           .type_mask = 1u << YOKE_TYPE_F32,
                           .kind = YOKE_DEVICE_OTHER,
                           .compute_unit_count = 1,
                           .suggested_stream_count = 1,
                           .numa_node = -1};
  (void)plugin;
  if (ordinal != 0) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "the only device is 0");
  strcpy(ours.name, greeting);
  give(info, &ours, sizeof ours);
  return YOKE_STATUS_OK;
}
static int32_t device_open(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                           yoke_error* error) {
  yoke_device_args given = {0};
  (void)plugin;
  take(&given, args, sizeof given);
  if (given.flags != 0) return fail(error, YOKE_STATUS_UNIMPLEMENTED, "unknown flags");
  if (given.ordinal != 0) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "the only device is 0");
  yoke_device* device = add(sizeof *device, &live.devices, error);
  if (device == NULL) return YOKE_STATUS_RESOURCE_EXHAUSTED;
  device->limit_bytes = 1 << 20;
  if (given.option_count != 0 && strcmp(given.options->name, "memory_limit") == 0)
    device->limit_bytes = (uint64_t)given.options->integer;
  *out_device = device;
  return YOKE_STATUS_OK;
}
static int32_t device_close(yoke_device* device, yoke_error* error) {
  if (live.buffers + live.streams + live.events + live.codes + live.routines != 0)
    return fail(error, YOKE_STATUS_FAILED_PRECONDITION, "objects are alive");
  drop(device, &live.devices);
  return YOKE_STATUS_OK;
}
static int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) {
  const yoke_memory_info ours = {
      .used_bytes = device->used_bytes, .peak_bytes = device->peak_bytes, .limit_bytes = device->limit_bytes};
  (void)error;
  give(info, &ours, sizeof ours);
  return YOKE_STATUS_OK;
}
static int32_t add_buffer(const yoke_buffer* filled, yoke_buffer** out_buffer, yoke_error* error) {
  yoke_buffer* buffer = add(sizeof *buffer, &live.buffers, error);
  if (buffer == NULL) return YOKE_STATUS_RESOURCE_EXHAUSTED;
  *buffer = *filled;
  *out_buffer = buffer;
  return YOKE_STATUS_OK;
}
static int32_t buffer_create(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out_buffer,
                             yoke_error* error) {
  yoke_buffer_args given = {0};
  take(&given, args, sizeof given);
  if (given.flags != 0) return fail(error, YOKE_STATUS_UNIMPLEMENTED, "unknown flags");
  if (given.byte_count > device->limit_bytes - device->used_bytes)
    return fail(error, YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "the device is full");
  const yoke_buffer filled = {
      .device = device,
      .byte_count = given.byte_count,
      .kind = given.kind,
      .bytes = aligned_alloc(YOKE_BUFFER_ALIGNMENT, (given.byte_count / YOKE_BUFFER_ALIGNMENT + 1) * YOKE_BUFFER_ALIGNMENT)};
  if (filled.bytes == NULL) return fail(error, YOKE_STATUS_OUT_OF_DEVICE_MEMORY, "out of host memory");
  const int32_t code = add_buffer(&filled, out_buffer, error);
  if (code != YOKE_STATUS_OK) return free(filled.bytes), code;
  device->used_bytes += given.byte_count;
  if (device->peak_bytes < device->used_bytes) device->peak_bytes = device->used_bytes;
  return YOKE_STATUS_OK;
}
static void buffer_destroy(yoke_buffer* buffer) {
  if (buffer == NULL) return;
  if (buffer->kind == YOKE_MEMORY_HOST) {
    if (buffer->release != NULL) buffer->release(buffer->user);
  } else {
    buffer->device->used_bytes -= buffer->byte_count;
    free(buffer->bytes);
  }
  drop(buffer, &live.buffers);
}
static int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
  const yoke_buffer_info ours = {
      .byte_count = buffer->byte_count, .host_address = (uint64_t)(uintptr_t)buffer->bytes, .kind = buffer->kind};
  (void)error;
  give(info, &ours, sizeof ours);
  return YOKE_STATUS_OK;
}
static int fits(const yoke_buffer* buffer, uint64_t offset, uint64_t byte_count) {
  return offset <= buffer->byte_count && byte_count <= buffer->byte_count - offset;
}
static int32_t from_host(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                         uint64_t byte_count, int32_t* out_source, yoke_error* error) {
  if (!fits(dst, dst_offset, byte_count)) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "the range exceeds the buffer");
  if (stream == NULL || stream->status == YOKE_STATUS_OK) memcpy(dst->bytes + dst_offset, src, byte_count);
  if (out_source != NULL) *out_source = YOKE_SOURCE_COPIED;
  return YOKE_STATUS_OK;
}
static int32_t to_host(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst, uint64_t byte_count,
                       yoke_error* error) {
  if (!fits(src, src_offset, byte_count)) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "the range exceeds the buffer");
  if (stream == NULL || stream->status == YOKE_STATUS_OK) memcpy(dst, src->bytes + src_offset, byte_count);
  return YOKE_STATUS_OK;
}
static int32_t live_counts(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
  (void)plugin, (void)error;
  give(counts, &live, sizeof live);
  return YOKE_STATUS_OK;
}
static int32_t option_specs(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_option_spec* specs,
                            uint32_t* out_count, yoke_error* error) {
  static const yoke_option_spec ours[2] = {
      {.name = "memory_limit", .help = "Limit of the buffers' total size in bytes.", .type = YOKE_OPTION_INTEGER,
       .integer_min = 1, .integer_max = 1 << 20, .integer_default = 1 << 20},
      {.name = "greeting", .help = "The name of the device.", .type = YOKE_OPTION_TEXT,
       .scope = YOKE_OPTION_SCOPE_PLUGIN, .text_default = "frozen at 0.3"}};
  (void)plugin, (void)error;
  for (uint32_t i = 0; i < 2 && i < capacity; ++i)
    memcpy((char*)specs + i * stride, &ours[i], stride < sizeof ours[i] ? stride : sizeof ours[i]);
  *out_count = 2;
  return YOKE_STATUS_OK;
}
static int32_t stream_create(yoke_device* device, const yoke_stream_args* args, yoke_stream** out_stream,
                             yoke_error* error) {
  (void)device, (void)args;
  *out_stream = add(sizeof **out_stream, &live.streams, error);
  return *out_stream != NULL ? YOKE_STATUS_OK : YOKE_STATUS_RESOURCE_EXHAUSTED;
}
static void stream_destroy(yoke_stream* stream) {
  drop(stream, &live.streams);
}
static int32_t query(int32_t status, int32_t* out_state) {
  *out_state = status == YOKE_STATUS_OK ? YOKE_STATE_DONE : YOKE_STATE_FAILED;
  return YOKE_STATUS_OK;
}
static int32_t wait_for(int32_t status, yoke_error* error) {
  return status == YOKE_STATUS_OK ? status : fail(error, status, "the stream was aborted");
}
static int32_t stream_query(yoke_stream* stream, int32_t* out_state, yoke_error* error) {
  (void)error;
  return query(stream->status, out_state);
}
static int32_t stream_wait(yoke_stream* stream, uint64_t timeout_ns, yoke_error* error) {
  (void)timeout_ns;
  return wait_for(stream->status, error);
}
static int32_t event_record(yoke_stream* stream, const yoke_event_args* args, yoke_event** out_event,
                            yoke_error* error) {
  (void)args;
  *out_event = add(sizeof **out_event, &live.events, error);
  if (*out_event == NULL) return YOKE_STATUS_RESOURCE_EXHAUSTED;
  (*out_event)->status = stream->status;
  return YOKE_STATUS_OK;
}
static void event_destroy(yoke_event* event) {
  drop(event, &live.events);
}
static int32_t event_query(yoke_event* event, int32_t* out_state, yoke_error* error) {
  (void)error;
  return query(event->status, out_state);
}
static int32_t event_wait(yoke_event* event, uint64_t timeout_ns, yoke_error* error) {
  (void)timeout_ns;
  return wait_for(event->status, error);
}
static int32_t stream_wait_event(yoke_stream* stream, yoke_event* event, yoke_error* error) {
  (void)error;
  if (stream->status == YOKE_STATUS_OK) stream->status = event->status;
  return YOKE_STATUS_OK;
}
static int32_t stream_abort(yoke_stream* stream, yoke_error* error) {
  (void)error;
  if (stream->status == YOKE_STATUS_OK) stream->status = YOKE_STATUS_ABORTED;
  return YOKE_STATUS_OK;
}
/* The one program: `program twice()` with the arguments x and y of f32[4]. */
static int is_twice(const yoke_compile_args* args) {
  static const char name[] = "program twice(";
  for (uint64_t i = 0; i + sizeof name - 1 <= args->byte_count; ++i)
    if (memcmp(args->text + i, name, sizeof name - 1) == 0) return 1;
  return 0;
}
static int32_t formats(yoke_plugin* plugin, uint32_t capacity, uint64_t stride, yoke_format* rows,
                       uint32_t* out_count, yoke_error* error) {
  static const yoke_format ours = {YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0};
  (void)plugin, (void)error;
  give_row(capacity, stride, rows, &ours, sizeof ours, out_count);
  return YOKE_STATUS_OK;
}
static int32_t can_compile(yoke_device* device, const yoke_compile_args* args, uint32_t capacity, uint64_t stride,
                           yoke_verdict* verdicts, uint32_t* out_count, yoke_error* error) {
  static const yoke_verdict native = {.verdict = YOKE_VERDICT_NATIVE};
  static const yoke_verdict unsupported = {.verdict = YOKE_VERDICT_UNSUPPORTED, .reason = "only `twice` is supported"};
  (void)device, (void)error;
  give_row(capacity, stride, verdicts, is_twice(args) ? &native : &unsupported, sizeof native, out_count);
  return YOKE_STATUS_OK;
}
static int32_t code_compile(yoke_device* device, const yoke_compile_args* args, yoke_code** out_code,
                            yoke_error* error) {
  (void)device;
  if (!is_twice(args)) return fail(error, YOKE_STATUS_UNIMPLEMENTED, "only `twice` is supported");
  *out_code = add(sizeof **out_code, &live.codes, error);
  return *out_code != NULL ? YOKE_STATUS_OK : YOKE_STATUS_RESOURCE_EXHAUSTED;
}
static void code_destroy(yoke_code* code) {
  drop(code, &live.codes);
}
static int32_t code_entry_count(yoke_code* code, uint32_t* out_count, yoke_error* error) {
  (void)code, (void)error;
  *out_count = 1;
  return YOKE_STATUS_OK;
}
static int32_t code_describe(yoke_code* code, uint32_t entry, yoke_entry_info* info, yoke_error* error) {
  static const yoke_entry_info ours = {
      .name = "twice", .fingerprint = "frozen-twice", .argument_count = 2, .deterministic = 1};
  (void)code;
  if (entry != 0) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "the only entry is 0");
  give(info, &ours, sizeof ours);
  return YOKE_STATUS_OK;
}
static int32_t code_argument(yoke_code* code, uint32_t entry, uint32_t argument, yoke_argument_info* info,
                             yoke_error* error) {
  yoke_argument_info ours = {.type = YOKE_TYPE_F32, .rank = 1, .alignment = 32, .dims = {4}, .byte_count = 16};
  (void)code;
  if (entry != 0 || argument > 1) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "one entry with two arguments");
  ours.name[0] = argument == 0 ? 'x' : 'y';
  ours.access = argument == 0 ? YOKE_ACCESS_IN : YOKE_ACCESS_OUT;
  give(info, &ours, sizeof ours);
  return YOKE_STATUS_OK;
}
static int32_t routine_link(yoke_code* code, const yoke_link_args* args, yoke_routine** out_routine,
                            yoke_error* error) {
  yoke_link_args given = {0};
  (void)code;
  take(&given, args, sizeof given);
  if (given.binding_count != 2) return fail(error, YOKE_STATUS_INVALID_ARGUMENT, "expected two bindings");
  const yoke_binding* x = given.bindings;
  const yoke_binding* y = (const yoke_binding*)(const void*)((const char*)given.bindings + given.binding_stride);
  if (x->byte_count < 16 || y->byte_count < 16) return fail(error, YOKE_STATUS_OUT_OF_RANGE, "a binding is too small");
  if (((uintptr_t)(x->buffer->bytes + x->offset) | (uintptr_t)(y->buffer->bytes + y->offset)) % 32 != 0)
    return fail(error, YOKE_STATUS_INVALID_ARGUMENT, "a binding is not aligned to 32 bytes");
  yoke_routine* routine = add(sizeof *routine, &live.routines, error);
  if (routine == NULL) return YOKE_STATUS_RESOURCE_EXHAUSTED;
  routine->in = (const float*)(const void*)(x->buffer->bytes + x->offset);
  routine->out = (float*)(void*)(y->buffer->bytes + y->offset);
  *out_routine = routine;
  return YOKE_STATUS_OK;
}
static void routine_destroy(yoke_routine* routine) {
  drop(routine, &live.routines);
}
static int32_t routine_launch(yoke_stream* stream, yoke_routine* routine, const int64_t* symbol_values,
                              uint32_t symbol_count, yoke_error* error) {
  (void)symbol_values, (void)symbol_count, (void)error;
  for (int i = 0; i < 4 && (stream == NULL || stream->status == YOKE_STATUS_OK); ++i)
    routine->out[i] = 2 * routine->in[i];
  return YOKE_STATUS_OK;
}
static int32_t pinned_allocate(yoke_device* device, const yoke_pinned_args* args, void** out_memory,
                               yoke_error* error) {
  (void)device;
  void* memory = host->allocate(host->host, args->byte_count, YOKE_BUFFER_ALIGNMENT);
  if (memory == NULL) return fail(error, YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  *out_memory = memory;
  return YOKE_STATUS_OK;
}
static void pinned_free(yoke_device* device, void* memory) {
  (void)device;
  host->deallocate(host->host, memory);
}
static int32_t buffer_import(yoke_device* device, const yoke_import_args* args, yoke_buffer** out_buffer,
                             yoke_error* error) {
  const yoke_buffer filled = {device, args->byte_count, args->kind, (char*)(uintptr_t)args->address, args->release,
                              args->user};
  if (args->kind != YOKE_MEMORY_HOST) return fail(error, YOKE_STATUS_UNIMPLEMENTED, "unsupported kind of memory");
  return add_buffer(&filled, out_buffer, error);
}
static const void* get_table(yoke_plugin* plugin, const char* id) {
  static const yoke_backend_api backend = {
      .struct_size = sizeof backend, .device_count = device_count, .device_describe = device_describe,
      .device_open = device_open, .device_close = device_close, .device_memory = device_memory,
      .buffer_create = buffer_create, .buffer_destroy = buffer_destroy, .buffer_describe = buffer_describe,
      .from_host = from_host, .to_host = to_host, .live_counts = live_counts, .option_specs = option_specs};
  static const yoke_stream_api stream = {
      .struct_size = sizeof stream, .stream_create = stream_create, .stream_destroy = stream_destroy,
      .stream_query = stream_query, .stream_wait = stream_wait, .event_record = event_record,
      .event_destroy = event_destroy, .event_query = event_query, .event_wait = event_wait,
      .stream_wait_event = stream_wait_event, .stream_abort = stream_abort};
  static const yoke_program_api program = {
      .struct_size = sizeof program, .formats = formats, .can_compile = can_compile, .code_compile = code_compile,
      .code_destroy = code_destroy, .code_entry_count = code_entry_count, .code_describe = code_describe,
      .code_argument = code_argument, .routine_link = routine_link, .routine_destroy = routine_destroy,
      .routine_launch = routine_launch};
  static const yoke_memory_api memory = {.struct_size = sizeof memory, .pinned_allocate = pinned_allocate,
                                         .pinned_free = pinned_free, .buffer_import = buffer_import};
  (void)plugin;
  if (strcmp(id, YOKE_BACKEND_TABLE) == 0) return &backend;
  if (strcmp(id, YOKE_STREAM_TABLE) == 0) return &stream;
  if (strcmp(id, YOKE_PROGRAM_TABLE) == 0) return &program;
  return strcmp(id, YOKE_MEMORY_TABLE) == 0 ? &memory : NULL;
}
static void destroy(yoke_plugin* plugin) {
  free(plugin);
}
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error) {
  yoke_entry_args given = {0};
  take(&given, args, sizeof given);
  host = given.host;
  if (given.min_major != 0 || given.min_minor > 3 || (given.max_major == 0 && given.max_minor < 3))
    return fail(error, YOKE_STATUS_FAILED_PRECONDITION, "this plugin supports ABI 0.3");
  strcpy(greeting, "frozen at 0.3");
  if (given.option_count != 0) {
    if (strcmp(given.options->name, "greeting") != 0 || strlen(given.options->text) >= sizeof greeting)
      return fail(error, YOKE_STATUS_INVALID_ARGUMENT, "unknown option; known options: greeting");
    strcpy(greeting, given.options->text);
  }
  yoke_plugin* plugin = calloc(1, sizeof *plugin);
  if (plugin == NULL) return fail(error, YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  *plugin = (yoke_plugin){.magic = YOKE_PLUGIN_MAGIC, .prefix_size = sizeof *plugin, .abi_major = 0, .abi_minor = 3,
                          .kind = YOKE_PLUGIN_KIND_BACKEND, .name = "frozen", .plugin_version = "0.3.0",
                          .vendor = "yoke", .destroy = destroy, .get_table = get_table};
  *out_plugin = plugin;
  if (host->log != NULL) host->log(host->host, YOKE_LOG_DEBUG, "frozen.enter", 12);
  if (host->trace_begin != NULL && host->trace_end != NULL) {
    host->trace_begin(host->host, "frozen");
    host->trace_end(host->host);
  }
  return YOKE_STATUS_OK;
}

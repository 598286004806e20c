/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest backend: a device, buffers, two copies. To make it yours, replace aligned_alloc and memcpy. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/backend.h>
typedef struct {
  yoke_plugin prefix; /* first: the host knows the plugin by it */
  const yoke_host_api* host;
  atomic_ullong devices, buffers;
  _Atomic pid_t process; /* that opened a device: a forked child may only exec */
} Plugin;
struct yoke_device {
  Plugin* plugin;
  atomic_ullong buffers, used, peak;
};
struct yoke_buffer {
  yoke_device* device;
  uint64_t byte_count;
  int32_t kind;
  char* bytes;
};
static int32_t fail(const Plugin* plugin, yoke_error* error, int32_t code, const char* text) {
  plugin->host->error_set(error, code, 0, text, strlen(text));
  return code;
}
static int32_t check_process(const Plugin* plugin, yoke_error* error) {
  if (plugin->process == 0 || plugin->process == getpid()) return YOKE_OK;
  return fail(plugin, error, YOKE_FAILED_PRECONDITION, "this process was forked; it may only exec");
}
/* Writes what both sides know of a struct. Its first member, struct_size, is the host's and stays. */
static int32_t answer(const Plugin* plugin, yoke_error* error, void* theirs, const void* ours,
                      uint64_t size) {
  const uint64_t known = *(uint64_t*)theirs < size ? *(uint64_t*)theirs : size;
  if (check_process(plugin, error)) return YOKE_FAILED_PRECONDITION;
  if (known > 8) memcpy((char*)theirs + 8, (const char*)ours + 8, known - 8);
  return YOKE_OK;
}
static int32_t device_count(yoke_plugin* plugin, uint32_t* out_count, yoke_error* error) {
  if (check_process((Plugin*)plugin, error)) return YOKE_FAILED_PRECONDITION;
  *out_count = 1;
  return YOKE_OK;
}
static int32_t device_describe(yoke_plugin* self, uint32_t ordinal, yoke_device_info* to, yoke_error* error) {
  static const yoke_device_info ours = {0, "host", "host", 0, 1 << YOKE_F32, YOKE_DEVICE_CPU, 1, 1, 1, -1, 0};
  if (ordinal == 0) return answer((Plugin*)self, error, to, &ours, sizeof ours);
  return fail((Plugin*)self, error, YOKE_OUT_OF_RANGE, "there is device 0 and no other");
}
static int32_t device_open(yoke_plugin* plugin, uint32_t ordinal, const yoke_option* options,
                           uint32_t option_count, yoke_device** out_device, yoke_error* error) {
  Plugin* self = (Plugin*)plugin;
  if (check_process(self, error)) return YOKE_FAILED_PRECONDITION;
  if (ordinal) return fail(self, error, YOKE_OUT_OF_RANGE, "there is device 0 and no other");
  if (options && option_count) return fail(self, error, YOKE_INVALID_ARGUMENT, "there are no options");
  yoke_device* device = calloc(1, sizeof *device);
  if (!device) return fail(self, error, YOKE_RESOURCE_EXHAUSTED, "no host memory for a device");
  device->plugin = self;
  self->process = getpid();
  ++self->devices;
  *out_device = device;
  return YOKE_OK;
}
static int32_t device_close(yoke_device* device, yoke_error* error) {
  if (!device) return YOKE_OK;
  if (check_process(device->plugin, error)) return YOKE_FAILED_PRECONDITION;
  if (device->buffers) return fail(device->plugin, error, YOKE_FAILED_PRECONDITION, "buffers are alive");
  --device->plugin->devices;
  free(device);
  return YOKE_OK;
}
static int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) {
  const yoke_memory_info ours = {0, device->used, device->peak, 0};
  return answer(device->plugin, error, info, &ours, sizeof ours);
}
static int32_t buffer_create(yoke_device* device, uint64_t byte_count, int32_t kind, yoke_buffer** out_buffer,
                             yoke_error* error) {
  if (check_process(device->plugin, error)) return YOKE_FAILED_PRECONDITION;
  if (kind != YOKE_MEMORY_DEVICE && kind != YOKE_MEMORY_UNIFIED) /* one and the same here */
    return fail(device->plugin, error, YOKE_UNIMPLEMENTED, "there is no memory of that kind");
  yoke_buffer* buffer = byte_count > INT64_MAX ? NULL : aligned_alloc(64, 64 + (byte_count + 63) / 64 * 64);
  if (!buffer)
    return fail(device->plugin, error, YOKE_OUT_OF_DEVICE_MEMORY, "the machine has no such memory");
  *buffer = (yoke_buffer){device, byte_count, kind, (char*)buffer + 64};
  unsigned long long used = atomic_fetch_add(&device->used, byte_count) + byte_count, peak = device->peak;
  while (peak < used && !atomic_compare_exchange_weak(&device->peak, &peak, used)) continue;
  ++device->buffers;
  ++device->plugin->buffers;
  *out_buffer = buffer;
  return YOKE_OK;
}
static void buffer_destroy(yoke_buffer* buffer) {
  if (!buffer || check_process(buffer->device->plugin, NULL)) return;
  buffer->device->used -= buffer->byte_count;
  --buffer->device->plugin->buffers;
  --buffer->device->buffers;
  free(buffer);
}
static int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
  const yoke_buffer_info ours = {0, buffer->byte_count, (uintptr_t)buffer->bytes, buffer->kind, 0};
  return answer(buffer->device->plugin, error, info, &ours, sizeof ours);
}
static int32_t check_copy(yoke_buffer* buffer, uint64_t offset, uint64_t byte_count, yoke_error* error) {
  if (check_process(buffer->device->plugin, error)) return YOKE_FAILED_PRECONDITION;
  if (offset <= buffer->byte_count && byte_count <= buffer->byte_count - offset) return YOKE_OK;
  return fail(buffer->device->plugin, error, YOKE_OUT_OF_RANGE, "the copy leaves the buffer");
}
static int32_t from_host(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                         uint64_t byte_count, int32_t* out_source, yoke_error* error) {
  const int32_t code = check_copy(dst, dst_offset, byte_count, error);
  if (!stream && !code && byte_count) memcpy(dst->bytes + dst_offset, src, byte_count);
  if (!code && out_source) *out_source = YOKE_SOURCE_COPIED;
  return code;
}
static int32_t to_host(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst,
                       uint64_t byte_count, yoke_error* error) {
  const int32_t code = check_copy(src, src_offset, byte_count, error);
  if (!stream && !code && byte_count) memcpy(dst, src->bytes + src_offset, byte_count);
  return code;
}
static int32_t live_counts(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
  const yoke_live_counts ours = {0, ((Plugin*)plugin)->devices, ((Plugin*)plugin)->buffers, 0, 0, 0, 0};
  return answer((Plugin*)plugin, error, counts, &ours, sizeof ours);
}
static const void* get_table(yoke_plugin* plugin, const char* id) {
  static const yoke_backend_api table = {sizeof table,  device_count,   device_describe,
                                         device_open,   device_close,   device_memory,
                                         buffer_create, buffer_destroy, buffer_describe,
                                         from_host,     to_host,        NULL,
                                         NULL,          live_counts,    NULL};
  return plugin && !strcmp(id, YOKE_BACKEND_TABLE) ? &table : NULL;
}
static void destroy(yoke_plugin* plugin) {
  free(plugin);
}
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out, yoke_error* error) {
  static const yoke_plugin prefix = {
      YOKE_PLUGIN_MAGIC, sizeof prefix, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, 0,        0, 0,
      "minimal",         "1.0.0",       "me",           destroy,        get_table};
  const Plugin start = {.prefix = prefix, .host = args->host};
  if (args->min_major != YOKE_ABI_MAJOR || args->min_minor > YOKE_ABI_MINOR)
    return fail(&start, error, YOKE_FAILED_PRECONDITION, "'minimal' speaks ABI 0.0 to 0.2, the host others");
  Plugin* self = calloc(1, sizeof *self);
  if (!self) return fail(&start, error, YOKE_RESOURCE_EXHAUSTED, "no host memory for a plugin");
  *self = start;
  if (args->max_major == YOKE_ABI_MAJOR && args->max_minor < YOKE_ABI_MINOR)
    self->prefix.abi_minor = args->max_minor;
  *out = &self->prefix;
  return YOKE_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest backend: a device, buffers, two copies. To start your own, replace aligned_alloc and memcpy. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yoke/backend.h>
typedef struct {
  yoke_plugin prefix; /* must be first: the host sees only this part */
  void (*error_set)(yoke_error*, int32_t, int64_t, const char*, uint64_t);
  atomic_ullong devices, buffers;
  _Atomic pid_t process; /* the process that counted the devices; a forked child may only exec */
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
  if (plugin->error_set) plugin->error_set(error, code, 0, text, strlen(text));
  return code;
}
static int32_t check_process(const Plugin* plugin, yoke_error* error) {
  if (plugin->process == 0 || plugin->process == getpid()) return YOKE_STATUS_OK;
  return fail(plugin, error, YOKE_STATUS_FAILED_PRECONDITION, "a forked process may only exec");
}
/* The first call that concerns a device decides which process may go on. A real driver starts here. */
static int32_t start_driver(Plugin* plugin, yoke_error* error) {
  pid_t none = 0;
  atomic_compare_exchange_strong(&plugin->process, &none, getpid());
  return check_process(plugin, error);
}
/* Reads the members that host and plugin both have. `ours` is zero before, so the others stay 0. */
static void take(void* ours, const void* theirs, uint64_t size) {
  const uint64_t known = *(const uint64_t*)theirs;
  memcpy(ours, theirs, known < size ? known : size);
}
/* Writes the members that host and plugin both have. The first, struct_size, belongs to the host. */
static int32_t answer(const Plugin* plugin, yoke_error* error, void* theirs, const void* ours,
                      uint64_t size) {
  const uint64_t known = *(uint64_t*)theirs < size ? *(uint64_t*)theirs : size;
  if (check_process(plugin, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (known > 8) memcpy((char*)theirs + 8, (const char*)ours + 8, known - 8);
  return YOKE_STATUS_OK;
}
static int32_t device_count(yoke_plugin* plugin, uint32_t* out_count, char* out_reason,
                            uint64_t reason_capacity, yoke_error* error) {
  if (start_driver((Plugin*)plugin, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (reason_capacity) out_reason[0] = '\0'; /* there is a device */
  *out_count = 1;
  return YOKE_STATUS_OK;
}
static int32_t device_describe(yoke_plugin* self, uint32_t ordinal, yoke_device_info* info,
                               yoke_error* error) {
  static const yoke_device_info ours = {.name = "host",
                                        .unique_id = "host",
                                        .type_mask = 1 << YOKE_TYPE_F32,
                                        .kind = YOKE_DEVICE_CPU,
                                        .compute_unit_count = 1,
                                        .suggested_stream_count = 1,
                                        .host_visible = 1,
                                        .numa_node = -1};
  if (start_driver((Plugin*)self, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (ordinal == 0) return answer((Plugin*)self, error, info, &ours, sizeof ours);
  return fail((Plugin*)self, error, YOKE_STATUS_OUT_OF_RANGE, "no such device: the only ordinal is 0");
}
static int32_t device_open(yoke_plugin* plugin, const yoke_device_args* args, yoke_device** out_device,
                           yoke_error* error) {
  Plugin* self = (Plugin*)plugin;
  yoke_device_args given = {0};
  take(&given, args, sizeof given);
  if (start_driver(self, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (given.flags) return fail(self, error, YOKE_STATUS_UNIMPLEMENTED, "device_open: unknown flags");
  if (given.ordinal)
    return fail(self, error, YOKE_STATUS_OUT_OF_RANGE, "no such device: the only ordinal is 0");
  if (given.option_count)
    return fail(self, error, YOKE_STATUS_INVALID_ARGUMENT, "unknown option; the device has no options");
  yoke_device* device = calloc(1, sizeof *device);
  if (!device) return fail(self, error, YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  device->plugin = self;
  ++self->devices;
  *out_device = device;
  return YOKE_STATUS_OK;
}
static int32_t device_close(yoke_device* device, yoke_error* error) {
  char text[80];
  if (!device) return YOKE_STATUS_OK;
  if (check_process(device->plugin, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (device->buffers) {
    snprintf(text, sizeof text, "%llu buffers are alive; destroy them first", device->buffers);
    return fail(device->plugin, error, YOKE_STATUS_FAILED_PRECONDITION, text);
  }
  --device->plugin->devices;
  free(device);
  return YOKE_STATUS_OK;
}
static int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) {
  const yoke_memory_info ours = {.used_bytes = device->used, .peak_bytes = device->peak};
  return answer(device->plugin, error, info, &ours, sizeof ours);
}
static int32_t out_of_memory(const yoke_device* device, uint64_t byte_count, yoke_error* error) {
  char text[120];
  const unsigned long long available =
      (unsigned long long)sysconf(_SC_AVPHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE);
  snprintf(text, sizeof text, "out of memory: %llu bytes requested, %llu used, %llu available",
           (unsigned long long)byte_count, device->used, available);
  return fail(device->plugin, error, YOKE_STATUS_OUT_OF_DEVICE_MEMORY, text);
}
static int32_t buffer_create(yoke_device* device, const yoke_buffer_args* args, yoke_buffer** out_buffer,
                             yoke_error* error) {
  enum { kAlign = YOKE_BUFFER_ALIGNMENT }; /* the buffer's own struct takes the first kAlign bytes */
  yoke_buffer_args given = {0};
  take(&given, args, sizeof given);
  const uint64_t bytes = given.byte_count;
  if (check_process(device->plugin, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (given.flags)
    return fail(device->plugin, error, YOKE_STATUS_UNIMPLEMENTED, "buffer_create: unknown flags");
  if (given.kind != YOKE_MEMORY_DEVICE && given.kind != YOKE_MEMORY_UNIFIED) /* both are host memory */
    return fail(device->plugin, error, YOKE_STATUS_UNIMPLEMENTED, "unsupported kind of memory");
  yoke_buffer* buffer =
      bytes > INT64_MAX ? NULL : aligned_alloc(kAlign, kAlign + (bytes + kAlign - 1) / kAlign * kAlign);
  if (!buffer) return out_of_memory(device, bytes, error);
  *buffer = (yoke_buffer){device, bytes, given.kind, (char*)buffer + kAlign};
  unsigned long long used = atomic_fetch_add(&device->used, bytes) + bytes, peak = device->peak;
  while (peak < used && !atomic_compare_exchange_weak(&device->peak, &peak, used)) continue;
  ++device->buffers;
  ++device->plugin->buffers;
  *out_buffer = buffer;
  return YOKE_STATUS_OK;
}
static void buffer_destroy(yoke_buffer* buffer) {
  if (!buffer || check_process(buffer->device->plugin, NULL)) return;
  buffer->device->used -= buffer->byte_count;
  --buffer->device->plugin->buffers;
  --buffer->device->buffers;
  free(buffer);
}
static int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
  const yoke_buffer_info ours = {
      .byte_count = buffer->byte_count, .host_address = (uintptr_t)buffer->bytes, .kind = buffer->kind};
  return answer(buffer->device->plugin, error, info, &ours, sizeof ours);
}
static int32_t check_copy(yoke_buffer* buffer, uint64_t offset, uint64_t byte_count, yoke_error* error) {
  if (check_process(buffer->device->plugin, error)) return YOKE_STATUS_FAILED_PRECONDITION;
  if (offset <= buffer->byte_count && byte_count <= buffer->byte_count - offset) return YOKE_STATUS_OK;
  return fail(buffer->device->plugin, error, YOKE_STATUS_OUT_OF_RANGE, "the range exceeds the buffer");
}
/* Without "yoke.stream/1", `stream` is always NULL: the copy is done on return. */
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
  const yoke_live_counts ours = {.devices = ((Plugin*)plugin)->devices,
                                 .buffers = ((Plugin*)plugin)->buffers};
  return answer((Plugin*)plugin, error, counts, &ours, sizeof ours);
}
static const void* get_table(yoke_plugin* plugin, const char* id) {
  static const yoke_backend_api table = {.struct_size = sizeof table,
                                         .device_count = device_count,
                                         .device_describe = device_describe,
                                         .device_open = device_open,
                                         .device_close = device_close,
                                         .device_memory = device_memory,
                                         .buffer_create = buffer_create,
                                         .buffer_destroy = buffer_destroy,
                                         .buffer_describe = buffer_describe,
                                         .from_host = from_host,
                                         .to_host = to_host,
                                         .live_counts = live_counts};
  return plugin && !strcmp(id, YOKE_BACKEND_TABLE) ? &table : NULL;
}
static void destroy(yoke_plugin* plugin) {
  free(plugin);
}
static uint64_t version(uint32_t major, uint32_t minor) {
  return (uint64_t)major << 32 | minor;
}
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out, yoke_error* error) {
  const uint64_t oldest = version(YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR);
  const uint64_t newest = version(YOKE_ABI_MAJOR, YOKE_ABI_MINOR);
  yoke_entry_args given = {0};
  take(&given, args, sizeof given);
  Plugin start = {.prefix = {.magic = YOKE_PLUGIN_MAGIC,
                             .prefix_size = sizeof(yoke_plugin),
                             .abi_major = YOKE_ABI_MAJOR,
                             .abi_minor = YOKE_ABI_MINOR,
                             .kind = YOKE_PLUGIN_KIND_BACKEND,
                             .name = "minimal",
                             .plugin_version = "1.0.0",
                             .vendor = "me",
                             .destroy = destroy,
                             .get_table = get_table}};
  if (given.host && given.host->struct_size >= offsetof(yoke_host_api, trace_begin))
    start.error_set = given.host->error_set;
  if (version(given.max_major, given.max_minor) < oldest ||
      version(given.min_major, given.min_minor) > newest) {
    char text[160];
    snprintf(text, sizeof text, "plugin 'minimal' supports ABI %d.%d to %d.%d, the host %u.%u to %u.%u",
             YOKE_ABI_MAJOR, YOKE_ABI_MIN_MINOR, YOKE_ABI_MAJOR, YOKE_ABI_MINOR, given.min_major,
             given.min_minor, given.max_major, given.max_minor);
    return fail(&start, error, YOKE_STATUS_FAILED_PRECONDITION, text);
  }
  if (given.option_count)
    return fail(&start, error, YOKE_STATUS_INVALID_ARGUMENT, "unknown option; the plugin has no options");
  if (version(given.max_major, given.max_minor) < newest) start.prefix.abi_minor = given.max_minor;
  Plugin* self = calloc(1, sizeof *self);
  if (!self) return fail(&start, error, YOKE_STATUS_RESOURCE_EXHAUSTED, "out of host memory");
  *self = start;
  *out = &self->prefix;
  return YOKE_STATUS_OK;
}

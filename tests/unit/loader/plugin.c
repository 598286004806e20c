/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/loader/plugin.c: a whole plugin in C, and one way of being wrong per compile definition (see
 * CMakeLists.txt). */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/backend.h>

#ifndef PLUGIN_NAME
#define PLUGIN_NAME "good"
#endif

struct yoke_device {
  uint64_t live_buffer_count;
};

struct yoke_buffer {
  struct yoke_device* device;
  uint64_t byte_count;
  unsigned char* bytes;
};

/* One plugin object per entry: two runtimes may enter at once. */
struct test_plugin {
  struct yoke_plugin prefix;
  const yoke_host_api* host;
};

static const yoke_host_api* last_host;
/* A plugin whose prefix cannot be trusted is never destroyed: from here the leak checker still sees it. */
static struct test_plugin* last_plugin;

/* Tells the test that the file was mapped, whoever mapped it. */
__attribute__((constructor)) static void record_loading(void) {
  const char* path = getenv("YOKE_TEST_LOADED");
  if (path != NULL) {
    FILE* file = fopen(path, "a");
    if (file != NULL) {
      fputs(PLUGIN_NAME "\n", file);
      fclose(file);
    }
  }
}

static void log_line(const yoke_host_api* host, const char* text) {
  host->log(host->host, YOKE_LOG_INFO, text, strlen(text));
}

static int32_t fail(yoke_error* error, int32_t code, int64_t vendor_code, const char* text) {
  last_host->error_set(error, code, vendor_code, text, strlen(text));
  return code;
}

static int32_t device_count(yoke_plugin* plugin, uint32_t* out_count, yoke_error* error) {
  (void)plugin;
#ifdef PLUGIN_NO_DEVICE
  *out_count = 0;
  return fail(error, YOKE_OK, 0, "no accelerator is plugged in");
#else
  (void)error;
  *out_count = 2;
  return YOKE_OK;
#endif
}

static int32_t device_describe(yoke_plugin* plugin, uint32_t ordinal, yoke_device_info* info,
                               yoke_error* error) {
  (void)plugin;
  if (ordinal >= 2) {
    return fail(error, YOKE_OUT_OF_RANGE, 0, "there are two devices");
  }
  /* The name fills its array: a reader that trusts a closing zero reads on. */
  memset(info->name, 'n', sizeof(info->name));
  strcpy(info->unique_id, ordinal == 0 ? "test:0" : "test:1");
  info->memory_bytes = 1 << 20;
  info->type_mask = 1u << YOKE_F32;
  info->kind = YOKE_DEVICE_CPU;
  return YOKE_OK;
}

static int32_t device_open(yoke_plugin* plugin, uint32_t ordinal, const yoke_option* options,
                           uint32_t option_count, yoke_device** out_device, yoke_error* error) {
  const struct test_plugin* self = (const struct test_plugin*)plugin;
  char line[256] = "test.open";
  uint32_t i;
  (void)ordinal;
  for (i = 0; i < option_count; ++i) {
    const yoke_option* option = &options[i];
    char text[96];
    snprintf(text, sizeof(text), " %s=%lld/%g/%s", option->name, (long long)option->integer, option->number,
             option->text == NULL ? "-" : option->text);
    strncat(line, text, sizeof(line) - strlen(line) - 1);
  }
  log_line(self->host, line);
  *out_device = calloc(1, sizeof(**out_device));
  return *out_device != NULL ? YOKE_OK : fail(error, YOKE_RESOURCE_EXHAUSTED, 0, "out of memory");
}

static int32_t device_close(yoke_device* device, yoke_error* error) {
  if (device != NULL && device->live_buffer_count != 0) {
    return fail(error, YOKE_FAILED_PRECONDITION, 0, "1 buffer is alive");
  }
  free(device);
  return YOKE_OK;
}

static int32_t device_memory(yoke_device* device, yoke_memory_info* info, yoke_error* error) {
  (void)device;
  (void)info;
  return fail(error, 99, -7, "a code that nobody knows");
}

static int32_t buffer_create(yoke_device* device, uint64_t byte_count, int32_t kind, yoke_buffer** out_buffer,
                             yoke_error* error) {
  (void)kind;
#ifdef PLUGIN_EMPTY_RESULTS
  (void)device;
  (void)byte_count;
  (void)error;
  *out_buffer = NULL;
  return YOKE_OK;
#else
  if (byte_count > 1 << 20) {
    return fail(error, YOKE_OUT_OF_DEVICE_MEMORY, 2, "the device has 1 MiB");
  }
  *out_buffer = malloc(sizeof(**out_buffer));
  (*out_buffer)->device = device;
  (*out_buffer)->byte_count = byte_count;
  (*out_buffer)->bytes = aligned_alloc(64, (byte_count / 64 + 1) * 64);
  ++device->live_buffer_count;
  return YOKE_OK;
#endif
}

static void buffer_destroy(yoke_buffer* buffer) {
  if (buffer != NULL) {
    --buffer->device->live_buffer_count;
    free(buffer->bytes);
    free(buffer);
  }
}

static int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error* error) {
  (void)error;
  info->byte_count = buffer->byte_count;
  info->host_address = (uint64_t)(uintptr_t)buffer->bytes;
  info->kind = YOKE_MEMORY_DEVICE;
  return YOKE_OK;
}

static int32_t from_host(yoke_stream* stream, yoke_buffer* dst, uint64_t dst_offset, const void* src,
                         uint64_t byte_count, int32_t* out_source, yoke_error* error) {
  (void)stream;
  (void)error;
  memcpy(dst->bytes + dst_offset, src, byte_count);
  if (out_source != NULL) {
    *out_source = YOKE_SOURCE_COPIED;
  }
  return YOKE_OK;
}

static int32_t to_host(yoke_stream* stream, yoke_buffer* src, uint64_t src_offset, void* dst,
                       uint64_t byte_count, yoke_error* error) {
  (void)stream;
  (void)error;
  memcpy(dst, src->bytes + src_offset, byte_count);
  return YOKE_OK;
}

static int32_t live_counts(yoke_plugin* plugin, yoke_live_counts* counts, yoke_error* error) {
  (void)plugin;
  (void)counts;
  (void)error;
  return YOKE_OK;
}

static int32_t option_specs(yoke_plugin* plugin, uint32_t capacity, yoke_option_spec* specs,
                            uint32_t* out_count, yoke_error* error) {
  static const yoke_option_spec all[] = {
      {sizeof(yoke_option_spec), "threads", "Threads per stream.", YOKE_OPTION_INTEGER, 0, 1, 8, 2, 0, 0, 0,
       NULL, NULL},
      {sizeof(yoke_option_spec), "share", "Part of the memory.", YOKE_OPTION_NUMBER, 0, 0, 0, 0, 0.0, 1.0,
       0.5, NULL, NULL},
      {sizeof(yoke_option_spec), "mode", "How.", YOKE_OPTION_TEXT, 0, 0, 0, 0, 0, 0, 0, "fast", "fast|exact"},
      {sizeof(yoke_option_spec), "pin", "Pin threads.", YOKE_OPTION_FLAG, 0, 0, 1, 0, 0, 0, 0, NULL, NULL}};
  const uint32_t count = sizeof(all) / sizeof(all[0]);
  uint32_t i;
  (void)plugin;
  (void)error;
  for (i = 0; i < count && i < capacity; ++i) {
    specs[i] = all[i];
  }
#ifdef PLUGIN_GROWING_COUNT
  *out_count = capacity + 1;
#else
  *out_count = count;
#endif
  return YOKE_OK;
}

#ifdef PLUGIN_SHORT_TABLE
#define TABLE_SIZE offsetof(yoke_backend_api, option_specs) /* as an older minor would have it */
#else
#define TABLE_SIZE sizeof(yoke_backend_api)
#endif

static const yoke_backend_api backend_table = {.struct_size = TABLE_SIZE,
                                               .device_count = device_count,
                                               .device_describe = device_describe,
#ifndef PLUGIN_MISSING_FUNCTIONS
                                               .device_open = device_open,
                                               .to_host = to_host,
#endif
                                               .device_close = device_close,
                                               .device_memory = device_memory,
                                               .buffer_create = buffer_create,
                                               .buffer_destroy = buffer_destroy,
                                               .buffer_describe = buffer_describe,
                                               .from_host = from_host,
                                               .live_counts = live_counts,
                                               .option_specs = option_specs};

static const yoke_stream_api stream_table = {.struct_size = sizeof(yoke_stream_api)};

static const void* get_table(yoke_plugin* plugin, const char* id) {
  (void)plugin;
#ifdef PLUGIN_NO_TABLE
  return NULL;
#endif
#ifdef PLUGIN_EMPTY_STREAM_TABLE
  if (strcmp(id, YOKE_STREAM_TABLE) == 0) {
    return &stream_table;
  }
#endif
  (void)stream_table;
  return strcmp(id, YOKE_BACKEND_TABLE) == 0 ? &backend_table : NULL;
}

static void destroy(yoke_plugin* plugin) {
  if (plugin != NULL) {
    const struct test_plugin* self = (const struct test_plugin*)plugin;
    log_line(self->host, "test.destroy");
    free(plugin);
  }
}

#ifdef PLUGIN_UNDEFINED_SYMBOL
extern void nobody_defines_this(void);
#endif
#ifdef PLUGIN_FOREIGN_ENTRY
/* The entry comes from a library that this one links. */
extern int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin, yoke_error* error);
YOKE_EXPORT void* plugin_uses_entry(void) {
  return (void*)(uintptr_t)yoke_plugin_entry;
}
#endif

#if defined(PLUGIN_NO_ENTRY) || defined(PLUGIN_FOREIGN_ENTRY)
#define yoke_plugin_entry plugin_hidden_entry
#endif
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error);
YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                      yoke_error* error) {
  struct test_plugin* self = calloc(1, sizeof(*self));
  last_host = args->host;
  last_plugin = self;
#ifdef PLUGIN_UNDEFINED_SYMBOL
  nobody_defines_this();
#endif
#ifdef PLUGIN_REFUSES
  free(self);
  return fail(error, YOKE_FAILED_PRECONDITION, 0, "this plugin speaks ABI 3 only");
#endif
#ifdef PLUGIN_NULL_PLUGIN
  free(self);
  return YOKE_OK;
#endif
  (void)error;
  (void)last_plugin;
  self->prefix.magic = YOKE_PLUGIN_MAGIC;
  self->prefix.prefix_size = sizeof(yoke_plugin);
  self->prefix.abi_major = args->max_major;
  self->prefix.abi_minor = args->max_minor;
  self->prefix.flags = 1ull << 63; /* unknown bits are ignored */
  self->prefix.backend_name = PLUGIN_NAME;
  self->prefix.plugin_version = "1.2.3";
  self->prefix.vendor = "test";
  self->prefix.destroy = destroy;
  self->prefix.get_table = get_table;
#ifdef PLUGIN_WRONG_MAGIC
  self->prefix.magic = 42;
#endif
#ifdef PLUGIN_SHORT_PREFIX
  self->prefix.prefix_size = 8;
#endif
#ifdef PLUGIN_NEWER_MAJOR
  self->prefix.abi_major = args->max_major + 1;
#endif
#ifdef PLUGIN_NEWER_MINOR
  self->prefix.abi_minor = args->max_minor + 1;
#endif
#ifdef PLUGIN_SANITIZER
  self->prefix.sanitizer = YOKE_SANITIZER_MEMORY;
#endif
#ifdef PLUGIN_NULL_DESTROY
  self->prefix.destroy = NULL;
#endif
  self->host = args->host;
  log_line(self->host, "test.enter");
  *out_plugin = &self->prefix;
  return YOKE_OK;
}

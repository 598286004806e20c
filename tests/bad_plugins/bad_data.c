/* SPDX-License-Identifier: Apache-2.0 */
/* tests/bad_plugins/bad_data.c: an entry that is no function. */
extern __attribute__((visibility("default"))) int yoke_plugin_entry;
int yoke_plugin_entry = 1;

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/fake_gpu/tests/fault_sweep.py FAKES YOKE VENDOR ERROR [--stride N]: in each run of a short training, one call of one driver function fails: its
# first, its second or its last call. The training must end with an error that names the function, or with the same
# result as without the failure; it must not hang, leak or misuse the driver.
import argparse
import re
import shutil
import sys

import fakes

# Failures of these functions do not end a training: the plugin can do without them.
OPTIONAL = {"capture_begin", "capture_end", "graph_instantiate", "graph_destroy", "graph_executable_destroy", "peer_can_access",
            "peer_enable", "destroy", "version", "memory_free", "host_free", "event_destroy", "stream_destroy", "module_unload",
            "context_release", "device_attribute", "memory_info", "host_unregister", "event_query", "stream_query",
            "architecture_count", "architectures"}
# A kernel computes what the library of matrix products does not.
OPTIONAL |= {"blas_" + name for name in ["destroy", "find", "layout_create", "layout_destroy", "layout_set", "preference_create", "preference_destroy",
                                         "preference_set", "product_create", "product_destroy", "product_set"]}
# Work on a stream fails later, with an error of the device.
ON_STREAMS = {"kernel", "copy", "fill"}
NOT_NAMED = {"host_allocate": "out of memory to pin", "memory_allocate": "out of device memory", "properties": "hipGetDeviceProperties",
             "blas_version": "hipblasLtGetVersion", "copy_peer": "copying between devices", "host_function": ("cuLaunchHostFunc", "hipStreamAddCallback")}
STICKY = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719}


def is_named(output, function, names):
    words = NOT_NAMED.get(function, ())
    words = [words] if isinstance(words, str) else list(words)
    return any(word in output for word in words + [names.get(function, "")] if word)


def fault_of(function, code, nth, status, output, complaints, expected, names):
    if status is None:
        return "the training hangs"
    if status not in (0, 1):
        return f"the training ends with status {status}"
    # Without its context a thread cannot free anything.
    if complaints and function not in ("context_get", "context_set"):
        return "the fake complains: " + complaints.strip()
    if status == 0:
        if fakes.result_of(output) != expected:
            return "the result differs"
        if nth == 1 and function not in OPTIONAL and not is_named(output, function, names):  # a warning is enough
            return "the training does not notice"
        return None
    if code in STICKY and re.search(r"the device is lost|device '.*' was lost", output):
        return None
    if not is_named(output, function, names):
        return "the error does not name the function"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fakes")
    parser.add_argument("yoke")
    parser.add_argument("vendor", choices=["cuda", "hip"])
    parser.add_argument("error", type=int)
    parser.add_argument("--stride", type=int, default=1, help="test only every Nth failure")
    arguments = parser.parse_args()
    driver = fakes.Fakes(arguments.fakes, arguments.yoke, arguments.vendor)
    off = ("--option", "cache=off")
    (status, output, complaints), counts = driver.count_calls(*off)
    expected = fakes.result_of(output)
    if status != 0 or complaints or expected is None:
        sys.exit(f"the training fails without a failure:\n{output}{complaints}")
    is_sticky = arguments.error in STICKY
    failures = [(function, nth) for function, count in sorted(counts.items()) for nth in sorted({1, 2, count})
                if nth <= count and (is_sticky or function not in ON_STREAMS)]
    faults = 0
    for function, nth in failures[::arguments.stride]:
        run = driver.train(*off, FAKE_GPU_FAIL=f"{function}:{nth}:{arguments.error}")
        fault = fault_of(function, arguments.error, nth, *run, expected, driver.names())
        if fault:
            faults += 1
            print(f"{function}, call {nth}, error {arguments.error}: {fault}\n{run[1][-1500:]}", flush=True)
    shutil.rmtree(driver.folder)
    print(f"{len(failures[::arguments.stride])} failures injected, {faults} handled wrongly")
    sys.exit(1 if faults or not failures else 0)


main()

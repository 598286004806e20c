# SPDX-License-Identifier: Apache-2.0
# tests/bench/gpu/programs.py: the programs that run.py runs: packed in a file, and the libraries they open.
"""A packed archive has the layout of a build folder and what the programs need besides glibc and libstdc++."""
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

FILES = ["bin/yoke", "bin/gpu_bench", "bin/yoke-conformance", "lib/libyoke.so.0", "lib/yoke/libyoke_backend_cc.so",
         "lib/yoke/libyoke_backend_cuda.so", "lib/yoke/libyoke_backend_hip.so", "libexec/yoke/yoke-probe",
         "tests/hip_on_cuda/libamdhip64.so.6", "tests/bench/libkernel_times.so"]
# The target has its own: its driver, and what must match its other libraries and be at least as new as here.
OF_THE_TARGET = re.compile(r"lib(cuda|c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so")


def pack(build, archive):
    """Writes the programs of a build folder and their libraries to a file, without symbols for debuggers."""
    build = pathlib.Path(build)
    files = {name: build / name for name in FILES}
    for name in FILES:
        run = subprocess.run(["ldd", build / name], capture_output=True, text=True, check=True)
        for library, path in re.findall(r"^\s*(\S+) => (not found|/\S+)", run.stdout, re.MULTILINE):
            if not OF_THE_TARGET.match(library):
                files.setdefault("lib/" + library, pathlib.Path(path))
    with tempfile.TemporaryDirectory() as folder, tarfile.open(archive, "w:xz", preset=1) as packed:
        for name, source in files.items():
            stripped = pathlib.Path(folder) / source.name
            shutil.copyfile(source, stripped)
            subprocess.run(["strip", "--strip-unneeded", stripped], check=True)
            stripped.chmod(0o755)
            packed.add(stripped, name)


def unpack(archive, folder):
    with tarfile.open(archive) as packed:
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # Python 3.11.4


def pip_folders(pythons):
    """The folders of NVIDIA's libraries among the packages of these Pythons: PyTorch's NVRTC, cublasLt and cuDNN."""
    find = "import glob, sys\nfor path in sys.path: print(*glob.glob(path + '/nvidia/*/lib'), sep='\\n')"
    folders = []
    for python in pythons:
        if python and shutil.which(python):
            run = subprocess.run([python, "-c", find], capture_output=True, text=True, check=False)
            folders += [line for line in run.stdout.splitlines() if line and line not in folders]
    return sorted(folders)


def environment(folder, more_folders):
    """The variables with which the programs of a folder find its libraries, then those of `more_folders`."""
    old = os.environ.get("LD_LIBRARY_PATH")
    return {**os.environ, "LD_LIBRARY_PATH": ":".join([str(folder / "lib"), *more_folders, *([old] if old else [])])}

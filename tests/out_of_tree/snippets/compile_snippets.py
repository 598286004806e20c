#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the code blocks in the guides for authors against the installed headers; a block that does not compile fails the test.

The ```cpp blocks of a file form one translation unit, in order, as do its ```c blocks. Each ```cmake block is configured as a project, with
these units as plugin.cpp and plugin.c, and built; the plugins must pass the conformance kit. After `<!-- snippet in: #include <a> ... HEAD -->`,
a block becomes the body of the function HEAD. Other blocks are ignored.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

FENCE = re.compile(r"(?:<!-- snippet in: (?P<head>.*?) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^[ \t]*```[ \t]*(?:c|cpp|cmake)\b", re.MULTILINE | re.IGNORECASE)
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def located(path, text, match):
    """The code of a block, with a #line directive so that the compiler's messages refer to the guide."""
    line = text.count("\n", 0, match.start("code")) + 1
    head, code = match["head"], match["code"]
    if head is None:
        return f'#line {line} "{path}"\n{code}'
    includes = re.findall(r"#include <[^>]*>", head)
    function = re.sub(r"#include <[^>]*>", "", head).strip()
    return "\n".join(includes) + f'\n{function} {{\n#line {line} "{path}"\n{code}}}\n'


def run(what, command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{what}: {' '.join(map(str, command))}\n{done.stdout}")


def try_guide(path, options, folder):
    text = path.read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    units = {"c": "", "cpp": ""}
    projects = []
    for match in FENCE.finditer(text):
        if match["language"] == "cmake":
            projects.append(match["code"])
        elif match["language"] in units:
            units[match["language"]] += located(path, text, match)
    include = f"-I{options.prefix}/include"
    launcher = [options.launcher] if options.launcher else []
    compilers = {"c": [options.c_compiler, "-std=c11"], "cpp": [options.compiler, "-std=c++20"]}
    for language, code in units.items():
        source = folder / f"plugin.{language}"
        source.write_text(code, encoding="utf-8")
        if code:
            run(f"{path}: the {language} blocks do not compile",
                [*launcher, *compilers[language], *WARNINGS, include, "-c", source, "-o", folder / f"{language}.o"])
    for number, project in enumerate(projects):
        place = folder / f"project{number}"
        place.mkdir(exist_ok=True)
        (place / "CMakeLists.txt").write_text(project, encoding="utf-8")
        for language, code in units.items():
            (place / f"plugin.{language}").write_text(code, encoding="utf-8")
        run(f"{path}: cmake block {number + 1} does not configure",
            [options.cmake, "-G", options.generator, "-S", place, "-B", place / "build", f"-DCMAKE_PREFIX_PATH={options.prefix}",
             f"-DCMAKE_CXX_COMPILER={options.compiler}", f"-DCMAKE_C_COMPILER={options.c_compiler}",
             f"-DCMAKE_CXX_COMPILER_LAUNCHER={options.launcher}", "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF"])
        run(f"{path}: cmake block {number + 1} does not build", [options.cmake, "--build", place / "build"])
        for plugin in place.glob("build/libyoke_backend_*.so") if options.kit else []:
            run(f"{path}: fails the kit", [options.kit, plugin])
    return sum(1 for _ in FENCE.finditer(text) if _["language"] in ("c", "cpp", "cmake")), len(MARK.findall(text))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("prefix", "work", "cmake", "generator", "compiler", "c-compiler"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--launcher", default="", help="of the compilers, such as ccache")
    parser.add_argument("--kit", help="yoke-conformance; without it, the plugins are only built")
    parser.add_argument("guides", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    shutil.rmtree(options.work, ignore_errors=True)
    for number, guide in enumerate(options.guides):
        count, marked = try_guide(guide, options, pathlib.Path(options.work) / str(number))
        if count != marked:
            sys.exit(f"{guide}: {count} of {marked} snippets are well-formed blocks")
        print(f"{guide}: {count} snippets")


main()

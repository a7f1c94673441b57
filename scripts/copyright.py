#!/usr/bin/env python3
"""Writes the copyright file of the packages in Debian's machine-readable format (DEP 5): our own files, and the crates
that are linked into the command and the C library, by cargo's metadata and the licence files in their packages.

Usage: scripts/copyright.py >copyright
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ["clockscope", "fastclock-c"]
# Debian's names of these licences.
NAMES = {"MIT": "Expat", "Apache-2.0 WITH LLVM-exception": "Apache-2.0-with-LLVM-exception"}
# Long texts that every Debian system has.
COMMON = {"Apache-2.0": "Apache-2.0"}
# Phrases that identify a licence's text among the licence files of a crate.
MARKS = {
    "0BSD": "Permission to use, copy, modify, and/or distribute this software",
    "BSD-2-Clause": "Redistributions in binary form must reproduce",
    "BSD-3-Clause": "Neither the name",
    "BSL-1.0": "Boost Software License",
    "CDDL-1.0": "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE",
    "Expat": "Permission is hereby granted, free of charge",
    "Unicode-3.0": "UNICODE LICENSE V3",
    "Zlib": "This software is provided 'as-is'",
    "Apache-2.0-with-LLVM-exception": "LLVM Exceptions",
    "Unlicense": "This is free and unencumbered software",
}


def cargo(*arguments):
    command = [os.environ.get("CARGO", "cargo"), *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked():
    """Name and version of each crate that is linked in, without procedural macros and build scripts."""
    selected = [word for package in SHIPPED for word in ("--package", package)]
    tree = cargo("tree", "--locked", *selected, "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}


def licence_files(folder):
    wanted = re.compile(r"(licen[cs]e|copying|copyright|unlicense|notice)", re.IGNORECASE)
    return [path for path in sorted(folder.iterdir()) if path.is_file() and wanted.match(path.name)]


def words_of(path):
    return path.read_text(encoding="utf-8", errors="replace")


def holders(package, texts):
    """The copyright lines of the licence files; without any, the authors."""
    line = re.compile(r"^\W*(Copyright\s+(?:\(c\)|©|\d{4}).*)$", re.IGNORECASE | re.MULTILINE)
    placeholder = re.compile(r"[\[{<](yyyy|year|name)|Licensor|Free Software Foundation|Sun Microsystems", re.IGNORECASE)
    found = {m.strip() for text in texts for m in line.findall(text) if not placeholder.search(m)}
    found = {re.sub(r"^Copyright\s*(\(c\)|©)?\s*", "", m, flags=re.IGNORECASE).strip() for m in found}
    return sorted(h for h in found if re.search("[A-Za-z]", h)) or package["authors"] or ["the authors of " + package["name"]]


def expression(package):
    text = " ".join((package["license"] or "").replace("/", " OR ").split())
    if not text:
        sys.exit(f"copyright: {package['name']} names no licence in its manifest")
    for name, debian in sorted(NAMES.items(), key=lambda item: -len(item[0])):
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", debian, text)
    # Debian's format has no parentheses; a comma binds less than a word.
    text = text.replace(" OR ", " or ").replace(" AND ", " and ")
    return re.sub(r"\(([^()]*)\) and (.*)", r"\1, and \2", text)


def indented(text):
    return "\n".join(" " + line.rstrip() if line.strip() else " ." for line in text.strip().splitlines())


def stanza(files, copyright_lines, licence, comment=None):
    lines = [f"Files: {files}", "Copyright: " + "\n ".join(copyright_lines), f"License: {licence}"]
    if comment:
        lines.append(f"Comment: {comment}")
    return "\n".join(lines)


def main():
    packages = json.loads(cargo("metadata", "--locked", "--format-version", "1"))["packages"]
    wanted = linked()
    foreign = sorted(
        (p for p in packages if (p["name"], "v" + p["version"]) in wanted and p["source"]),
        key=lambda p: (p["name"], p["version"]),
    )
    if len(foreign) < 20:
        sys.exit(f"copyright: cargo names only {len(foreign)} crates")
    expat = words_of(ROOT / "LICENSE-MIT")
    texts = {"Expat": expat[expat.index("Permission") :]}
    stanzas = []
    used = {"Expat", "Apache-2.0"}
    for package in foreign:
        files = [words_of(path) for path in licence_files(Path(package["manifest_path"]).parent)]
        licence = expression(package)
        stanzas.append(stanza(f"vendor/{package['name']}-{package['version']}/*", holders(package, files), licence))
        for name in re.split(r",? (?:or|and) |[()]", licence):
            name = name.strip()
            if not name:
                continue
            used.add(name)
            mark = MARKS.get(name)
            if name not in texts and mark:
                text = next((text for text in files if mark in " ".join(text.split())), None)
                if text:
                    # For a licence with an exception, Debian has only the licence.
                    texts[name] = text[text.index(mark) :] if "-with-" in name else text
    print("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
    print("Upstream-Name: clockscope")
    print("Comment: The stanzas vendor/NAME-VERSION are the crates that are linked into the binaries, as `cargo vendor\n"
          " --versioned-dirs` unpacks them. Written by scripts/copyright.py.")
    print()
    print(stanza("*", ["2026 The clockscope developers"], "Expat or Apache-2.0"))
    print()
    print(stanza("rust/library/*", ["The Rust Project Developers"], "Expat or Apache-2.0",
                 "Rust's standard library, which the compiler links in."))
    for text in stanzas:
        print()
        print(text)
    for name in sorted(used):
        print()
        print(f"License: {name}")
        if name in COMMON:
            print(f" On Debian systems the text is in /usr/share/common-licenses/{COMMON[name]}.\n"
                  " Elsewhere it is in the file LICENSE-APACHE beside this one.")
        elif name in texts:
            if "-with-" in name:
                common = name.split("-with-")[0]
                print(f" The text of {common}, in /usr/share/common-licenses/{common}, with this exception:\n .")
            print(indented(texts[name]))
        else:
            sys.exit(f"copyright: no crate has the text of {name}")


if __name__ == "__main__":
    main()

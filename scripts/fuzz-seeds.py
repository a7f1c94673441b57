#!/usr/bin/env python3
"""Writes small sound files of one kind, to begin fuzzing from. Usage: fuzz-seeds.py TARGET FOLDER"""
import glob
import json
import lzma
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def files(pattern):
    paths = sorted(glob.glob(os.path.join(ROOT, pattern)))
    if not paths:
        sys.exit(f"fuzz-seeds: there is no {pattern}")
    return {os.path.basename(path): open(path, "rb").read() for path in paths}


def vdso():
    return files("fixtures/vdso/*.so")


def unwind():
    """A stack of 256 bytes, then a file: images with .eh_frame, and one with .debug_frame only."""
    stack = struct.pack("<32Q", *range(0x640, 0x640 + 32 * 0x25, 0x25))
    seeds = {name: stack + image for name, image in vdso().items()}
    source = b"int leaf(int); int one(int a) { return leaf(a) + 1; } int two(int a) { return one(a) * one(a + 1); }\n"
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "debug.so")
        subprocess.run(["cc", "-shared", "-nostdlib", "-fPIC", "-O1", "-g", "-fno-asynchronous-unwind-tables",
                        "-fomit-frame-pointer", "-z", "noseparate-code", "-x", "c", "-", "-o", library],
                       input=source, check=True)
        seeds["debug.so"] = stack + open(library, "rb").read()
    return seeds


def sites():
    """Files of wrappers of system calls: with the number beside it, in a register, behind a switch and a comparison."""
    source = b"""
        .globl one, given, waits, goes
        .type one, @function
        one: mov $39, %eax; syscall; cmp $-4095, %rax; jae 1f; ret; 1: neg %eax; ret
        .size one, . - one
        .type given, @function
        given: mov %rdi, %rax; mov %rsi, %rdi; mov %rdx, %rsi; syscall; ret
        .size given, . - given
        .type waits, @function
        waits: cmpb $0, single(%rip); je 1f; mov $1, %eax; syscall; ret
        1: mov $1, %eax; syscall; ret
        .size waits, . - waits
        .type goes, @function
        goes: cmp $3, %edi; ja 1f; lea table(%rip), %rdx; movslq (%rdx,%rdi,4), %rax; add %rdx, %rax; jmp *%rax
        1: mov $60, %eax; syscall; hlt; 2: mov $96, %eax; syscall; ret
        .size goes, . - goes
        .section .rodata
        table: .long 1b - table, 2b - table, 1b - table, 2b - table
        .bss
        single: .byte 0
    """
    seeds = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, options in [("shared", ["-shared"]), ("static", ["-static", "-Wl,-e,one"])]:
            built = os.path.join(folder, name)
            subprocess.run(["cc", "-nostdlib", "-z", "noseparate-code", *options, "-x", "assembler", "-", "-o", built],
                           input=source, check=True)
            seeds[name] = open(built, "rb").read()
    return seeds


def mini_debug():
    """ELF files of symbol tables alone, packed; without a checksum, damage reaches the file inside."""
    source = b"int one(int a) { return a + 1; } int two(int a) { return one(a) * one(a + 1); }\n"
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "names.so")
        subprocess.run(["cc", "-shared", "-nostdlib", "-O0", "-x", "c", "-", "-o", library], input=source, check=True)
        subprocess.run(["objcopy", "--only-keep-debug", library], check=True)
        file = open(library, "rb").read()
    packed = {"crc32": lzma.CHECK_CRC32, "none": lzma.CHECK_NONE}
    seeds = {name: lzma.compress(file, check=check, preset=1) for name, check in packed.items()}
    seeds["zeros"] = lzma.compress(bytes(1 << 20), preset=1)
    return seeds


def go_table():
    """A table of Go 1.20 and later with two functions at 0x401000 and 0x401040; `Table::read` says where what is."""
    names = b"\0main.main\0main.(*queue).post\0"
    steps = b"\x00\x02\x0a\x10\x20\x0f\x20\x00"
    header = 72
    name_at = header
    steps_at = name_at + 32
    index_at = steps_at + 16
    functions = b""
    index = b""
    for number, (entry, name) in enumerate([(0, 1), (0x40, 11)]):
        record = struct.pack("<IiiIIIIiIIBBBB", entry, name, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
        index += struct.pack("<II", entry, 3 * 8 + number * len(record))
        functions += record
    index += struct.pack("<II", 0x80, 0)
    table = struct.pack("<IBBBB8Q", 0xFFFFFFF1, 0, 0, 1, 8, 2, 0, 0x401000, name_at, 0, 0, steps_at, index_at)
    table += names.ljust(32, b"\0") + steps.ljust(16, b"\0") + index + functions
    return {"two-functions": table}


def jitdump():
    def record(kind, words, name=b""):
        body = struct.pack(f"<{len(words)}Q", *words) + name
        return struct.pack("<IIQ", kind, 16 + len(body), 5) + body

    header = struct.pack("<6I", 0x4A695444, 1, 40, 62, 0, 7).ljust(40, b"\0")
    load = record(0, [0, 0x7000, 0x7000, 0x100, 1], b"Main.read\0\x90\x90")
    moves = record(1, [0, 0, 0x7000, 0x8000, 0x80, 1]) + record(1, [0, 0, 0x8000, 0x9000, 0x80, 1])
    return {"load": header + load, "moves": header + load + moves, "closed": header + load + record(3, [])}


def perf_map():
    return {
        "node": b"7000 20 LazyCompile:~read a.js:3\n0x7010 0x8 later\n",
        "odd": b"x 20 a\n7f00 20\n30 1 end",
        "java": b"7000 100 Interpreter\n7100 80 Ljava/lang/Object;::wait\n",
    }


def records():
    """The header of a record and its body, as the kernel writes them with the fields that clockscope asks for."""
    registers = [0xB, 9 << 32 | 40, 0xB9, 0x5000, 0x1365, 0x7F0000000080 + 25, 77, 12, 13, 14, 15]

    def sample(raw):
        body = struct.pack("<QIIQQ", 0xFFFF800000001000, 100, 101, 123456, 6)
        body += struct.pack("<5Q", 4, 2**64 - 512, 0x1365, 0x2001, 0x2002)
        body += struct.pack("<I", len(raw)) + raw
        body += struct.pack("<12Q", 2, *registers)
        return body + struct.pack("<Q", 64) + b"\7" * 64 + struct.pack("<Q", 48)

    ids = struct.pack("<IIQ", 100, 101, 123456)
    mapped = struct.pack("<IIQQQIIQQII", 100, 101, 0x7000, 0x1000, 0, 8, 1, 77, 0, 5, 2)
    bodies = {
        "vdso": (9, sample(b"\0" * 4)),
        "syscall": (9, sample(struct.pack("<8Q", 0, 257, 1, 2, 3, 4, 5, 6) + b"\0" * 4)),
        "mmap": (10, mapped + b"/usr/lib/libc.so.6\0".ljust(24, b"\0") + ids),
        "fork": (7, struct.pack("<IIIIQ", 102, 100, 102, 100, 123456) + ids),
        "lost": (2, struct.pack("<QQ", 1, 5) + ids),
        "throttle": (5, struct.pack("<QQQ", 123456, 1, 1) + ids),
    }
    return {name: struct.pack("<IHH", kind, 2, 8 + len(body)) + body for name, (kind, body) in bodies.items()}


def numbers():
    """A byte of options (column, delimiters, bars), then a file as `compare --ministat` reads it."""
    seeds = {name: b"\0" + text for name, text in files("fixtures/ministat/*.txt").items()}
    seeds["columns"] = b"\x05" + files("fixtures/ministat/*.csv")["c2_cols.csv"]
    return seeds


def compare():
    return files("fixtures/bench/*.json") | files("fixtures/traces/*.json")


def page():
    """The head and both slots in the order that fuzz_targets/page.rs reads: a line that agrees with its machine."""
    second = 10**9

    def slot(base, off=0):
        mono = base // 2 + off
        clocks = [mono, 1_700_000_000 * second + mono, 5 * second + mono, 1_700_000_037 * second + mono]
        mono, real, boot, tai = [[time // second, time % second] for time in clocks]
        return [base, 1 << 40, 0, 1 << 63, *mono, 10, 1 << 30, *real, *boot, *tai, 0, 0, 0, 0, 0, 0]

    def content(head, *slots):
        words = [head] + [word for slot in slots for word in slot]
        return struct.pack(f"<{len(words)}Q", *words)

    now = 1 << 40
    running = content(2, slot(now - 1000), slot(now - 2000))
    ended = slot(now - 1000)
    ended[1], ended[15] = 10_000, 4
    return {
        "running": running,
        "renewed": running + content(3, slot(now - 1000), slot(now - 500, 3)),
        "ended": content(2, ended, ended) + running,
        "dead": running + content(2 | 1 << 62, slot(now - 1000), slot(now - 2000)),
    }


CONTAINER = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708"


def container_state():
    """A byte that chooses the kind, then a file of podman, Docker or an OCI bundle, or a list of control groups."""
    pod = {"io.kubernetes.cri.container-name": "nginx", "io.kubernetes.cri.sandbox-name": "web-0",
           "io.kubernetes.cri.sandbox-namespace": "shop"}
    texts = {
        "podman": (0, json.dumps([{"id": "other", "names": ["db"]}, {"id": CONTAINER, "names": ["web"]}])),
        "crio": (0, json.dumps([{"id": CONTAINER, "names": ["k8s_nginx_web-0_shop_9b7d2f4e-1c3a_0"]}])),
        "docker": (1, json.dumps({"ID": CONTAINER, "Name": "/web"})),
        "bundle": (2, json.dumps({"annotations": pod})),
        "kubelet": (3, f"0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-{CONTAINER}.scope\n"),
        "both": (3, f"2:cpu:/docker/{CONTAINER}\n1:name=systemd:/system.slice/a\\x2db.service\n0::/\n"),
    }
    return {name: bytes([kind]) + text.encode() for name, (kind, text) in texts.items()}


def seccomp():
    """A profile as Docker takes it, and a filter that looks at the architecture and refuses one call."""
    rules = [{"names": ["read", "clock_gettime"], "action": "SCMP_ACT_ALLOW", "args": None},
             {"names": ["gettimeofday"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38,
              "args": [{"index": 0, "value": 1, "op": "SCMP_CMP_EQ"}], "includes": {"arches": ["amd64"]}}]
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "architectures": ["SCMP_ARCH_X86"], "syscalls": rules}
    code = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (0x06, 0, 0, 0x80000000), (0x20, 0, 0, 0),
            (0x15, 0, 1, 228), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]
    filter = b"".join(struct.pack("<HBBI", *one) for one in code)
    return {"profile": json.dumps(profile).encode(), "filter": filter, "twice": filter * 2}


def filter():
    lines = ["clock_gettime,futex", "trace=%file\n!openat", "t=!%clock", "?none_such,all", "clock*", "none", "228"]
    return {f"{number}": line.encode() for number, line in enumerate(lines)}


def main():
    seeds = dict(vdso=vdso, unwind=unwind, go_table=go_table, mini_debug=mini_debug, jitdump=jitdump, perf_map=perf_map, records=records,
                 numbers=numbers, compare=compare, page=page, container_state=container_state, seccomp=seccomp, filter=filter, sites=sites)
    if len(sys.argv) != 3 or sys.argv[1] not in seeds:
        sys.exit("usage: fuzz-seeds.py TARGET FOLDER; targets: " + ", ".join(seeds))
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, content in seeds[sys.argv[1]]().items():
        with open(os.path.join(sys.argv[2], name), "wb") as file:
            file.write(content)


main()

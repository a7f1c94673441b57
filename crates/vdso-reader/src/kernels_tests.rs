//! The images of Debian's kernels, as `make test-kernels` dumped them.

use crate::image::{Class, Image, Machine, Note};

const HASH: i64 = 4;
const GNU_HASH: i64 = 0x6fff_fef5;

/// The expected properties of one kernel's image.
struct Kernel {
    bytes: &'static [u8],
    machine: Machine,
    version: (u32, u32, u32),
    hash_tables: &'static [i64],
    /// Sorted, without their common prefix.
    functions: &'static [&'static str],
}

macro_rules! image {
    ($name:literal) => {
        include_bytes!(concat!("../../../fixtures/vdso/", $name, ".so"))
    };
}

const X86_64: [Kernel; 4] = [
    Kernel {
        bytes: image!("x86_64-5.10"),
        machine: Machine::X86_64,
        version: (5, 10, 223),
        hash_tables: &[HASH, GNU_HASH],
        functions: &["clock_getres", "clock_gettime", "getcpu", "gettimeofday", "time"],
    },
    Kernel {
        bytes: image!("x86_64-6.1"),
        machine: Machine::X86_64,
        version: (6, 1, 176),
        hash_tables: &[HASH, GNU_HASH],
        functions: &[
            "clock_getres",
            "clock_gettime",
            "getcpu",
            "gettimeofday",
            "sgx_enter_enclave",
            "time",
        ],
    },
    Kernel {
        bytes: image!("x86_64-6.12"),
        machine: Machine::X86_64,
        version: (6, 12, 117),
        hash_tables: &[HASH, GNU_HASH],
        functions: &[
            "clock_getres",
            "clock_gettime",
            "getcpu",
            "getrandom",
            "gettimeofday",
            "sgx_enter_enclave",
            "time",
        ],
    },
    Kernel {
        bytes: image!("x86_64-7.3"),
        machine: Machine::X86_64,
        version: (7, 3, 4),
        hash_tables: &[HASH, GNU_HASH],
        functions: &[
            "clock_getres",
            "clock_gettime",
            "futex_robust_list32_try_unlock",
            "futex_robust_list64_try_unlock",
            "getcpu",
            "getrandom",
            "gettimeofday",
            "sgx_enter_enclave",
            "time",
        ],
    },
];

/// The last but one has pages of 16 KiB.
const AARCH64: [Kernel; 5] = [
    Kernel {
        bytes: image!("aarch64-5.10"),
        machine: Machine::Aarch64,
        version: (5, 10, 223),
        hash_tables: &[HASH],
        functions: &["clock_getres", "clock_gettime", "gettimeofday", "rt_sigreturn"],
    },
    Kernel {
        bytes: image!("aarch64-6.1"),
        machine: Machine::Aarch64,
        version: (6, 1, 176),
        hash_tables: &[HASH],
        functions: &["clock_getres", "clock_gettime", "gettimeofday", "rt_sigreturn"],
    },
    Kernel {
        bytes: image!("aarch64-6.12"),
        machine: Machine::Aarch64,
        version: (6, 12, 117),
        hash_tables: &[GNU_HASH],
        functions: &["clock_getres", "clock_gettime", "getrandom", "gettimeofday", "rt_sigreturn"],
    },
    Kernel {
        bytes: image!("aarch64-6.12-16k"),
        machine: Machine::Aarch64,
        version: (6, 12, 117),
        hash_tables: &[GNU_HASH],
        functions: &["clock_getres", "clock_gettime", "getrandom", "gettimeofday", "rt_sigreturn"],
    },
    Kernel {
        bytes: image!("aarch64-7.3"),
        machine: Machine::Aarch64,
        version: (7, 3, 4),
        hash_tables: &[GNU_HASH],
        functions: &["clock_getres", "clock_gettime", "getrandom", "gettimeofday", "rt_sigreturn"],
    },
];

fn assert_read_whole(kernel: &Kernel, prefix: &str) -> Image {
    let image = Image::parse(kernel.bytes).unwrap();
    let (major, minor, patch) = kernel.version;
    assert_eq!((image.class(), image.machine()), (Class::Elf64, kernel.machine));
    assert!(
        image.notes().contains(&Note::LinuxVersion(major, minor, patch)),
        "{:?}",
        image.notes()
    );
    assert!(image.build_id().is_some());
    let tables: Vec<i64> = image.dynamic().iter().map(|entry| entry.0).collect();
    let tables: Vec<i64> =
        [HASH, GNU_HASH].into_iter().filter(|table| tables.contains(table)).collect();
    assert_eq!(tables, kernel.hash_tables, "{major}.{minor}");
    let mut functions: Vec<&str> =
        image.functions().filter_map(|symbol| symbol.name.strip_prefix(prefix)).collect();
    functions.sort_unstable();
    assert_eq!(functions, kernel.functions, "{major}.{minor}");
    assert!(image.content_end() <= kernel.bytes.len() as u64);
    image
}

#[test]
fn every_image_of_x86_64_is_read_whole() {
    for kernel in &X86_64 {
        assert_read_whole(kernel, "__vdso_");
    }
}

#[test]
fn every_image_of_arm64_is_read_whole() {
    for kernel in &AARCH64 {
        let image = assert_read_whole(kernel, "__kernel_");
        // A debugger recognises a signal frame by these two instructions: mov x8, #139; svc #0.
        let at = usize::try_from(image.function("__kernel_rt_sigreturn").unwrap().offset).unwrap();
        let code = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];
        assert_eq!(kernel.bytes[at..at + 8], code, "{:?}", kernel.version);
    }
}

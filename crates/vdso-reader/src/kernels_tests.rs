//! The images of Debian's kernels, as `make test-kernels` dumped them.

use std::path::Path;

use super::view::{ImageOrigin, View};
use super::{Class, Image, Machine};

/// Reads the kernels' images whole and compares them with their line of `kernels.txt`.
#[test]
fn every_image_is_read_whole() {
    let lines = include_str!("kernels.txt").lines().filter(|line| !line.starts_with('#'));
    // Without `..`: a virtual machine that runs this test has the fixtures, but not this crate's folder.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for line in lines {
        let [name, version, tables, functions @ ..] =
            &line.split_whitespace().collect::<Vec<_>>()[..]
        else {
            panic!("{line}")
        };
        let bytes = std::fs::read(root.join(format!("fixtures/vdso/{name}.so"))).unwrap();
        let image = Image::parse(&bytes).unwrap();
        let (machine, prefix) = match name.split_once('-').unwrap().0 {
            "x86_64" => (Machine::X86_64, "__vdso_"),
            _ => (Machine::Aarch64, "__kernel_"),
        };
        assert_eq!((image.class, image.machine), (Class::Elf64, machine), "{name}");
        let view = View::new(&image, ImageOrigin::Own { pid: 1 }, None, &[]);
        assert_eq!(view.linux_version.as_deref(), Some(*version), "{name}");
        assert!(image.build_id().is_some(), "{name}");
        let has_table = |tag: i64| image.dynamic.iter().any(|entry| entry.0 == tag);
        let found = [("hash", 4), ("gnu", 0x6fff_fef5)].into_iter().filter(|it| has_table(it.1));
        assert_eq!(found.map(|it| it.0).collect::<Vec<_>>().join(","), *tables, "{name}");
        let mut found: Vec<&str> =
            image.functions().filter_map(|symbol| symbol.name.strip_prefix(prefix)).collect();
        found.sort_unstable();
        assert_eq!(found, functions, "{name}");
        assert!(image.content_end <= bytes.len() as u64, "{name}");
        if let Some(sigreturn) = image.function("__kernel_rt_sigreturn") {
            // A debugger recognises a signal frame by these two instructions: mov x8, #139; svc #0.
            let at = usize::try_from(sigreturn.offset).unwrap();
            let code = [0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4];
            assert_eq!(bytes[at..at + 8], code, "{name}");
        }
    }
}

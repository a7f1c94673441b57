//! Any bytes are a vDSO image, or are refused: every view of an image ends, and is text that a terminal can show.
#![no_main]

use vdso_reader::view::{ImageOrigin, View};
use vdso_reader::{Image, auxv, maps, text};

/// Address of the image in the process that the second half of the bytes describes.
const BASE: u64 = 0x7fff_0000_0000;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mappings = maps::parse(&String::from_utf8_lossy(&bytes[bytes.len() / 2..]));
    for mapping in &mappings {
        assert!(mapping.contains(mapping.start) || mapping.size() == 0, "{mapping:?}");
    }
    let Ok(image) = Image::parse(bytes) else { return };
    let _ = auxv::sysinfo_ehdr(bytes, image.class);
    let view = View::new(&image, ImageOrigin::File { path: "image".into() }, Some(BASE), &mappings);
    let shown = text::render(&view);
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "a control character in {shown:?}"
    );
});

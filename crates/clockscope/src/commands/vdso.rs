//! `clockscope vdso`: finds an image, reads it, and prints or saves it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::cli::{Format, VdsoArgs};
use crate::exit;
use crate::printing::{replace_file, streams};
use clockscope_sys::loaded_vdso;
use clockscope_text::foreign::json_document;
use vdso_reader::maps::Mapping;
use vdso_reader::view::{ImageOrigin, View};
use vdso_reader::{Image, text};

/// Limit for the size of an image, in bytes; Linux's images have up to five pages.
const IMAGE_MAX: u64 = 16 << 20;

/// An image and its origin.
struct Found {
    source: ImageOrigin,
    image: Image,
    address: Option<u64>,
    mappings: Vec<Mapping>,
}

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When no image can be read, or it cannot be saved or printed.
pub fn run(args: &VdsoArgs) -> Result<i32> {
    let found = find(args)?;
    if let Some(path) = &args.dump {
        dump(&found.image.bytes, path)?;
    }
    let view = View::new(&found.image, found.source, found.address, &found.mappings);
    print(args, &view)?;
    Ok(exit::OK)
}

fn find(args: &VdsoArgs) -> Result<Found> {
    if let Some(path) = &args.file {
        let what = || format!("cannot read the image in {}", path.display());
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(what)?;
        file.take(IMAGE_MAX + 1).read_to_end(&mut bytes).with_context(what)?;
        if bytes.len() as u64 > IMAGE_MAX {
            bail!("{}: it is longer than {} MiB, as no image is", what(), IMAGE_MAX >> 20);
        }
        let image = Image::parse(&bytes).with_context(what)?;
        let source = ImageOrigin::File { path: path.as_path().into() };
        return Ok(Found { source, image, address: None, mappings: Vec::new() });
    }
    let what = || match args.pid {
        Some(pid) => format!("cannot read the vDSO of process {pid}"),
        None => "cannot read this process's vDSO".to_owned(),
    };
    let loaded = loaded_vdso::load(args.pid).with_context(what)?;
    let image = Image::parse(&loaded.bytes).with_context(what)?;
    let source = match args.pid {
        Some(_) => ImageOrigin::Process { pid: loaded.pid },
        None => ImageOrigin::Own { pid: loaded.pid },
    };
    Ok(Found { source, image, address: Some(loaded.base), mappings: loaded.mappings })
}

/// Saves the image; to standard output if the path is `-`.
fn dump(bytes: &[u8], path: &Path) -> Result<()> {
    if path == Path::new("-") {
        return streams::print_bytes(bytes);
    }
    replace_file::replace(path, bytes)
        .with_context(|| format!("cannot save the image to {}", path.display()))
}

fn print(args: &VdsoArgs, view: &View<'_>) -> Result<()> {
    let dumped = args.dump.as_deref();
    if dumped == Some(Path::new("-")) {
        return Ok(());
    }
    if args.format == Format::Json {
        return streams::print(&json_document(view)?);
    }
    streams::print(&match dumped {
        Some(path) => format!("saved {} bytes to {}\n", view.size_bytes, path.display()),
        None => text::render(view),
    })
}

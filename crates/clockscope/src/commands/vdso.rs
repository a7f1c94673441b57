//! `clockscope vdso`: finds an image, reads it, and prints or saves it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cli::{Format, VdsoArgs};
use crate::exit;
use crate::printing::{replace_file, streams};
use clockscope_sys::loaded_vdso;
use clockscope_sys::vdso_call::{self, Call, Callable};
use clockscope_text::foreign::json_document;
use vdso_reader::maps::Mapping;
use vdso_reader::view::{CostView, ImageOrigin, View};
use vdso_reader::{Image, Machine, text};

/// Limit for the size of an image, in bytes; Linux's images have up to five pages.
const IMAGE_MAX: u64 = 16 << 20;
/// Time for measuring each function, by the vDSO and by system calls.
const BOTH_WAYS: Duration = Duration::from_millis(20);

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
        dump(found.image.bytes(), path)?;
    }
    let mut view = View::new(&found.image, found.source, found.address, &found.mappings);
    if args.dump.is_none() {
        measure(&mut view, &found.image);
    }
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

/// Measures the functions of the image if this process can call them.
fn measure(view: &mut View<'_>, image: &Image) {
    match vdso_call::callables(image.bytes()) {
        Some(callables) => view.costs = Some(costs(&callables)),
        None => {
            let machine = image.machine();
            view.costs_decline = Some(if Machine::host() == Some(machine) {
                "its bytes are not those of this process's own image".to_owned()
            } else {
                format!("code for {machine} cannot be called by this process")
            });
        }
    }
}

fn costs(callables: &[Callable]) -> Vec<CostView> {
    let paths = vdso_call::paths(callables);
    let cost = |(place, callable): (usize, &Callable)| {
        let (vdso, syscall) = callable.cost(BOTH_WAYS);
        let (vdso, syscall) = (vdso.0, syscall.0);
        let path = match paths.as_ref().and_then(|paths| paths.get(place)) {
            Some(vdso_call::Path::Fast) => "fast",
            Some(vdso_call::Path::Syscall) => "syscall",
            // Without the test by seccomp filter: a fast path costs well below the system call.
            None if vdso.saturating_mul(3) < syscall.saturating_mul(2) => "fast",
            None => "syscall",
        };
        let clock = match callable.call() {
            Call::ClockGettime(clock) => Some(clock.name().to_owned()),
            _ => None,
        };
        let function = callable.call().name().to_owned();
        CostView {
            function,
            clock,
            vdso_ps: vdso,
            syscall_ps: syscall,
            ratio: ratio(syscall, vdso),
            path,
        }
    };
    callables.iter().enumerate().map(cost).collect()
}

/// `large / small`, to hundredths.
#[expect(clippy::cast_precision_loss, reason = "for display; costs are far below 2^53")]
fn ratio(large: u64, small: u64) -> f64 {
    if small == 0 {
        return 0.0;
    }
    (large as f64 / small as f64 * 100.0).round() / 100.0
}

fn print(args: &VdsoArgs, view: &View<'_>) -> Result<()> {
    let dumped = args.dump.as_deref();
    if dumped == Some(Path::new("-")) {
        return Ok(());
    }
    if args.format == Format::Json {
        return streams::print(&json_document(view)?);
    }
    let mut out = Vec::new();
    match dumped {
        Some(path) => writeln!(out, "saved {} bytes to {}", view.size_bytes, path.display())?,
        None => text::write_view(&mut out, view)?,
    }
    streams::print(&String::from_utf8_lossy(&out))
}

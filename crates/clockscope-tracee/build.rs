//! Compiles the crate `vdso-image` into an ELF shared object of at most eight pages.
//!
//! There are three steps. The compiler that builds the command makes `fastclock` as a library and `vdso-image` as one
//! object file. The linker then links the object file without any library. A panic, a call into `core` that was not
//! inlined, or any other reference that a program may not satisfy is an undefined symbol and fails the link. An
//! instruction also fails the build if it would change more of the caller's state than the kernel's functions do, or if
//! it needs an aligned stack or a clear direction flag. A second link leaves out the symbol table; `image_entries.rs`
//! holds the offsets of our entries instead.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use vdso_image::layout::IMAGE_SIZE;

#[path = "build/aarch64.rs"]
mod aarch64;
#[path = "build/x86_64.rs"]
mod x86_64;

/// The architecture that the image is for.
struct Architecture {
    name: &'static str,
    options: &'static [&'static str],
    changes_too_much: fn(&str) -> bool,
}

impl Architecture {
    /// The architecture of the command, not of the machine that builds it.
    fn wanted() -> Result<Self, String> {
        match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
            Ok("aarch64") => Ok(Self {
                name: "aarch64",
                options: aarch64::OPTIONS,
                changes_too_much: aarch64::changes_too_much,
            }),
            Ok("x86_64") => Ok(Self {
                name: "x86_64",
                options: x86_64::OPTIONS,
                changes_too_much: x86_64::changes_too_much,
            }),
            other => Err(format!("there is no vDSO image for {other:?}")),
        }
    }
}

fn main() {
    if let Err(message) = build() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

/// Builds the image into `OUT_DIR`: `vdso_image.so`, `image_entries.rs` and `stubs.rs`.
fn build() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let fastclock = source("fastclock", fastclock::SOURCE_DIR)?;
    let image_source = source("vdso-image", vdso_image::SOURCE_DIR)?;
    println!("cargo::rerun-if-changed={}", fastclock.join("src").display());
    println!("cargo::rerun-if-changed={}", image_source.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=CC");
    let architecture = Architecture::wanted()?;
    compile_fastclock(&architecture, &fastclock, &out)?;
    compile_image(&architecture, &image_source, &out)?;
    let with_symbols = link(&architecture, &image_source, &out, "vdso_image_symbols.so", None)?;
    let image = link(&architecture, &image_source, &out, "vdso_image.so", Some("-s"))?;
    check(&image, &with_symbols)?;
    write(&out, "image_entries.rs", &entries(&with_symbols)?)?;
    let object = out.join("vdso_image.o");
    let object = fs::read(&object).map_err(|error| format!("cannot read the object: {error}"))?;
    write(&out, "stubs.rs", &stubs(&object)?)
}

fn write(out: &Path, name: &str, text: &str) -> Result<(), String> {
    fs::write(out.join(name), text).map_err(|error| format!("cannot write {name}: {error}"))
}

/// Source directory of a crate: beside this crate in a checkout, even if the checkout and its build directory were
/// moved, or the directory into which cargo unpacked the crate.
fn source(name: &str, unpacked: &str) -> Result<PathBuf, String> {
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let beside = Path::new(&here).with_file_name(name);
    Ok(if beside.join("Cargo.toml").exists() { beside } else { PathBuf::from(unpacked) })
}

fn rustc(architecture: &Architecture) -> Command {
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(["--edition", "2024", "--cap-lints", "allow"]);
    command.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "codegen-units=1"]);
    command.args(["-C", "overflow-checks=no", "-C", "debug-assertions=no"]);
    command.args(["-C", "force-unwind-tables=yes"]);
    // No code here gains from unrolled loops, and every page counts.
    command.args(["-C", "llvm-args=-unroll-threshold=0"]);
    command.args(architecture.options);
    command
}

/// The option that keeps a crate's directory out of the compiled code, and out of the hashes that determine its order.
fn without_path(source: &Path) -> OsString {
    let mut option = OsString::from("--remap-path-prefix=");
    option.push(source);
    option.push("=.");
    option
}

fn compile_fastclock(architecture: &Architecture, source: &Path, out: &Path) -> Result<(), String> {
    let mut command = rustc(architecture);
    command.args(["--crate-name", "fastclock", "--crate-type", "rlib", "--out-dir"]).arg(out);
    command.arg(without_path(source));
    run(command.arg(source.join("src/lib.rs")))
}

fn compile_image(architecture: &Architecture, source: &Path, out: &Path) -> Result<(), String> {
    let mut library = OsString::from("fastclock=");
    library.push(out.join("libfastclock.rlib"));
    let mut command = rustc(architecture);
    command.args(["--crate-name", "vdso_image", "--crate-type", "lib", "--emit", "obj,asm"]);
    command.args(["--cfg", "clockscope_image", "--extern"]).arg(library);
    command.arg("--out-dir").arg(out).arg(without_path(source));
    run(command.arg(source.join("src/lib.rs")))?;
    let listing = out.join("vdso_image.s");
    let text = fs::read_to_string(&listing)
        .map_err(|error| format!("cannot read {}: {error}", listing.display()))?;
    let mut is_stub = false;
    let mut of_image = text.lines().filter(|line| {
        let line = line.trim();
        if line.starts_with(".section") || line == ".text" {
            is_stub = line.contains(STUB);
        }
        !is_stub
    });
    match of_image.find(|line| (architecture.changes_too_much)(line)) {
        Some(line) => Err(format!("the vDSO image must not contain `{}`", line.trim())),
        None => Ok(()),
    }
}

/// The linker, and the prefix of its options: this machine's C compiler, or for another architecture the linker that
/// comes with Rust.
fn linker(architecture: &Architecture) -> Result<(Command, &'static str), String> {
    let host = env::var("HOST").map_err(|_| "HOST is not set")?;
    if host.split('-').next() == Some(architecture.name) {
        let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
        command.args(["-shared", "-nostdlib"]);
        return Ok((command, "-Wl,"));
    }
    let mut command = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let output = command.args(["--print", "sysroot"]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let mut command = Command::new(root.join("lib/rustlib").join(host).join("bin/rust-lld"));
    command.args(["-flavor", "gnu", "-shared"]);
    Ok((command, ""))
}

fn link(
    architecture: &Architecture,
    source: &Path,
    out: &Path,
    name: &str,
    extra: Option<&str>,
) -> Result<Vec<u8>, String> {
    let file = out.join(name);
    let (mut command, prefix) = linker(architecture)?;
    command.arg("-o").arg(&file).arg(out.join("vdso_image.o"));
    let mut option = |word: &str, path: Option<PathBuf>| {
        let mut argument = OsString::from(format!("{prefix}{word}"));
        argument.push(path.unwrap_or_default());
        command.arg(argument);
    };
    let script = |kind: &str| source.join(format!("image-{}.{kind}", architecture.name));
    option("--script=", Some(script("ld")));
    option("--version-script=", Some(script("map")));
    for word in [
        "-soname=linux-vdso.so.1",
        "--hash-style=both",
        "-Bsymbolic",
        "--no-undefined",
        "-zmax-page-size=4096",
        "-znorelro",
        "-znoexecstack",
        "--eh-frame-hdr",
        "--build-id=none",
    ] {
        option(word, None);
    }
    if let Some(extra) = extra {
        option(extra, None);
    }
    run(&mut command)?;
    fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Checks the properties that need no running program.
fn check(image: &[u8], with_symbols: &[u8]) -> Result<(), String> {
    if image.len() > IMAGE_SIZE {
        return Err(format!("the vDSO image has {} bytes, over {IMAGE_SIZE}", image.len()));
    }
    let file = parse(image)?;
    if let Some(dynamic) = file.dynamic_relocations().and_then(|mut all| all.next()) {
        return Err(format!("the vDSO image needs a relocation: {dynamic:?}"));
    }
    let text = |file: &object::File<'_>| {
        let section = file.section_by_name(".text").ok_or("no .text in the vDSO image")?;
        section.data().map(<[u8]>::to_vec).map_err(|_| "cannot read .text")
    };
    if text(&file)? != text(&parse(with_symbols)?)? {
        return Err("the two links of the vDSO image differ".to_owned());
    }
    Ok(())
}

/// Rust source with the name, offset and size of each function of the image.
fn entries(with_symbols: &[u8]) -> Result<String, String> {
    let file = parse(with_symbols)?;
    let mut source = String::from("&[\n");
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        let ours = [
            "direct_",
            "counted_",
            "looked_up_",
            "syscall_",
            "coarse_",
            "slow_",
            "tsc_",
            "tscp_",
            "fast_",
            "clockscope_",
        ];
        if ours.iter().any(|prefix| name.starts_with(prefix)) {
            writeln!(source, "    ({name:?}, {:#x}, {:#x}),", symbol.address(), symbol.size())
                .map_err(|error| error.to_string())?;
        }
    }
    source.push(']');
    Ok(source)
}

/// Prefix of the sections that the image crate's `stubs.rs` makes.
const STUB: &str = ".stub.";

/// Rust source with a module for each stub: its code, and the offsets of its labels, which the assembly names
/// `STUB__LABEL`.
fn stubs(object: &[u8]) -> Result<String, String> {
    let file = parse(object)?;
    let mut source = String::new();
    for section in file.sections() {
        let Some(stub) = section.name().ok().and_then(|name| name.strip_prefix(STUB)) else {
            continue;
        };
        if section.relocations().next().is_some() {
            return Err(format!("the stub {stub} needs a relocation"));
        }
        let code = section.data().map_err(|error| format!("cannot read a stub: {error}"))?;
        let _ = writeln!(source, "pub(crate) mod {stub} {{");
        let _ = writeln!(source, "    pub(crate) const CODE: &[u8] = &{code:?};");
        for symbol in file.symbols().filter(|s| s.section_index() == Some(section.index())) {
            let name = symbol.name().unwrap_or_default();
            if let Some((_, label)) = name.split_once("__").filter(|(of, _)| *of == stub) {
                let (label, at) = (label.to_uppercase(), symbol.address());
                let _ = writeln!(source, "    pub(crate) const {label}: usize = {at:#x};");
            }
        }
        source.push_str("}\n");
    }
    Ok(source)
}

fn parse(bytes: &[u8]) -> Result<object::File<'_>, String> {
    object::File::parse(bytes).map_err(|error| format!("cannot read the vDSO image: {error}"))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("cannot run {}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).replace('\n', "; ");
    Err(format!("{} failed: {words}", command.get_program().display()))
}

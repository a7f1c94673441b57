//! Builds tracees once, into `CARGO_TARGET_TMPDIR`. A stamp beside each program lets the next run of the tests use it
//! again.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::{skip, sources};

/// How a C program is compiled and linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// glibc, as by default.
    Dynamic,
    /// glibc, static, not position-independent.
    Static,
    /// glibc, static and position-independent.
    StaticPie,
    /// glibc, static, at a fixed address of the program's choice.
    StaticFixed,
    /// musl, static.
    MuslStatic,
    /// musl, with its dynamic loader.
    MuslDynamic,
    /// glibc, dynamic, with `AddressSanitizer`.
    AddressSanitizer,
    /// 32-bit glibc, static.
    Bits32,
}

/// Stands for the output file in a compiler's arguments.
const OUTPUT: &str = "OUTPUT";

/// Compilers run one after another: each uses all CPUs, and tests share tracees.
static BUILDING: Mutex<()> = Mutex::new(());

impl Link {
    /// Every C library with every way of linking, for 64 bits and without sanitizers.
    pub(crate) const EVERY: [Self; 6] = [
        Self::Dynamic,
        Self::Static,
        Self::StaticPie,
        Self::StaticFixed,
        Self::MuslStatic,
        Self::MuslDynamic,
    ];

    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Dynamic => &["gcc"],
            Self::Static => &["gcc", "-static", "-no-pie"],
            Self::StaticPie => &["gcc", "-static-pie"],
            Self::StaticFixed => &["gcc", "-static", "-no-pie", "-Wl,-Ttext-segment=0x10000000"],
            Self::MuslStatic => &["musl-gcc", "-static"],
            Self::MuslDynamic => &["musl-gcc"],
            Self::AddressSanitizer => &["gcc", "-fsanitize=address"],
            Self::Bits32 => &["gcc", "-m32", "-static"],
        }
    }
}

/// Builds a C program; `None` (a skip) if the compiler or a library is missing.
pub(crate) fn c(name: &str, link: Link) -> Option<PathBuf> {
    c_with(name, link, &[])
}

/// Builds a C program with more compiler options.
pub(crate) fn c_with(name: &str, link: Link, options: &[&str]) -> Option<PathBuf> {
    let compiler =
        [link.command(), &["-O2", "-g", "-Wall", "-Wextra", "-pthread"], options].concat();
    let source = source(&format!("{name}.c"));
    let words = [compiler.as_slice(), &["-o", OUTPUT, &source]].concat();
    let product = directory().join(format!("{name}-{link:?}{}", options.concat()));
    build(&words, &product, Some(&[compiler.as_slice(), &["-o", OUTPUT, "-x", "c", "-"]].concat()))
}

/// Builds the program without libraries and without data that is made read-only.
pub(crate) fn alone() -> Option<PathBuf> {
    let options = ["-nostdlib", "-fno-stack-protector", "-mno-sse", "-Wl,-z,norelro"];
    c_with("site_alone", Link::Dynamic, &options)
}

/// Builds the crate `rustix`.
pub(crate) fn rustix() -> Option<PathBuf> {
    let target = directory().join("rustix-target");
    let manifest = source("rustix/Cargo.toml");
    let words =
        [env!("CARGO"), "build", "--release", "--locked", "--quiet", "--manifest-path", &manifest];
    let words = [&words[..], &["--target-dir", text(&target)]].concat();
    build(&words, &target.join("release/reads-by-rustix"), None)
}

/// Builds a Rust program of one file, optimised, with more compiler options.
pub(crate) fn rust_with(name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = source(&format!("{name}.rs"));
    let words = [&["rustc", "--edition=2024", "-O"], options, &["-o", OUTPUT, &source]].concat();
    build(&words, &directory().join(format!("{name}-rust{}", options.concat())), None)
}

/// Builds a C++ program, optimised, with more compiler options.
pub(crate) fn cpp_with(name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = source(&format!("{name}.cpp"));
    let compiler = [&["g++", "-O2", "-pthread"], options].concat();
    let words = [compiler.as_slice(), &["-o", OUTPUT, &source]].concat();
    let probe = [compiler.as_slice(), &["-o", OUTPUT, "-x", "c++", "-"]].concat();
    build(&words, &directory().join(format!("{name}-cpp{}", options.concat())), Some(&probe))
}

/// Builds a Go program, static and without cgo.
pub(crate) fn go_program(name: &str) -> Option<PathBuf> {
    let compilers = ["/usr/local/go/bin/go", "/usr/bin/go"];
    let compiler = compilers.into_iter().find(|go| Path::new(go).exists()).unwrap_or("go");
    let words = [compiler, "build", "-o", OUTPUT, &source(&format!("{name}.go"))];
    build(&words, &directory().join(format!("{name}-go")), None)
}

/// Builds a Java class; gives the class path.
pub(crate) fn java_class(name: &str) -> Option<PathBuf> {
    let class_path = directory().join("java");
    let words = ["javac", "-d", text(&class_path), &source(&format!("{name}.java"))];
    build(&words, &class_path.join(format!("{name}.class")), None)?;
    Some(class_path)
}

/// The directory of the built tracees.
fn directory() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tracees");
    fs::create_dir_all(&directory).expect("create the directory for tracees");
    directory
}

fn source(name: &str) -> String {
    text(&sources().join(name)).to_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the path of the workspace is UTF-8")
}

/// Runs a compiler, unless the product exists and its stamp names the same words and the same newest source.
///
/// `probe` compiles a minimal program. If that fails too, the compiler or a library is missing; otherwise the
/// program itself is wrong.
fn build(words: &[&str], product: &Path, probe: Option<&[&str]>) -> Option<PathBuf> {
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    let stamp = product.with_extension("stamp");
    let made_by = format!("{words:?} {:?}", newest_source());
    if product.exists() && fs::read_to_string(&stamp).is_ok_and(|old| old == made_by) {
        return Some(product.to_owned());
    }
    // Another test binary may be executing the product, so a new file replaces it.
    let fresh = product.with_extension(std::process::id().to_string());
    match compile(words, &fresh) {
        Err(missing) => {
            skip(missing);
            return None;
        }
        Ok(Some(error)) => {
            let broken = probe.is_none_or(|probe| matches!(compile(probe, &fresh), Ok(None)));
            assert!(!broken, "{} does not compile:\n{error}", words.join(" "));
            skip(format_args!(
                "{} cannot make programs here",
                words[..words.len().min(3)].join(" ")
            ));
            return None;
        }
        Ok(None) => {}
    }
    if words.contains(&OUTPUT) {
        fs::rename(&fresh, product).expect("put a tracee in its place");
    }
    fs::write(&stamp, made_by).expect("write a tracee's stamp");
    Some(product.to_owned())
}

/// Runs a compiler: `Err` if it is missing, `Ok(Some(message))` if it fails.
fn compile(words: &[&str], output: &Path) -> Result<Option<String>, String> {
    let words: Vec<_> =
        words.iter().map(|word| if *word == OUTPUT { text(output) } else { word }).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("CGO_ENABLED", "0").env_remove("CARGO_TARGET_DIR");
    command.env("GOCACHE", directory().join("go-cache")).env("GOFLAGS", "-mod=mod");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(format!("{} is missing", words[0]));
        }
        child => child.expect("start a compiler"),
    };
    // A compiler that does not read its input may have ended already; the exit status says more than the error.
    let _ = child.stdin.take().expect("is piped").write_all(b"int main(void) { return 0; }");
    let output = child.wait_with_output().expect("wait for a compiler");
    Ok((!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Time of the last change of a file in `tests/tracees`.
fn newest_source() -> Option<SystemTime> {
    let directories = [sources(), sources().join("rustix"), sources().join("rustix/src")];
    let files = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).expect("list tests/tracees"));
    files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok()).max()
}

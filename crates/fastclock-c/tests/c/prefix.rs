//! A prefix below which the library is installed, and programs that are built with the flags of
//! `pkg-config`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tempfile::TempDir;

/// A file of this crate.
pub(crate) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The output of a command; fails unless the command succeeds and prints no error.
pub(crate) fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{command:?}: {}\n{said}", output.status);
    String::from_utf8(output.stdout).expect("prints UTF-8")
}

/// The way in which a program is linked with the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linking {
    /// Shared: the loader finds the library at the start.
    Shared,
    /// Static, with a static C library as well.
    Static,
    /// Not linked.
    None,
}

/// The library, installed.
pub(crate) struct Prefix {
    folder: TempDir,
}

/// The installation shared by tests that run at the same time.
pub(crate) fn installed() -> Arc<Prefix> {
    static SHARED: Mutex<Weak<Prefix>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let prefix = Arc::new(Prefix::install());
        *shared = Arc::downgrade(&prefix);
        prefix
    })
}

impl Prefix {
    /// The installation script.
    pub(crate) fn script() -> Command {
        let mut script = Command::new(source("../../scripts/install-c.sh"));
        // Build settings of the test must not apply to the library.
        for variable in ["DESTDIR", "LIBDIR", "CARGO_PROFILE_RELEASE_DEBUG"] {
            script.env_remove(variable);
        }
        // The compiler lies beside cargo, even if PATH does not include that folder, as under sudo.
        let cargo = Path::new(env!("CARGO"));
        let mut path = cargo.parent().expect("lies in a folder").as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        script.env("CARGO", cargo).env("PATH", path);
        script
    }

    /// Installs below `prefix`.
    pub(crate) fn run_script(prefix: impl AsRef<OsStr>, variables: &[(&str, &OsStr)]) {
        let output = Self::script().arg(prefix).envs(variables.iter().copied()).output();
        let output = output.expect("run scripts/install-c.sh");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/install-c.sh: {}\n{said}", output.status);
    }

    fn install() -> Self {
        let folder = tempfile::tempdir().expect("make a temporary directory");
        Self::run_script(folder.path(), &[]);
        Self { folder }
    }

    /// The installation's folder.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// A file below it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// The output of `pkg-config` for the library.
    pub(crate) fn pkg_config(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("pkg-config");
        command.args(arguments).arg("fastclock");
        command.env("PKG_CONFIG_PATH", self.path("lib/pkgconfig"));
        output_of(&mut command).trim().to_owned()
    }

    /// Builds a C or C++ program with all warnings as errors. Only the flags of `pkg-config` tell
    /// where the library is.
    pub(crate) fn build(
        self: &Arc<Self>,
        path: &str,
        linking: Linking,
        options: &[&str],
    ) -> Program {
        let folder = tempfile::tempdir().expect("make a temporary directory");
        let is_c = Path::new(path).extension().is_some_and(|extension| extension == "c");
        let mut compiler = Command::new(if is_c { "gcc" } else { "g++" });
        let dialect: &[&str] = if is_c { &["-std=gnu99"] } else { &[] };
        compiler.args(dialect).args([
            "-O1",
            "-pthread",
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
        ]);
        compiler.args(options).arg("-o").arg(folder.path().join("program")).arg(source(path));
        let asked: &[&[&str]] = match linking {
            Linking::Shared => &[&["--cflags", "--libs"]],
            Linking::Static => &[&["--static", "--cflags", "--libs"]],
            Linking::None => &[&["--cflags"]],
        };
        for arguments in asked {
            compiler.args(self.pkg_config(arguments).split_whitespace());
        }
        if linking == Linking::Static {
            compiler.arg("-static");
        }
        output_of(&mut compiler);
        Program { folder, linking, prefix: Arc::clone(self) }
    }
}

/// A program that was built.
pub(crate) struct Program {
    folder: TempDir,
    linking: Linking,
    prefix: Arc<Prefix>,
}

impl Program {
    /// A command that runs the program.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.folder.path().join("program"));
        if self.linking == Linking::Shared {
            command.env("LD_LIBRARY_PATH", self.prefix.path("lib"));
        }
        command
    }
}

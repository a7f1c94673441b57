//! Builds the programs of `tests/tracees/stacks`.

use std::path::{Path, PathBuf};
use std::process::Command;

use skips::skip;

fn sources() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tracees/stacks"))
}

/// Builds one source file by a compiler with options, or reports a missing tool.
pub(crate) fn built(name: &str, source: &str, words: &[&str]) -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stacks");
    std::fs::create_dir_all(&directory).expect("create the directory for programs");
    let product = directory.join(name);
    let compiler = match words[0] {
        "go" if Path::new("/usr/local/go/bin/go").exists() => "/usr/local/go/bin/go",
        other => other,
    };
    let mut command = Command::new(compiler);
    command.args(&words[1..]).arg("-o").arg(&product).arg(sources().join(source));
    command.env("GOCACHE", directory.join("go-cache")).env("GOFLAGS", "-mod=mod");
    command.env("CGO_ENABLED", "0");
    ran(&mut command)?;
    Some(product)
}

/// Builds `stacks.c` by `gcc -O2` without frame pointers.
pub(crate) fn c(name: &str, options: &[&str]) -> Option<PathBuf> {
    let words = ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-pthread"];
    built(name, "stacks.c", &[&words[..], options].concat())
}

/// Builds `stacks.c` as Fedora does: stripped, with its symbol table packed in `.gnu_debugdata`.
pub(crate) fn c_with_packed_names(name: &str) -> Option<PathBuf> {
    let program = c(name, &["-rdynamic"])?;
    let [symbols, packed] = ["symbols", "symbols.xz"].map(|end| program.with_extension(end));
    let [file, symbols_path, packed_path] =
        [&program, &symbols, &packed].map(|path| path.to_str().expect("UTF-8"));
    let section = format!(".gnu_debugdata={packed_path}");
    let run = |tool, words: &[&str]| ran(Command::new(tool).args(words));
    run("objcopy", &["--only-keep-debug", file, symbols_path])?;
    // Removes the exported function from the packed table.
    run("strip", &["-g", "-N", "outermost", symbols_path])?;
    run("xz", &["-f", symbols_path])?;
    run("strip", &["-s", file])?;
    run("objcopy", &["--add-section", &section, file])?;
    Some(program)
}

/// Runs a tool, or reports that it is missing.
fn ran(command: &mut Command) -> Option<()> {
    match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            skip(format_args!("{} is missing", command.get_program().display()));
            None
        }
        output => {
            let output = output.expect("run a tool");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{command:?}:\n{said}");
            Some(())
        }
    }
}

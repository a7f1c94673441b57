//! `include/fastclock.h` equals cbindgen's output for the Rust sources, and compilers accept it
//! without warnings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The header generated from the Rust.
fn made() -> String {
    let config = crate_folder().join("cbindgen.toml");
    let config = cbindgen::Config::from_file(config).expect("read cbindgen.toml");
    let sources = ["clock.rs", "making.rs", "reading.rs", "status.rs", "reasons.rs"];
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = sources
        .into_iter()
        .fold(builder, |builder, source| builder.with_src(crate_folder().join("src").join(source)));
    let mut header = Vec::new();
    builder.generate().expect("read the sources").write(&mut header);
    String::from_utf8(header).expect("is UTF-8")
}

#[test]
fn the_header_is_that_of_the_rust() {
    let path = crate_folder().join("include/fastclock.h");
    let made = made();
    if std::env::var_os("WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("write the header");
    }
    let kept = fs::read_to_string(&path).expect("read the header");
    let differs = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
    assert!(kept == made, "{}: run `make header`; it differs at {differs:?}", path.display());
}

/// Compiles a file that uses the headers, with all warnings, for each compiler and standard.
fn compile(file: &str, text: &str, compilers: [&str; 2], standards: &[&str]) {
    let folder = tempfile::tempdir().expect("make a temporary directory");
    let path: PathBuf = folder.path().join(file);
    fs::write(&path, text).expect("write a source");
    for compiler in compilers {
        for standard in standards {
            let output = Command::new(compiler)
                .args([&format!("-std={standard}"), "-fsyntax-only"])
                .args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"])
                .args(["-I".as_ref(), crate_folder().join("include").as_os_str()])
                .arg(&path)
                .output()
                .unwrap_or_else(|error| panic!("{compiler}: {error}; see `make setup`"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{compiler} -std={standard}: {said}");
        }
    }
}

#[test]
fn c_compilers_accept_each_header_alone() {
    let folder = fs::read_dir(crate_folder().join("include")).expect("list the headers");
    let names = folder.map(|entry| entry.expect("a header").file_name());
    let names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    let headers: Vec<_> = names.iter().filter(|name| name.ends_with(".h")).collect();
    assert!(headers.iter().any(|name| *name == "fastclock.h"), "{headers:?}");
    for header in headers {
        let text =
            format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n");
        compile("user.c", &text, ["gcc", "clang"], &["c99", "c11", "c17", "gnu99"]);
    }
}

#[test]
fn cpp_compilers_accept_the_headers_alone() {
    let text = "#include <fastclock.h>\n#include <fastclock_page.h>\n#include <fastclock.hpp>\n#include <fastclock.hpp>\n\
                int main() { return fastclock::clock::now().time_since_epoch().count() == 0; }\n";
    compile("user.cpp", text, ["g++", "clang++"], &["c++11", "c++17", "c++20"]);
}

#[test]
fn each_function_is_documented() {
    let header = made();
    let lines: Vec<&str> = header.lines().collect();
    let mut functions = 0;
    for (index, line) in lines.iter().enumerate() {
        let is_code = !line.trim_start().starts_with("//") && !line.starts_with(" *");
        if is_code && line.contains("fastclock_") && line.contains('(') {
            functions += 1;
            assert!(lines[index - 1].starts_with("//"), "{line} has no words before it");
        }
    }
    assert!(functions >= 20, "only {functions} functions were found");
}

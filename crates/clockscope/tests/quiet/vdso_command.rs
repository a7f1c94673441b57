//! `clockscope vdso` as a user runs it.

use std::fs;
use std::process::Command;

use crate::support::attaching::Image;
use crate::support::command::{self, Said};
use crate::support::conversation::Conversation;
use crate::support::running::{clockscope, untraced};

const X86_64: &str = "x86_64-6.18.so";
const AARCH64: &str = "aarch64.so";
const I386: &str = "i386.so";

fn vdso(args: &[&str]) -> Said {
    command::said(&[&["vdso"], args].concat())
}

fn fixture(name: &str) -> String {
    command::fixture(&format!("vdso/{name}"))
}

fn json(args: &[&str]) -> serde_json::Value {
    vdso(args).json()
}

fn address(value: &serde_json::Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// The bytes of this process's own `[vdso]` mapping.
fn own_mapping() -> Vec<u8> {
    Image::of(std::process::id().cast_signed()).unwrap().bytes
}

#[test]
fn the_view_of_this_process_fits_80_columns_and_has_every_part() {
    let shown = vdso(&[]).printed();
    for part in ["AT_SYSINFO_EHDR", "build id", "clock_gettime"] {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert_eq!(line, line.trim_end());
    }
}

#[test]
fn every_address_is_base_plus_offset() {
    let view = json(&["--format", "json"]);
    assert_eq!(view["schema"], 3);
    let base = address(&view["address"]).unwrap();
    assert_eq!(view["address"], view["kernel_address"]);
    let functions = view["symbols"].as_array().unwrap().iter();
    let functions: Vec<_> = functions.filter(|symbol| symbol["kind"] == "FUNC").collect();
    assert!(functions.len() >= 4);
    for symbol in functions {
        let offset = symbol["offset"].as_u64().unwrap();
        assert_eq!(address(&symbol["address"]), Some(base + offset), "{symbol}");
    }
}

#[test]
fn an_image_of_another_machine_is_shown() {
    let shown = vdso(&["--file", &fixture(AARCH64)]).printed();
    let sigreturn = "  __kernel_rt_sigreturn   N      0x470      8  LINUX_2.6.39\n";
    assert!(shown.contains(sigreturn), "{shown}");
    assert!(shown.lines().skip(1).all(|line| line.len() <= 80), "{shown}");
    let view = json(&["--format", "json", "--file", &fixture(AARCH64)]);
    assert_eq!(view["machine"], "aarch64");
}

#[test]
fn the_saved_image_is_the_mapping_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("saved.so");
    let printed = vdso(&["--dump", path.to_str().unwrap()]).printed();
    let said = format!("saved {} bytes to {}\n", own_mapping().len(), path.display());
    assert_eq!(printed, said);
    assert!(fs::read(&path).unwrap() == own_mapping(), "the kernel gives every process the same");
    let output = untraced(&words![clockscope(), "vdso", "--dump", "-"]);
    assert!(output.stdout == own_mapping());
}

#[test]
fn another_process_is_shown_or_the_refusal_says_what_to_try() {
    let mut child = Conversation::start_silent(&words!["cat"]);
    // A child that has answered has executed `cat`, so the kernel has mapped its vDSO.
    child.say("answer");
    assert_eq!(child.line(), "answer");
    let pid = child.pid().to_string();
    let output = untraced(&words![clockscope(), "vdso", "--pid", pid, "--dump", "-"]);
    assert!(child.status().success());
    if output.status.code() == Some(2) {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
    } else {
        assert!(output.stdout == own_mapping());
    }
    let message = format!("cannot read the vDSO of process {pid}: there is no such process\n");
    vdso(&["--pid", &pid]).is_refused(2, &[&message]);
}

#[test]
fn broken_files_are_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broken");
    let whole = fs::read(fixture(X86_64)).unwrap();
    let mut cases: Vec<Vec<u8>> = vec![Vec::new(), b"hello\n".to_vec(), vec![0xff; 5000]];
    cases.extend([1, 4, 5, 63, 64, 100, 287, 1000, 4096, 5409].map(|len| whole[..len].to_vec()));
    for bytes in cases {
        fs::write(&path, &bytes).unwrap();
        for extra in ["--format=text", "--format=json"] {
            let said = vdso(&[extra, "--file", path.to_str().unwrap()]);
            said.is_refused(2, &["clockscope: cannot read the image in "]);
        }
    }
}

/// Value, size, type, binding and name of each symbol as readelf prints them.
fn readelf_symbols(path: &str) -> Vec<Vec<String>> {
    let output = Command::new("readelf").args(["-W", "--dyn-syms", path]).output();
    let listing = Said::of(output.expect("readelf is part of binutils")).stdout;
    let rows = listing.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = fields.first()?.strip_suffix(':')?.parse::<u32>().ok()?;
        let is_row = fields.len() == 8 && number != 0;
        is_row.then(|| {
            let mut row = [1, 2, 3, 4, 7].map(|field| fields[field].to_owned()).to_vec();
            row[0] = format!("{:#x}", u64::from_str_radix(&row[0], 16).unwrap());
            row
        })
    });
    rows.collect()
}

#[test]
fn symbols_are_those_that_readelf_shows() {
    for name in [X86_64, AARCH64, I386] {
        let path = fixture(name);
        let mut expected = readelf_symbols(&path);
        let view = json(&["--format", "json", "--file", &path]);
        let symbols = view["symbols"].as_array().unwrap().iter();
        let shown = symbols.map(|symbol| {
            let field = |key: &str| symbol[key].as_str().unwrap().to_owned();
            // A symbol with the same name as its version is printed by readelf without the version.
            let version = field("version");
            let name = if field("name") == version {
                version
            } else {
                format!("{}@@{version}", field("name"))
            };
            vec![
                format!("{:#x}", symbol["offset"].as_u64().unwrap()),
                symbol["size_bytes"].to_string(),
                field("kind"),
                field("binding"),
                name,
            ]
        });
        let mut shown: Vec<Vec<String>> = shown.collect();
        expected.sort();
        shown.sort();
        assert!(!shown.is_empty());
        assert_eq!(shown, expected, "{name}");
    }
}

//! What programs can use of `fastclock`, as a list: a change of it shows in a review, and must show in the version.
//!
//! `cargo rustdoc` gives the list as JSON, in a format that is not stable: the test takes the compiler that is there, and
//! `public-api` must know its format. The interface of the last version is in `interface/fastclock-VERSION.txt`.

mod versions;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use public_api::PublicItem;
use serde_json::Value;

use versions::{DEFAULT, LITERAL, changes, next_version, path, version};

/// Those that the compiler derives and programs rely on; others come and go with the compiler.
const AUTO_TRAITS: [&str; 5] = [
    "core::marker::Send",
    "core::marker::Sync",
    "core::marker::Unpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// What cargo prints.
fn cargo(arguments: &[&str], flags: &str) -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up"),
        )
        // The format is one of nightly compilers; this lets the others write it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .env("RUSTDOCFLAGS", flags)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The public items of `fastclock` with all features, one a line; the error says why there is no list.
fn items(flags: &str) -> Result<String, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interface");
    let folder = target.to_str().expect("the path is UTF-8");
    let rustdoc =
        ["rustdoc", "--quiet", "--package", "fastclock", "--all-features", "--target-dir", folder];
    cargo(
        &[&rustdoc[..], &["--", "-Z", "unstable-options", "--output-format", "json"]].concat(),
        flags,
    );
    let json = target.join("doc/fastclock.json");
    let list = |omits_auto_traits| {
        let builder = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true);
        builder.omit_auto_trait_impls(omits_auto_traits).build().map_err(|error| error.to_string())
    };
    let (items, with_auto) = (list(true)?.to_string(), list(false)?);
    let is_relied_on = |line: &String| {
        line.starts_with("impl")
            && AUTO_TRAITS.iter().any(|name| line.contains(&format!(" {name} for ")))
            && !items.lines().any(|other| other == line)
    };
    let read = fs::read_to_string(&json).expect("read what rustdoc wrote");
    let rustdoc: Value = serde_json::from_str(&read).expect("it is JSON");
    let auto = with_auto.items().map(ToString::to_string).filter(is_relied_on);
    let marks = with_auto.items().filter_map(|item| mark(&rustdoc["index"], item));
    Ok(items.lines().map(str::to_owned).chain(auto).chain(marks).collect::<Vec<_>>().join("\n"))
}

/// A line for a struct that can be written as a literal, and for an item of a trait that has a default.
fn mark(index: &Value, item: &PublicItem) -> Option<String> {
    let (found, line) = (&index[item.id().0.to_string()], item.to_string());
    let inner = &found["inner"];
    let kind = &inner["struct"]["kind"];
    let shows_all = kind["plain"]["has_stripped_fields"] == false
        || kind["tuple"]
            .as_array()
            .is_some_and(|fields| fields.iter().all(|field| !field.is_null()))
        || *kind == "unit";
    if shows_all && !found["attrs"].to_string().contains("non_exhaustive") {
        return Some(format!("{LITERAL}{}", path(&line)?.1));
    }
    let is_of_trait = item
        .parent_id()
        .is_some_and(|parent| !index[parent.0.to_string()]["inner"]["trait"].is_null());
    let has_default = inner["function"]["has_body"] == true
        || inner["assoc_const"]["value"].is_string()
        || inner["assoc_type"]["type"].is_object();
    (is_of_trait && has_default).then(|| Some(format!("{DEFAULT}{}", path(&line)?.1)))?
}

/// The version of `fastclock`, and a line for each of its features.
fn manifest() -> (String, String) {
    let metadata = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"], "");
    let metadata: Value = serde_json::from_slice(&metadata).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("cargo lists packages");
    let package =
        packages.iter().find(|package| package["name"] == "fastclock").expect("it is a member");
    let features = package["features"].as_object().expect("it has features");
    let mut lines: Vec<_> = features.keys().map(|name| format!("feature {name}")).collect();
    let default = features["default"].as_array().expect("some are on by default");
    lines.extend(
        default.iter().filter_map(Value::as_str).map(|name| format!("feature {name} by default")),
    );
    (package["version"].as_str().expect("it has a version").to_owned(), lines.join("\n"))
}

/// The file with the interface of the last version, and that version.
fn last_version(folder: &Path) -> (PathBuf, String) {
    let files = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("read it").path());
    let mut files = files.filter_map(|path| {
        let name = path.file_name()?.to_str()?;
        let version = name.strip_prefix("fastclock-")?.strip_suffix(".txt")?.to_owned();
        Some((path, version))
    });
    let last = files.next().expect("there is an interface of the last version");
    assert_eq!(files.next(), None, "there is one of the last version only");
    last
}

#[test]
fn the_interface_of_fastclock_changes_knowingly_and_is_the_same_on_other_systems() {
    let here = match items("") {
        Ok(items) => items,
        Err(error) => return skips::skip(format!("no list of fastclock's interface: {error}")),
    };
    insta::assert_snapshot!("fastclock", here);

    let (current, features) = manifest();
    let now = format!("{here}\n{features}\n");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/quiet/interface");
    let (file, last) = last_version(&folder);
    if std::env::var_os("WRITE_INTERFACE").is_some() {
        fs::remove_file(file).expect("remove the old interface");
        fs::write(folder.join(format!("fastclock-{current}.txt")), &now)
            .expect("write the new one");
    } else {
        let released = fs::read_to_string(file).expect("read the interface of the last version");
        let changes = changes(&released, &now);
        let next = next_version(version(&last).expect("its name has its version"), &changes);
        let is_said = version(&current).expect("the manifest has a version") >= next;
        let [major, minor, patch] = next;
        assert!(
            is_said,
            "fastclock {last} had another interface: this version is {major}.{minor}.{patch} at least, and the manifest says \
             {current} (if that is not published, WRITE_INTERFACE=1 changes what it promises): {changes:#?}"
        );
    }

    let elsewhere = items("--cfg fastclock_portable").expect("the format is known");
    let [here, elsewhere] = [&here, &elsewhere].map(|items| items.lines().collect::<BTreeSet<_>>());
    let only_elsewhere: Vec<_> = elsewhere.difference(&here).collect();
    assert!(only_elsewhere.is_empty(), "{only_elsewhere:?}");
    let only_here: Vec<_> =
        here.difference(&elsewhere).filter(|line| !line.contains("fastclock::sys")).collect();
    assert!(only_here.is_empty(), "{only_here:?}");
}

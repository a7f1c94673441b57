//! The public interface of `fastclock` as a snapshot, so a review shows each change of it.
//!
//! `cargo rustdoc` gives the list as JSON, in an unstable format: the test uses the installed compiler, whose format
//! `public-api` must know.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::support::command::root;

/// Auto traits that programs rely on. Others come and go with the compiler.
const AUTO_TRAITS: [&str; 5] = [
    "core::marker::Send",
    "core::marker::Sync",
    "core::marker::Unpin",
    "core::panic::unwind_safe::RefUnwindSafe",
    "core::panic::unwind_safe::UnwindSafe",
];

/// Has rustdoc write its JSON into a folder.
fn rustdoc(target: &Path, flags: &str) {
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--package", "fastclock", "--target-dir"])
        .arg(target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .current_dir(root())
        // Only nightly compilers write this format; the variable lets stable ones write it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .env("RUSTDOCFLAGS", flags)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The public items of `fastclock`, one a line; the error gives the reason if there is no list.
fn items(flags: &str) -> Result<String, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interface");
    rustdoc(&target, flags);
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
    let auto = with_auto.items().map(ToString::to_string).filter(is_relied_on);
    Ok(items.lines().map(str::to_owned).chain(auto).collect::<Vec<_>>().join("\n"))
}

#[test]
fn the_interface_of_fastclock_changes_knowingly_and_is_the_same_on_other_systems() {
    let here = match items("") {
        Ok(items) => items,
        Err(error) => return skips::skip(format!("no list of fastclock's interface: {error}")),
    };
    insta::assert_snapshot!("fastclock", here);

    let elsewhere = items("--cfg fastclock_portable").expect("the format is known");
    let [here, elsewhere] = [&here, &elsewhere].map(|items| items.lines().collect::<BTreeSet<_>>());
    let only_elsewhere: Vec<_> = elsewhere.difference(&here).collect();
    assert!(only_elsewhere.is_empty(), "{only_elsewhere:?}");
    let only_here: Vec<_> =
        here.difference(&elsewhere).filter(|line| !line.contains("fastclock::sys")).collect();
    assert!(only_here.is_empty(), "{only_here:?}");
}

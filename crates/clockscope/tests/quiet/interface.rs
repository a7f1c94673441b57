//! What programs can use of `fastclock`, as a list: a change of it shows in a review.
//!
//! `cargo rustdoc` gives the list as JSON, in a format that is not stable: the test takes the compiler that is there, and
//! `public-api` must know its format.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The public items of `fastclock` with all features, one a line; the error says why there is no list.
fn items(flags: &str) -> Result<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two folders up");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interface");
    let output = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--package", "fastclock", "--all-features", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        .current_dir(root)
        // The format is one of nightly compilers; this lets the others write it.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .env("RUSTDOCFLAGS", flags)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = public_api::Builder::from_rustdoc_json(target.join("doc/fastclock.json"))
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .build();
    listed.map(|items| items.to_string()).map_err(|error| error.to_string())
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

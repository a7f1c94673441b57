//! Writes the manual pages into a directory: `cargo run --example man -- target/man`, or `make man`.
//!
//! The pages are dated by `SOURCE_DATE_EPOCH` if it is set, and by today's date otherwise.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

use anyhow::Context as _;

use clockscope_text::date::rfc3339;

mod epilogue;
mod pages;

fn main() -> anyhow::Result<()> {
    let directory = env::args_os().nth(1).context("no directory is named; try target/man")?;
    let directory = PathBuf::from(directory);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    for page in pages::pages(&date()) {
        let path = directory.join(page.file);
        fs::write(&path, page.source)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// `2026-11-21`
fn date() -> String {
    let given = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seconds = given.unwrap_or_else(now);
    rfc3339(i64::try_from(seconds).unwrap_or_default()).chars().take(10).collect()
}

//! `clockscope view`: makes the page of a saved report.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::cli::ViewArgs;
use crate::exit;
use crate::printing::{replace_file, streams};
use clockscope_page::{Document, MAX_BYTES};
use clockscope_report::pages;

/// Runs the subcommand; returns the exit status.
///
/// # Errors
///
/// When the file cannot be read or is no report of clockscope, or the page cannot be written.
pub fn run(args: &ViewArgs) -> Result<i32> {
    let (name, bytes) = read(&args.file)?;
    let page = Document::parse(&bytes)
        .map_err(Into::into)
        .and_then(|document| pages::of_document(&document, None));
    let page = page.with_context(|| format!("cannot show {name}"))?;
    match &args.output {
        Some(path) => replace_file::replace(path, page.as_bytes())
            .with_context(|| format!("cannot write to {}; try -o elsewhere", path.display()))?,
        None => streams::print(&page)?,
    }
    Ok(exit::OK)
}

/// Reads a file, or standard input (`-`): its name for messages, and its bytes.
///
/// # Errors
///
/// When it cannot be read.
pub(super) fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let is_standard_input = path == Path::new("-");
    let name = if is_standard_input { "standard input".into() } else { path.display().to_string() };
    let bytes = if is_standard_input {
        bytes(io::stdin().lock())
    } else {
        File::open(path).and_then(bytes)
    };
    let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
    Ok((name, bytes))
}

/// All bytes, at most one more than the limit of a report.
fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

//! `doctor --watch`: one line whenever something changes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use crate::commands::streams;
use crate::exit;
use clockscope_measure::live::watch;

/// Watches until it is interrupted, and prints to standard output or at the end of a file.
pub fn run(output: Option<&Path>) -> i32 {
    let file = match output.map(open).transpose() {
        Ok(file) => file,
        Err(error) => {
            streams::warn_user(&error);
            return exit::UNKNOWN;
        }
    };
    let watched = match file {
        Some(mut file) => watch::run(&mut |line| file.write_all(line.as_bytes())),
        None => watch::run(&mut streams::print_line),
    };
    match watched {
        Ok(()) => exit::OK,
        // A reader that left has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::OK,
        Err(error) => {
            streams::warn_user(&format!("cannot go on watching: {error}; try -o FILE elsewhere"));
            exit::UNKNOWN
        }
    }
}

fn open(path: &Path) -> Result<File, String> {
    let file = OpenOptions::new().append(true).create(true).open(path);
    file.map_err(|error| {
        format!("cannot write to {}: {error}; try -o FILE elsewhere", path.display())
    })
}

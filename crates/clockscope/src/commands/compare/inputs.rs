//! The files of `compare`: read, told apart, and parsed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};

use crate::cli::measure::CompareArgs;
use clockscope_report::compare::bench_file;
use clockscope_report::compare::judge::{Content, Source, check_alike, kind};
use clockscope_report::compare::plain::{self, PlainFormat};
use clockscope_report::compare::traces::{TraceSource, trace_file};

/// What is compared.
pub(super) enum Inputs {
    /// Sets of numbers, or results of `bench`; at least one.
    Measurements(Vec<Source>),
    /// Two reports of `trace`.
    Traces(Box<TraceSource>, Box<TraceSource>),
}

/// Reads all files.
///
/// # Errors
///
/// One line: which file, what is wrong with it and what to try.
pub(super) fn sources(args: &CompareArgs) -> Result<Inputs> {
    check_standard_input(args)?;
    let format = plain_format(args)?;
    let (mut measured, mut traced) = (Vec::new(), Vec::new());
    for path in &args.files {
        match source(path, &format, args)? {
            Input::Measurement(source) => measured.push(source),
            Input::Trace(source) => traced.push(source),
        }
    }
    if let (Some(measured), Some(traced)) = (measured.first(), traced.first()) {
        bail!(
            "{} has {} and {} has a report of clockscope trace; compare files of one kind",
            measured.file,
            kind(&measured.content),
            traced.file
        );
    }
    if measured.is_empty() {
        return match <[Box<TraceSource>; 2]>::try_from(traced) {
            Ok([before, after]) => Ok(Inputs::Traces(before, after)),
            Err(traced) if traced.len() == 1 => bail!(
                "{} is one report of clockscope trace, and two are compared; to look at one: clockscope view",
                traced[0].file
            ),
            Err(traced) => bail!(
                "these are {} reports of clockscope trace, and two are compared; name two of them",
                traced.len()
            ),
        };
    }
    check_alike(&measured).map_err(|why| anyhow!(why))?;
    Ok(Inputs::Measurements(measured))
}

/// Standard input can be read once only.
pub(super) fn check_standard_input(args: &CompareArgs) -> Result<()> {
    if args.files.iter().filter(|path| is_standard_input(path)).count() > 1 {
        bail!("standard input (-) is named twice and can be read once; save it to a file first");
    }
    Ok(())
}

/// How plain files are read.
fn plain_format(args: &CompareArgs) -> Result<PlainFormat> {
    let mut format = PlainFormat::default();
    if let Some(column) = args.column {
        format.column = column;
    }
    if let Some(delimiters) = &args.delimiters {
        format.delimiters = delimiters.clone().into_bytes();
    }
    if format.column == 0 {
        bail!("there is no column 0; -C counts from 1");
    }
    if format.delimiters.is_empty() {
        bail!("-d needs at least one character, such as ,");
    }
    Ok(format)
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// The most that is read of a file, in bytes: tens of millions of numbers.
const MAX: u64 = 256 << 20;
/// Bytes by which binary files are known.
const HEAD: u64 = 1 << 16;

/// The bytes of a file, or of standard input; of a binary one only the beginning, because there are
/// devices without end.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if is_standard_input(path) {
        read_from(io::stdin().lock())
    } else {
        read_from(File::open(path)?)
    }
}

fn read_from(mut file: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    (&mut file).take(HEAD).read_to_end(&mut bytes)?;
    if !bytes.contains(&0) {
        file.take(MAX).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > MAX {
        let most = MAX >> 20;
        return Err(io::Error::other(format!("it is longer than {most} MiB; compare parts of it")));
    }
    Ok(bytes)
}

/// A file, told by its content.
enum Input {
    Measurement(Source),
    Trace(Box<TraceSource>),
}

fn source(path: &Path, format: &PlainFormat, args: &CompareArgs) -> Result<Input> {
    let name =
        if is_standard_input(path) { "standard input".into() } else { path.display().to_string() };
    let bytes = read(path).with_context(|| format!("cannot read {name}"))?;
    let file = path.display().to_string();
    if let Some(report) = trace_file::parse(&bytes) {
        let report = report.with_context(|| format!("cannot use {name}"))?;
        return Ok(Input::Trace(Box::new(TraceSource { file, report })));
    }
    let content = content(&bytes, format, args).with_context(|| format!("cannot use {name}"))?;
    Ok(Input::Measurement(Source { file, content }))
}

fn content(bytes: &[u8], format: &PlainFormat, args: &CompareArgs) -> Result<Content> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        bail!("it is empty; it needs a number on each line");
    }
    if bench_file::is_json(bytes) {
        return Ok(Content::Bench(Box::new(bench_file::parse(bytes)?)));
    }
    if bytes.contains(&0) {
        bail!("it is binary; it needs a number on each line, or to be saved by clockscope bench");
    }
    let values = plain::parse(bytes, format)?;
    if values.is_empty() {
        match args.column {
            Some(column) => bail!("no line has a column {column}; see -C and -d"),
            None => bail!("it has no numbers; it needs one on each line"),
        }
    }
    Ok(Content::Plain(values))
}

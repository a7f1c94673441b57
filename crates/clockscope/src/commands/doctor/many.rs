//! `doctor` on many machines: judges archives and folders in parallel, and writes a line of JSON for each.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, bail};

use super::output;
use crate::cli::explain::{DoctorArgs, DoctorFormat};
use crate::printing::streams;
use clock_doctor::report::fleet::{self, MachineLine, Tally};
use clock_doctor::report::model::DoctorReport;
use clock_doctor::root::{self, Root, paths};
use clock_doctor::{collect, rules};
use clockscope_text::foreign::json_document;

/// Limit for lines that wait to be written.
const WAITING: usize = 64;
/// First bytes of a file of doctor's lines.
const LINES_BEGIN: &[u8] = b"{\"schema\":";

/// Whether the options ask for several machines.
pub(super) fn is_asked(args: &DoctorArgs) -> bool {
    args.summary
        || args.resume
        || args.format == DoctorFormat::JsonLines && !args.root.is_empty()
        || args.root.len() > 1
        || args.root.iter().any(|root| root.as_os_str() == "-")
}

/// Judges the machines; returns the exit status of the worst.
///
/// # Errors
///
/// If the options do not fit, or the output cannot be written.
pub(super) fn run(args: &DoctorArgs) -> Result<i32> {
    if args.root.is_empty() {
        bail!("no machines are given; try --root FOLDER, or --root - for a list on standard input");
    }
    match (args.summary, args.format) {
        (true, DoctorFormat::Text | DoctorFormat::Json) => {
            let tally = judge_all(args, &HashSet::new(), &mut |_| Ok(()))?;
            let status = tally.status();
            let summary = tally.summary();
            let printed = match args.format {
                DoctorFormat::Json => json_document(&summary)?,
                _ => fleet::render(&summary),
            };
            output::write(args.output.as_deref(), &printed)?;
            Ok(status)
        }
        (false, DoctorFormat::JsonLines) => lines(args),
        (true, _) => bail!("a summary is text or JSON; try --format json"),
        (false, _) => bail!(
            "of several machines there is a summary or a line each; try --summary or --format json-lines"
        ),
    }
}

/// The line of the machine at `path`, or of this one.
///
/// # Errors
///
/// None that a report can cause.
pub(super) fn line_of(path: Option<&Path>, report: &DoctorReport) -> Result<String> {
    let line = match path {
        Some(path) => MachineLine::of(&path.to_string_lossy(), report),
        None => {
            let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            MachineLine { host: host.trim().to_owned(), ..MachineLine::of("/", report) }
        }
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Writes a line for each machine as soon as it is judged.
fn lines(args: &DoctorArgs) -> Result<i32> {
    let (mut file, before) = match &args.output {
        Some(path) => {
            let opened = open(path, args.resume);
            let (file, lines) =
                opened.with_context(|| format!("cannot write to {}", path.display()))?;
            (Some(file), lines)
        }
        None => (None, Vec::new()),
    };
    let done: HashSet<String> = before.iter().map(|line| line.root.clone()).collect();
    let mut all = Tally::default();
    before.iter().for_each(|line| all.add(line));
    drop(before);
    let mut write = |line: &MachineLine| {
        let text = serde_json::to_string(line).map_err(io::Error::other)? + "\n";
        all.add(line);
        match &mut file {
            Some(file) => file.write_all(text.as_bytes()),
            None => streams::print_line(&text),
        }
    };
    // A reader that closes the pipe has seen enough.
    if let Err(error) = judge_all(args, &done, &mut write)
        && !is_broken_pipe(&error)
    {
        return Err(error);
    }
    let (machines, unreadable) = (all.machines, all.unreadable());
    let before =
        if done.is_empty() { String::new() } else { format!(", {} of them before", done.len()) };
    let noun = if machines == 1 { "machine" } else { "machines" };
    streams::warn_user(&format!("{machines} {noun}{before}; {unreadable} could not be read"));
    Ok(all.status())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Opens the file. With `resume`, reads its lines, and removes a last line that was cut off.
fn open(path: &Path, resume: bool) -> io::Result<(File, Vec<MachineLine>)> {
    let mut file =
        OpenOptions::new().read(resume).write(true).create(true).truncate(!resume).open(path)?;
    let mut lines = Vec::new();
    if resume {
        let mut reader = BufReader::new(&mut file);
        let (mut text, mut whole) = (Vec::new(), 0);
        while reader.read_until(b'\n', &mut text)? > 0 && text.ends_with(b"\n") {
            let line = serde_json::from_slice(&text).map_err(|_| {
                io::Error::other("it holds other text than doctor's lines; give another file")
            })?;
            lines.push(line);
            whole += text.len() as u64;
            text.clear();
        }
        drop(reader);
        file.set_len(whole)?;
        file.seek(io::SeekFrom::Start(whole))?;
    }
    Ok((file, lines))
}

/// Judges all machines that are not in `done`, on all CPUs, and passes each to `take`.
fn judge_all(
    args: &DoctorArgs,
    done: &HashSet<String>,
    take: &mut dyn FnMut(&MachineLine) -> io::Result<()>,
) -> Result<Tally> {
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    let mut found = Vec::new();
    args.root.iter().for_each(|root| given(root, &mut found));
    let found = Mutex::new(found.into_iter());
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        for _ in 0..jobs {
            let (sender, found) = (sender.clone(), &found);
            scope.spawn(move || work(found, done, &sender));
        }
        drop(sender);
        // If this ends early, the receiver is gone, and each worker ends at its next line.
        receiver.into_iter().try_for_each(|line| {
            tally.add(&line);
            take(&line)
        })
    })?;
    Ok(tally)
}

/// A worker; ends when there are no more machines, or the receiver is gone.
fn work(
    found: &Mutex<impl Iterator<Item = Found>>,
    done: &HashSet<String>,
    sender: &SyncSender<MachineLine>,
) {
    loop {
        let next = found.lock().unwrap_or_else(PoisonError::into_inner).next();
        let is_taken = match next {
            None => return,
            Some(Found::Line(line)) => done.contains(&line.root) || sender.send(*line).is_ok(),
            Some(Found::Machine(path)) => {
                let name = path.to_string_lossy();
                done.contains(&*name) || sender.send(line(&path, &name)).is_ok()
            }
        };
        if !is_taken {
            return;
        }
    }
}

/// The line of one machine, for any content of its files.
fn line(path: &Path, name: &str) -> MachineLine {
    let judged = panic::catch_unwind(AssertUnwindSafe(|| {
        let root = Root::open(path)?;
        let facts = collect::facts(&root);
        io::Result::Ok(MachineLine::of(name, &DoctorReport::new(&facts, &rules::examine(&facts))))
    }));
    match judged {
        Ok(Ok(line)) => line,
        Ok(Err(error)) => MachineLine::unreadable(name, &error.to_string()),
        Err(_) => MachineLine::unreadable(name, "doctor failed on it, which is a fault of doctor"),
    }
}

/// A machine to judge, or a finished line.
enum Found {
    /// A machine's archive or folder.
    Machine(PathBuf),
    /// A machine that was judged before, or a path that cannot be read.
    Line(Box<MachineLine>),
}

impl Found {
    fn unreadable(path: &Path, why: &str) -> Found {
        Found::Line(Box::new(MachineLine::unreadable(&path.to_string_lossy(), why)))
    }
}

/// Adds the machines of an argument: those at a path, or at each path of standard input.
fn given(root: &Path, found: &mut Vec<Found>) {
    if root.as_os_str() != "-" {
        return look(root, true, found);
    }
    // What was read before an error counts.
    let mut list = Vec::new();
    let _ = io::stdin().read_to_end(&mut list);
    for path in list.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end) {
        if !path.is_empty() {
            look(Path::new(OsStr::from_bytes(path)), true, found);
        }
    }
}

/// Adds the machines at a path: an archive or a machine's folder, those in a folder in the order of names, or those of a
/// file of doctor's lines, if it was given itself.
fn look(path: &Path, is_given: bool, found: &mut Vec<Found>) {
    let metadata = fs::metadata(path).ok();
    let is = |kind: fn(&Metadata) -> bool| metadata.as_ref().is_some_and(kind);
    if is(Metadata::is_dir) && !root::is_machine(path) {
        let entries =
            fs::read_dir(path).and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
        let mut entries: Vec<PathBuf> = match entries {
            Ok(entries) => entries,
            Err(error) => return found.push(Found::unreadable(path, &error.to_string())),
        };
        // A link to a folder may lead back, and a folder may hold other files.
        entries.retain(|entry| !entry.is_symlink() || entry.is_file());
        entries.retain(|entry| entry.is_dir() || paths::is_archive(&entry.to_string_lossy()));
        entries.sort();
        entries.iter().for_each(|entry| look(entry, false, found));
    } else if is_given
        && is(Metadata::is_file)
        && let Some(lines) = lines_of(path)
    {
        found.extend(lines);
    } else {
        found.push(Found::Machine(path.to_owned()));
    }
}

/// The machines of a file, if it holds doctor's lines, up to one that cannot be read.
fn lines_of(path: &Path) -> Option<Vec<Found>> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; LINES_BEGIN.len()];
    file.read_exact(&mut head).ok().filter(|()| head == LINES_BEGIN)?;
    file.rewind().ok()?;
    let mut found = Vec::new();
    for text in BufReader::new(file).lines() {
        match text.and_then(|text| Ok(serde_json::from_str(&text)?)) {
            Ok(line) => found.push(Found::Line(line)),
            Err(why) => {
                let why = format!("a line of it is none of doctor's: {why}");
                found.push(Found::unreadable(path, &why));
                break;
            }
        }
    }
    Some(found)
}

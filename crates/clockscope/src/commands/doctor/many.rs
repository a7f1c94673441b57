//! `doctor` on many machines: judges archives and folders in parallel, and writes a line of JSON for each.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
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
use clock_doctor::collect;
use clock_doctor::report::fleet::{self, MachineLine, Tally};
use clock_doctor::report::model::DoctorReport;
use clock_doctor::root::{self, Root, paths};
use clock_doctor::rules;
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
    let (machines, unreadable) = (all.machines(), all.unreadable());
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
    let walk = Mutex::new(Walk::of(&args.root));
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(WAITING);
        for _ in 0..jobs {
            let (sender, walk) = (sender.clone(), &walk);
            scope.spawn(move || work(walk, done, &sender));
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
fn work(walk: &Mutex<Walk>, done: &HashSet<String>, sender: &SyncSender<MachineLine>) {
    loop {
        let next = walk.lock().unwrap_or_else(PoisonError::into_inner).next();
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

/// A step of the walk: a machine to judge, or a finished line.
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

/// Finds machines: in the order of the arguments, and in folders in the order of names.
#[derive(Default)]
struct Walk {
    /// Paths of the arguments that are still to be visited.
    given: VecDeque<PathBuf>,
    /// The rest of standard input.
    list: Option<Box<dyn BufRead + Send>>,
    /// The rest of a file of lines.
    lines: Option<(PathBuf, BufReader<File>)>,
    /// Entries of folders that are still to be visited, the next one last.
    inside: Vec<PathBuf>,
}

impl Walk {
    fn of(roots: &[PathBuf]) -> Walk {
        Walk { given: roots.iter().cloned().collect(), ..Walk::default() }
    }

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(found) = self.next_line() {
                return Some(found);
            }
            let (path, is_given) = match self.inside.pop() {
                Some(path) => (path, false),
                None => (self.next_given()?, true),
            };
            if let Some(found) = self.look(path, is_given) {
                return Some(found);
            }
        }
    }

    /// The next path of the arguments or of standard input.
    fn next_given(&mut self) -> Option<PathBuf> {
        loop {
            if let Some(list) = &mut self.list {
                let mut path = Vec::new();
                if list.read_until(b'\n', &mut path).is_ok_and(|length| length > 0) {
                    match path.trim_ascii_end() {
                        [] => continue,
                        path => return Some(PathBuf::from(OsStr::from_bytes(path))),
                    }
                }
                self.list = None;
            }
            let path = self.given.pop_front()?;
            if path.as_os_str() != "-" {
                return Some(path);
            }
            self.list = Some(Box::new(BufReader::new(io::stdin())));
        }
    }

    /// The next machine of a file of lines.
    fn next_line(&mut self) -> Option<Found> {
        let (path, mut reader) = self.lines.take()?;
        let mut text = Vec::new();
        let line = match reader.read_until(b'\n', &mut text) {
            Ok(0) => return None,
            Ok(_) => serde_json::from_slice(&text).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        Some(match line {
            Ok(line) => {
                self.lines = Some((path, reader));
                Found::Line(line)
            }
            Err(why) => {
                Found::unreadable(&path, &format!("a line of it is none of doctor's: {why}"))
            }
        })
    }

    /// The machine at a path; or `None` for a folder or a file of lines, whose machines come next.
    fn look(&mut self, path: PathBuf, is_given: bool) -> Option<Found> {
        let Ok(metadata) = fs::metadata(&path) else { return Some(Found::Machine(path)) };
        if metadata.is_dir() && !root::is_machine(&path) {
            let entries = fs::read_dir(&path)
                .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
            let mut entries: Vec<PathBuf> = match entries {
                Ok(entries) => entries,
                Err(error) => return Some(Found::unreadable(&path, &error.to_string())),
            };
            // A link to a folder may lead back, and a folder may hold other files.
            entries.retain(|entry| !entry.is_symlink() || entry.is_file());
            entries.retain(|entry| entry.is_dir() || paths::is_archive(&entry.to_string_lossy()));
            entries.sort_by(|one, other| other.cmp(one));
            self.inside.extend(entries);
            return None;
        }
        if is_given
            && metadata.is_file()
            && let Some(reader) = lines_of(&path)
        {
            self.lines = Some((path, reader));
            return None;
        }
        Some(Found::Machine(path))
    }
}

/// The file, if it holds doctor's lines.
fn lines_of(path: &Path) -> Option<BufReader<File>> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; LINES_BEGIN.len()];
    file.read_exact(&mut head).ok()?;
    file.rewind().ok()?;
    (head == LINES_BEGIN).then(|| BufReader::new(file))
}

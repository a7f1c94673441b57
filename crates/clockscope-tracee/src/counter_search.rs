//! Looks for instructions that read the CPU's counter in the files that traced programs execute, while they run.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::site_files::{FILE_MAX, FileKey, VDSO, executed, is_system, open};
use clockscope_sites::{counter_reads, functions_at};
use clockscope_sys::{access, proc_text};

/// Time before the first look, in which the tracer needs the CPUs for the start, and the longest time between looks.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);
/// A process is looked at after 1, 2, 4 and 8 looks at all, and then each time after this many: a second or more.
const EACH: u32 = 16;
/// Each thread may have children. Those of a process with more threads are looked for only when the process is looked at.
const FEW: usize = 32;
/// The search of a large file delays the report by at most this long. Short programs have libraries of the system, too,
/// which are therefore searched only from the time on when looks are rare.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file with instructions that read the counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterReads {
    /// Its path, in the mount namespace of the program.
    pub path: String,
    /// Number of the instructions; `None` if the program ended before the file had been searched.
    pub places: Option<u64>,
    /// Names of the functions that contain them, as the linker knows them.
    pub functions: Vec<String>,
    /// Whether it is a shared library in a directory in which the dynamic loader looks (`ld.so(8)`).
    pub is_system: bool,
}

/// Processes that are searched besides the named ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// No others.
    None,
    /// All descendants.
    Descendants,
    /// The descendants that this process traces.
    Traced,
}

/// A search that goes on in a thread.
#[derive(Debug)]
pub struct CounterSearch {
    found: Arc<Mutex<Vec<CounterReads>>>,
    /// Dropped to end the search.
    ends: Sender<()>,
    /// Closed when it has ended.
    ended: Receiver<()>,
}

impl CounterSearch {
    /// Searches the program at this path, which may end before its files can be seen, and the files of these processes.
    /// `None` if no thread can be made.
    pub fn start(program: Option<&Path>, processes: Vec<i32>, and: Others) -> Option<Self> {
        let (ends, until) = channel();
        let (ending, ended) = channel();
        let found = Arc::default();
        let path = program.and_then(|program| program.canonicalize().ok());
        let mut search = Search {
            own: program
                .and_then(|_| std::env::current_exe().ok())
                .filter(|own| Some(own) != path.as_ref()),
            program: path,
            processes,
            and,
            seen: HashMap::new(),
            files: HashSet::new(),
            and_system: false,
            found: Arc::clone(&found),
        };
        let work = move || {
            search.run(&until);
            drop(ending);
        };
        std::thread::Builder::new().name("counter".to_owned()).spawn(work).ok()?;
        Some(Self { found, ends, ended })
    }

    /// Ends the search, after a last look at processes that ran before it.
    pub fn finish(self) -> Vec<CounterReads> {
        drop(self.ends);
        let _ = self.ended.recv_timeout(PATIENCE);
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Search {
    program: Option<PathBuf>,
    /// This process's own file, which a child executes before it executes the program.
    own: Option<PathBuf>,
    processes: Vec<i32>,
    and: Others,
    /// How often each process has been seen, and with how many threads.
    seen: HashMap<i32, (u32, usize)>,
    /// Files that have been searched.
    files: HashSet<FileKey>,
    /// Whether libraries of the system are searched by now.
    and_system: bool,
    found: Arc<Mutex<Vec<CounterReads>>>,
}

impl Search {
    fn run(&mut self, until: &Receiver<()>) {
        let mut rest = FIRST;
        let mut goes_on = until.recv_timeout(rest) == Err(RecvTimeoutError::Timeout);
        if let Some(program) = &self.program
            && let Ok(file) = File::open(program)
            && let Ok(about) = file.metadata()
            && about.is_file()
            && about.len() <= FILE_MAX
        {
            self.search(program.to_string_lossy().into_owned(), &file, about.len());
        }
        while goes_on {
            self.look(false);
            rest = LONGEST.min(rest * 2);
            self.and_system = rest == LONGEST;
            goes_on = until.recv_timeout(rest) == Err(RecvTimeoutError::Timeout);
        }
        // The number of a launched program that has ended may be another's by now.
        if self.and != Others::Descendants {
            self.and_system = true;
            self.look(true);
        }
    }

    /// Looks at the processes whose turn it is, or at all.
    fn look(&mut self, at_all: bool) {
        let mut open = self.processes.clone();
        while let Some(pid) = open.pop() {
            let (looks, threads) = self.seen.entry(pid).or_default();
            *looks += 1;
            let is_due = at_all || looks.is_power_of_two() || looks.is_multiple_of(EACH);
            if self.and != Others::None && (is_due || *threads <= FEW) {
                let all = access::threads_of(pid);
                *threads = all.len();
                for thread in all {
                    let children = proc_text::read(format!("/proc/{pid}/task/{thread}/children"));
                    let children = children.unwrap_or_default();
                    open.extend(children.split(' ').filter_map(|child| child.parse::<i32>().ok()));
                }
            }
            let is_asked_for = self.and != Others::Traced || self.processes.contains(&pid);
            if is_due && (is_asked_for || is_traced(pid)) {
                self.look_at(pid);
            }
        }
    }

    /// Searches the files that a process executes and that have not been seen yet.
    fn look_at(&mut self, pid: i32) {
        let maps = proc_text::read(format!("/proc/{pid}/maps")).unwrap_or_default();
        for mapping in maps.lines().filter_map(executed) {
            let is_new = mapping.name != VDSO
                && (self.and_system || !is_system(Path::new(&mapping.name)))
                && ![&self.program, &self.own]
                    .iter()
                    .any(|it| it.as_deref() == Some(Path::new(&mapping.name)))
                && self.files.insert(mapping.key.clone());
            if is_new && let Some((file, length)) = open(pid, &mapping) {
                self.search(mapping.name, &file, length);
            }
        }
    }

    fn search(&self, path: String, file: &File, length: u64) {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_system = is_system(Path::new(&path));
        found().push(CounterReads { path, places: None, functions: Vec::new(), is_system });
        let (places, functions) = searched(file, length).unwrap_or_default();
        let mut found = found();
        match found.last_mut() {
            Some(row) if places > 0 => (row.places, row.functions) = (Some(places), functions),
            _ => drop(found.pop()),
        }
    }
}

/// Whether this process traces another.
fn is_traced(pid: i32) -> bool {
    let status = proc_text::read(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = proc_text::field(&status, "TracerPid:").and_then(|tracer| tracer.parse().ok());
    tracer == Some(std::process::id())
}

/// Number of the instructions, and names of their functions; `None` if there are none.
fn searched(file: &File, length: u64) -> Option<(u64, Vec<String>)> {
    let places = counter_reads(file, length).ok().filter(|places| !places.is_empty())?;
    let mut functions: Vec<String> = functions_at(file, &places).into_iter().flatten().collect();
    let mut seen = HashSet::new();
    functions.retain(|name| seen.insert(name.clone()));
    Some((places.len() as u64, functions))
}

//! Counts system calls inside the program, by jumps in front of its `syscall` instructions (`clockscope-sites`).
//!
//! The tracer writes code only where no thread can stand: into the program and its loader before their first
//! instruction, and into all libraries when the loader has mapped them and before any of their code runs. From then on
//! clockscope makes no system call in the program. Files that it maps later stay as they are and are named; the tracer
//! looks for them when the stubs have noted a call that makes memory executable. It changes memory only, and writes a
//! stub before the jump to it. If the tracer dies in between, the program still works and fewer calls are counted.
//!
//! If a signal arrives while a thread is in a stub, the tracer delivers the signal after the thread has left the stub.
//! Signal handlers that inspect the interrupted address (unwinding, the cancellation of threads, restartable sequences)
//! therefore find the program's own code.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Instant;

use super::arch::{counter_read, set_stub_thread, stub_thread};
use super::areas::{InProcess, OldArea, What, own_code, text_of};
use super::counted_places::CountedPlaces;
use super::forbidden_counter;
use super::processes::Process;
use super::site_files::{Executed, FileKey, FileState, VDSO, executed, found_in, wanted};
use super::site_words::SiteWords;
use clockscope_sites::{Found, MADE_CODE, MAPPED, OTHERS, SEEN, Wanted, Why};
use clockscope_sys::memory;
use clockscope_sys::proc_text;
use clockscope_sys::ptrace::{self, Registers, SignalInfo, SyscallStop};
use clockscope_sys::room;
use clockscope_text::units;
use object::{Object as _, ObjectSymbol as _};
use vdso_image::layout::{AREAS, INSTALL_MARK, INSTALL_NOTICE, PAGE, Shared};
use vdso_reader::maps::Mapping;
use vdso_reader::{Class, auxv, maps};

const SYS_MPROTECT: u64 = libc::SYS_mprotect.unsigned_abs();
const SYS_EXIT_GROUP: u64 = libc::SYS_exit_group.unsigned_abs();
const PROT_READ: u64 = 1;
/// A kind of thing that is not counted, in singular and plural.
type Lost = (&'static str, &'static str);
const NO_ROOM: Lost = (
    "program with no room for code near it, or below a seccomp filter",
    "programs with no room for code near them, or below a seccomp filter",
);
/// A program without the shim.
pub(crate) const NO_SHIM: Lost = ("program without the shim", "programs without the shim");
const UNREADABLE: Lost = ("file that could not be read", "files that could not be read");
const NO_FILE: Lost = (
    "executable mapping without a file, if code in it makes any",
    "executable mappings without a file, if code in them makes any",
);
/// The kernel has not stopped a thread at its end (`ptrace_stop`, kernel/signal.c, Linux 6.18): it was killed at the end
/// of a call of `exit` or `exit_group`.
const KILLED: Lost = (
    "thread that was killed in its exit_group or exit",
    "threads that were killed in their exit_group or exit",
);

/// Files and processes of a session in which system calls are counted.
#[derive(Debug, Default)]
pub struct Sites {
    files: HashMap<(FileKey, Option<FileState>), Option<Rc<Found>>>,
    pub(crate) ahead: Option<Ahead>,
    pub(crate) counted_places: CountedPlaces,
    awaited: HashMap<i32, Awaited>,
    /// By file.
    left: BTreeMap<(String, What), BTreeMap<Why, u64>>,
    lost: BTreeMap<Lost, u64>,
    /// Executable files that were not looked at.
    unseen: BTreeSet<String>,
    /// Files mapped as executable that the tracer has looked at.
    seen: u64,
    /// Threads that have stopped at their end.
    ending: HashSet<i32>,
    /// Whether calls are timed.
    times: bool,
    wanted: Wanted,
    /// The time before which no further look at the jumps is taken.
    jumps_rest_until: Option<Instant>,
}

/// A file that is searched before a process maps it.
#[derive(Debug)]
pub struct Ahead {
    key: (FileKey, Option<FileState>),
    found: JoinHandle<Option<Found>>,
}

impl Ahead {
    /// Starts with this process's C library, because most programs use the same one and must wait for the result. `None` if
    /// there is none, or no memory for it. Call it when the program's process exists, because it starts a thread.
    pub fn begin(counters: bool) -> Option<Self> {
        let wanted = wanted(counters);
        if room::has_few_addresses() {
            return None;
        }
        let maps = proc_text::read("/proc/self/maps").ok()?;
        let mut mappings = maps.lines().filter_map(executed);
        let mapping = mappings.find(|mapping| mapping.name.contains("/libc.so."))?;
        let own = std::process::id().cast_signed();
        let key = (mapping.key.clone(), mapping.state(own));
        let look = move || found_in(own, &mapping, wanted);
        let found = std::thread::Builder::new().name("sites".to_owned()).spawn(look).ok()?;
        Some(Self { key, found })
    }
}

/// The event that a thread must stop for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// The signal that the thread sends itself at the end of the installer.
    Told,
    /// The installer's last system call, where the thread may not send itself that signal.
    Installed,
    /// The same signal before the loader first makes data read-only: all libraries are mapped.
    ToldOfLibraries,
    /// That system call, where the thread may not send itself the signal.
    Libraries,
}

impl Awaited {
    /// Whether the program has not started yet.
    fn is_start(self) -> bool {
        matches!(self, Self::Told | Self::Installed)
    }
}

/// Whether this is the installer's last system call, apart from the calls that send the signal. By then the areas are
/// mapped, and the auxiliary vector names the image.
fn is_last(number: u64, arguments: &[u64; 6]) -> bool {
    let [_, size, access, .., mark] = *arguments;
    number == SYS_MPROTECT && (size, access, mark) == (PAGE as u64, PROT_READ, INSTALL_MARK)
}

/// Whether a thread has just sent itself the signal, at the end of the installer or in a stub.
fn has_told(registers: &Registers) -> bool {
    registers.call_number() == libc::SYS_tgkill.unsigned_abs()
        && registers.argument(5) == INSTALL_MARK
}

impl Sites {
    /// Counts what is `wanted`. Times some of the calls if `times`.
    pub(crate) fn new(times: bool, wanted: Wanted) -> Self {
        Self { times, wanted, ..Self::default() }
    }

    /// A program is about to start in `process`, with areas at `places`. If `tells`, its thread sends itself a signal
    /// after mapping them.
    pub(crate) fn begin(&mut self, process: &mut Process, places: [u64; AREAS], tells: bool) {
        if places == [0; AREAS] {
            return self.lose(NO_ROOM);
        }
        process.sites = InProcess::at(places);
        let awaited = if tells { Awaited::Told } else { Awaited::Installed };
        self.awaited.insert(process.pid, awaited);
    }

    /// Notes a program or file that is not counted.
    pub(crate) fn lose(&mut self, why: Lost) {
        *self.lost.entry(why).or_default() += 1;
    }

    /// A thread or process is gone, or executes another program.
    pub(crate) fn forget(&mut self, task: i32) {
        if self.awaited.remove(&task).is_some_and(Awaited::is_start) {
            self.lose(NO_SHIM);
        }
    }

    /// Whether the thread must stop at its next system call.
    pub(crate) fn is_awaited(&self, thread: i32) -> bool {
        let awaited = self.awaited.get(&thread);
        awaited.is_some_and(|it| matches!(it, Awaited::Installed | Awaited::Libraries))
    }

    /// Handles a thread that has stopped at a system call.
    pub(crate) fn at_syscall(&mut self, process: &mut Process, thread: i32) {
        match (self.awaited.get(&thread), ptrace::syscall_info(thread)) {
            (Some(Awaited::Installed), Ok(SyscallStop::Entry { number, arguments, .. })) => {
                if is_last(number, &arguments) {
                    self.start(process, thread, Awaited::Libraries);
                } else if arguments[5] != INSTALL_MARK {
                    // The image was not installed.
                    self.forget(thread);
                }
            }
            (Some(Awaited::Libraries), Ok(SyscallStop::Entry { number, arguments, .. })) => {
                if number == SYS_MPROTECT
                    && arguments[2] == PROT_READ
                    && arguments[5] != INSTALL_MARK
                {
                    self.look_at_libraries(process, thread);
                }
            }
            (_, Ok(SyscallStop::Entry { .. } | SyscallStop::Exit { .. })) => {}
            (_, Ok(SyscallStop::Other) | Err(_)) => self.forget(thread),
        }
    }

    /// Writes jumps into all files that the program has mapped before it starts.
    ///
    /// Then `next` is awaited, if the loader is certain to make data read-only.
    fn start(&mut self, process: &mut Process, thread: i32, next: Awaited) {
        let (Some(image), Some(pages)) = (process.image(thread), process.pages.clone()) else {
            return self.forget(thread);
        };
        self.awaited.remove(&thread);
        let pid = process.pid;
        if let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) {
            let (memory, mappings) = (text_of(pid).ok(), maps::parse(&text));
            let (memory, auxv) = ((pid, memory.as_ref()), auxiliary(pid));
            process.sites.begin(memory, (image, &[]), &mappings, self.times);
            let files = self.patch(memory, &text, &auxv, &mut process.sites, None);
            if has_telling_loader(&auxv, &mappings, &files)
                && (next == Awaited::Libraries || process.sites.awaits_libraries(thread).is_ok())
            {
                self.awaited.insert(thread, next);
            }
        }
        process.sites.give_part(thread, &pages);
    }

    /// Writes jumps into the libraries that the loader has mapped.
    fn look_at_libraries(&mut self, process: &mut Process, thread: i32) {
        self.awaited.remove(&thread);
        let pid = process.pid;
        if let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) {
            let memory = text_of(pid).ok();
            let auxv = auxiliary(pid);
            self.patch((pid, memory.as_ref()), &text, &auxv, &mut process.sites, None);
        }
        let [files, _] = noted(process);
        self.seen = self.seen.saturating_add(files.saturating_sub(process.sites.noted[0]));
        process.sites.noted[0] = files;
    }

    /// Reads all executable files of a process, so that later look-ups are fast.
    pub fn look_at_files(&mut self, pid: i32) {
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return };
        for mapping in text.lines().filter_map(executed) {
            self.found(pid, &mapping);
        }
    }

    /// Starts counting in a process that is already running, with all threads stopped, in areas that may have been
    /// mapped. `old` are areas of an earlier session.
    pub fn enter(
        &mut self,
        pid: i32,
        image: u64,
        places: [u64; AREAS],
        old: &[OldArea],
    ) -> InProcess {
        let mut sites = InProcess::at(places);
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return sites };
        let memory = text_of(pid).ok();
        let memory = (pid, memory.as_ref());
        sites.begin(memory, (image, old), &maps::parse(&text), self.times);
        if sites.is_empty() {
            self.lose(NO_ROOM);
        } else {
            self.patch(memory, &text, &auxiliary(pid), &mut sites, Some(old));
        }
        sites
    }

    /// Writes jumps into the mappings in `text`, a list of mappings, that are not known. Returns their files.
    fn patch(
        &mut self,
        (pid, memory): (i32, Option<&File>),
        text: &str,
        auxv: &Auxv,
        sites: &mut InProcess,
        old: Option<&[OldArea]>,
    ) -> Vec<(String, Rc<Found>)> {
        let has_no_linker = value(auxv, libc::AT_BASE) == Some(0);
        let mut files = Vec::new();
        for mapping in text.lines().filter_map(executed) {
            if Rc::make_mut(&mut sites.known).insert(mapping.start, mapping.name.clone()).is_some()
            {
                continue;
            }
            let Some(found) = self.found(pid, &mapping) else {
                self.lose(UNREADABLE);
                continue;
            };
            let patched = if has_no_linker && is_foreign(pid, &mapping) {
                found.sites.iter().map(|site| (What::of(site), Why::Foreign)).collect()
            } else {
                sites.patch((pid, memory), &mapping, &found, old)
            };
            self.leave(&mapping.name, patched);
            files.push((mapping.name, found));
        }
        files
    }

    /// Notes how many instructions of a file are not counted.
    fn leave(&mut self, file: &str, instructions: Vec<(What, Why)>) {
        let mut of_mapping: BTreeMap<(What, Why), u64> = BTreeMap::new();
        for of in instructions {
            *of_mapping.entry(of).or_default() += 1;
        }
        // Other processes may have mapped the same file; keep the maximum.
        for ((what, why), instructions) in of_mapping {
            let left = self.left.entry((file.to_owned(), what)).or_default();
            let known = left.entry(why).or_default();
            *known = instructions.max(*known);
        }
    }

    /// The sites in a mapped file; `None` if the file cannot be read, or has been replaced since.
    fn found(&mut self, pid: i32, mapping: &Executed) -> Option<Rc<Found>> {
        let key = (mapping.key.clone(), mapping.state(pid));
        if let Some(known) = self.files.get(&key) {
            return known.clone();
        }
        let found = match self.ahead.take_if(|ahead| ahead.key == key) {
            Some(ahead) => ahead.found.join().expect("looking into a file does not panic"),
            None => found_in(pid, mapping, self.wanted),
        };
        let found = found.map(|mut found| {
            self.counted_places.add(pid, mapping, &mut found.sites);
            Rc::new(found)
        });
        self.files.insert(key, found.clone());
        found
    }

    /// Suppresses a signal that was meant for the tracer. Returns whether it was.
    pub(crate) fn takes(&mut self, process: &mut Process, thread: i32, signal: i32) -> bool {
        let awaited = self.awaited.get(&thread).copied().filter(|_| signal == INSTALL_NOTICE);
        // Other senders' signals are ignored until then, because the program has no handlers yet. They may come at the same
        // place, too.
        let Some(registers) = ptrace::registers(thread).ok().filter(has_told) else { return false };
        let in_stub = process.sites.areas.iter().any(|area| area.holds(registers.pc()));
        match awaited {
            Some(Awaited::Told) => self.start(process, thread, Awaited::ToldOfLibraries),
            Some(Awaited::ToldOfLibraries) if in_stub => self.look_at_libraries(process, thread),
            _ => return false,
        }
        true
    }

    /// Moves a thread that has stopped for a signal out of a stub, by a change of its registers, unless an instruction of
    /// the stub has faulted.
    pub(crate) fn leave_stub(&mut self, process: &Process, thread: i32) {
        let Ok(mut registers) = ptrace::registers(thread) else { return };
        let pc = registers.pc();
        let Some(area) = process.sites.areas.iter().find(|area| area.holds(pc)) else { return };
        if SignalInfo::of(thread).is_ok_and(|info| info.is_fault()) {
            return;
        }
        let read = |address: u64| memory::read_u64(thread, address).ok();
        let Some(settled) = area.settled(stub_thread(&registers), &read) else { return };
        let is_free = settled.place.is_none_or(|at| memory::write(thread, at, &[0; 8]).is_ok());
        set_stub_thread(&mut registers, &settled.thread);
        if is_free
            && ptrace::set_registers(thread, &registers).is_ok()
            && let Some(pages) = &process.pages
        {
            let words = &pages.get().sites[SEEN][0];
            if let Some(word) = settled.noted {
                words[word].fetch_sub(1, Relaxed);
            }
            if let Some(word) = settled.again {
                words[word].fetch_add(1, Relaxed);
            }
        }
    }

    /// A signal or stop interrupts a call, so the call is not timed.
    pub(crate) fn is_interrupted(&self, process: &Process, thread: i32) {
        if !self.times || process.sites.is_empty() {
            return;
        }
        let Ok(registers) = ptrace::registers(thread) else { return };
        let stack = registers.sp();
        let place = process.sites.timed_place(stack);
        if memory::read_u64(thread, place).is_ok_and(|taken_by| taken_by == stack) {
            // If the process has ended meanwhile, nothing needs to change.
            let _ = memory::write(thread, place, &0_u64.to_ne_bytes());
        }
    }

    /// A thread ends. With its process ends what the process has mapped. Returns whether it ends by an `exit_group` that
    /// is not counted, because the pages of the process are not known: its parent was killed before it told of the child.
    pub(crate) fn ends(&mut self, process: &mut Process, thread: i32) -> bool {
        self.ending.insert(thread);
        let ends = count_end(process, thread);
        if ends || thread == process.pid {
            self.look_for_unseen(process, thread);
        }
        ends && process.pages.is_none()
    }

    /// A thread is gone.
    pub(crate) fn ended(&mut self, process: &Process, thread: i32) {
        if !self.ending.remove(&thread) && !process.sites.is_empty() {
            self.lose(KILLED);
        }
    }

    /// Looks at the mappings of a process, if it has called for executable memory since the last look and its loader has
    /// mapped all libraries. A process with thousands of mappings cannot change them while they are listed, so looks take
    /// a twentieth of the time at most.
    pub(crate) fn look_again(&mut self, process: &mut Process) {
        let begun = Instant::now();
        let rests = process.sites.rests_until.is_some_and(|until| begun < until);
        if rests || noted(process) == process.sites.noted || self.awaited.contains_key(&process.pid)
        {
            return;
        }
        self.look_for_unseen(process, process.pid);
        process.sites.rests_until = Some(begun + 20 * begun.elapsed());
    }

    /// Gives up jumps that other tools have broken, and names their files. Looks take a twentieth of the time at most.
    pub(crate) fn look_at_jumps<'a>(&mut self, processes: impl Iterator<Item = &'a mut Process>) {
        let begun = Instant::now();
        if self.jumps_rest_until.is_some_and(|until| begun < until) {
            return;
        }
        for process in processes {
            let known = Rc::clone(&process.sites.known);
            // A process that has ended has no jumps.
            let broken = process.sites.give_up_broken(process.pid).into_iter().flatten();
            let broken: Vec<u64> = broken.copied().collect();
            let mut files: BTreeMap<&String, Vec<(What, Why)>> = BTreeMap::new();
            for at in broken {
                if let Some((_, file)) = known.range(..=at).next_back() {
                    let what = What::new(process.sites.areas.iter().any(|it| it.counts_reads(at)));
                    files.entry(file).or_default().push((what, Why::Changed));
                }
            }
            files.into_iter().for_each(|(file, jumps)| self.leave(file, jumps));
        }
        self.jumps_rest_until = Some(begun + 20 * begun.elapsed());
    }

    /// Notes the executable memory of a process that was not looked at.
    pub(crate) fn look_for_unseen(&mut self, process: &mut Process, thread: i32) {
        let path = format!("/proc/{thread}/maps");
        let Some(text) = proc_text::read(path).ok().filter(|_| !process.sites.is_empty()) else {
            return;
        };
        let noted = noted(process);
        let mappings = maps::parse(&text);
        let ours = own_code(thread, &mappings);
        let before = std::mem::take(&mut process.sites.known);
        let mut known = BTreeMap::new();
        let mut files = 0;
        for line in text.lines() {
            let Some(mapping) = maps::parse(line).pop() else { continue };
            // The program may map files into a gap of what is ours.
            let is_file = mapping.name.starts_with('/');
            let is_ours = ["[vdso]", "[vsyscall]"].contains(&&*mapping.name)
                || !is_file && ours.iter().any(|range| range.contains(&mapping.start));
            if is_ours || !mapping.perms.contains('x') {
                continue;
            }
            known.insert(mapping.start, mapping.name.clone());
            if before.get(&mapping.start) == Some(&mapping.name) {
                continue;
            }
            files += u64::from(is_file);
            let found = executed(line).and_then(|file| {
                let found = self.found(process.pid, &file)?;
                Some(process.sites.late(thread, &file, &found))
            });
            if let Some(late) = found {
                self.leave(&mapping.name, late);
            } else if is_file {
                self.unseen.insert(mapping.name);
            } else {
                self.lose(NO_FILE);
            }
        }
        process.sites.known = Rc::new(known);
        // At the end the pages are gone. A mapping that is split is several.
        let calls = noted[0].saturating_sub(process.sites.noted[0]);
        let found = process.sites.balance.look(files, process.pages.as_ref().map(|_| calls));
        self.seen = self.seen.saturating_add(found);
        process.sites.noted = noted;
    }

    /// Handles the fault of a stopped thread if it is the stub's read of the counter, which the program has forbidden
    /// to itself: steps over the read and ends all timing. Returns whether it was.
    pub(crate) fn steps_over_counter(&self, process: &Process, thread: i32) -> bool {
        let Ok(mut registers) = ptrace::registers(thread) else { return false };
        let Some(pages) = &process.pages else { return false };
        if !process.sites.reads_counter(registers.pc()) || !forbidden_counter::is_fault(thread) {
            return false;
        }
        pages.get().header.no_timing.store(1, Relaxed);
        self.is_interrupted(process, thread);
        let mut code = [0; 2];
        memory::read(thread, registers.pc(), &mut code).is_ok()
            && counter_read::step_over(&mut registers, &code)
            && ptrace::set_registers(thread, &registers).is_ok()
    }

    /// Clauses that name the reads of the CPU's counter that were not counted.
    pub(crate) fn lost_counters(&self) -> Vec<String> {
        self.instructions_left(What::CounterRead)
    }

    fn instructions_left(&self, wanted: What) -> Vec<String> {
        let what = if wanted == What::Call { "calls" } else { "reads" };
        let mut clauses = Vec::new();
        for ((file, _), reasons) in self.left.iter().filter(|((_, what), _)| *what == wanted) {
            let mut others = reasons.clone();
            others.retain(|why, sites| *why != Why::SignalReturn && *sites > 0);
            let all = units::counted(others.values().sum(), "instruction", "instructions");
            match others.keys().next() {
                None => {}
                Some(why) if others.len() == 1 => {
                    clauses.push(format!("{what} by {all} of {file}, {why}"));
                }
                Some(_) => {
                    let each = others.iter().map(|(why, sites)| format!("{sites} {why}"));
                    let each: Vec<String> = each.collect();
                    clauses.push(format!("{what} by {all} of {file}: {}", each.join(", ")));
                }
            }
        }
        clauses
    }

    /// Clauses that name the system calls that were not counted.
    pub(crate) fn losses(&self, words: &SiteWords) -> Vec<String> {
        let mut clauses = self.instructions_left(What::Call);
        if self.left.values().any(|reasons| reasons.contains_key(&Why::SignalReturn)) {
            clauses.insert(0, "rt_sigreturn, by which handlers of signals end".to_owned());
        }
        let mut lost = self.lost.clone();
        let unbegun = self.awaited.values().filter(|awaited| awaited.is_start()).count();
        if unbegun > 0 {
            *lost.entry(NO_SHIM).or_default() += unbegun as u64;
        }
        for (why, times) in &lost {
            clauses.push(format!("calls of {}", units::counted(*times, why.0, why.1)));
        }
        let of_file = |file: &String| format!("calls of {file}, which was not looked at");
        clauses.extend(self.unseen.iter().map(of_file));
        let unseen = words.word(SEEN, MAPPED).saturating_sub(self.seen);
        if unseen > 0 {
            let unseen = units::counted(unseen, "library", "libraries");
            clauses.push(format!(
                "calls of {unseen} that the program loaded and unloaded unseen, or could not load"
            ));
        }
        let made = words.word(SEEN, MADE_CODE);
        if made > 0 {
            let times = units::counted(made, "time", "times");
            clauses.push(format!(
                "calls by code that the program made, if it did: it asked for such memory {times}"
            ));
        }
        clauses
    }
}

/// How often a process, and the processes that share its pages, have mapped files and made memory executable.
fn noted(process: &Process) -> [u64; 2] {
    let sites = process.pages.as_ref().map(|pages| &pages.get().sites[SEEN][0]);
    sites.map_or([0; 2], |words| [MAPPED, MADE_CODE].map(|word| words[word].load(Relaxed)))
}

/// A process's auxiliary vector; empty if it cannot be read.
type Auxv = Vec<(u64, u64)>;

fn auxiliary(pid: i32) -> Auxv {
    // The kernel gives all of it at once.
    let mut bytes = [0; PAGE];
    let read = File::open(format!("/proc/{pid}/auxv")).and_then(|mut file| file.read(&mut bytes));
    auxv::parse(&bytes[..read.unwrap_or(0)], Class::Elf64)
}

/// The value of an entry, as by `getauxval(3)`.
fn value(auxv: &Auxv, kind: u64) -> Option<u64> {
    auxv.iter().find(|entry| entry.0 == kind).map(|entry| entry.1)
}

/// Whether the program that starts has a loader that is certain to make data read-only.
fn has_telling_loader(auxv: &Auxv, mappings: &[Mapping], files: &[(String, Rc<Found>)]) -> bool {
    let file_at = |address: u64| {
        let mapping = mappings.iter().find(|it| it.start <= address && address < it.end)?;
        files.iter().find(|(name, _)| *name == mapping.name).map(|(_, found)| &**found)
    };
    let program = value(auxv, libc::AT_PHDR).and_then(file_at);
    match value(auxv, libc::AT_BASE) {
        Some(0) => program.is_some_and(|program| program.tells_of_libraries(None)),
        Some(base) => file_at(base).is_some_and(|loader| loader.tells_of_libraries(program)),
        None => false,
    }
}

/// Whether a program without a dynamic linker has mapped a file that is not its own. A dynamic linker that was started
/// as a program does not count; it has dynamic symbols.
fn is_foreign(pid: i32, mapping: &Executed) -> bool {
    let program = format!("/proc/{pid}/exe");
    let is_its_own = || {
        std::fs::read_link(&program).is_ok_and(|path| {
            // The list of mappings escapes a line end (`show_map_vma`, fs/proc/task_mmu.c, Linux 6.18).
            path.to_string_lossy().replace('\n', "\\012") == mapping.name
        })
    };
    let is_linker = || {
        let file = std::fs::read(&program).unwrap_or_default();
        object::File::parse(&*file)
            .is_ok_and(|file| file.dynamic_symbols().any(|symbol| symbol.is_definition()))
    };
    mapping.name != VDSO && !is_its_own() && !is_linker()
}

/// Counts an `exit_group`, if a thread ends by one, and returns whether it does. What stubs count of these calls is not
/// used.
pub(crate) fn count_end(process: &Process, thread: i32) -> bool {
    let ends = ptrace::registers(thread).is_ok_and(|it| it.call_number() == SYS_EXIT_GROUP);
    if let Some(pages) = process.pages.as_ref().filter(|_| ends) {
        count(pages.get(), SYS_EXIT_GROUP, SEEN);
    }
    ends
}

/// Counts a call that was made before its stub existed, in the words of `kind`.
pub(crate) fn count(pages: &Shared, number: u64, kind: usize) {
    let word = usize::try_from(number).map_or(OTHERS, |number| number.min(OTHERS));
    pages.sites[kind][0][word].fetch_add(1, Relaxed);
}

//! Counts system calls inside the program, by jumps in front of its `syscall` instructions (`clockscope-sites`).
//!
//! The tracer writes code only where no thread can stand: into the program and its interpreter before their first
//! instruction, and into later mappings when the `mmap` returns. It changes memory only, and writes a stub before the
//! jump to it. If the tracer dies in between, the program still works and fewer calls are counted.
//!
//! If a signal arrives while a thread is in a stub, the tracer delivers the signal after the thread has left the stub.
//! Signal handlers that inspect the interrupted address (unwinding, the cancellation of threads, restartable sequences)
//! therefore find the program's own code.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use super::arch::{counter_read, set_stub_thread, stub_thread};
use super::areas::{InProcess, There, own_code, text_of};
use super::forbidden_counter;
use super::processes::Process;
use super::site_files::{Executed, FileKey, VDSO, executed, found_in};
use super::site_words::SiteWords;
use super::stepping;
use clockscope_sites::{Found, MADE_CODE, MAPPED, OTHERS, SEALED, SEEN, Why};
use clockscope_sys::memory;
use clockscope_sys::proc_text;
use clockscope_sys::ptrace::{self, Registers, SignalInfo, SyscallStop};
use clockscope_sys::room;
use clockscope_sys::shm::Segment;
use clockscope_text::units;
use object::{Object as _, ObjectSymbol as _};
use vdso_image::layout::{AREAS, INSTALL_MARK, INSTALL_NOTICE, PAGE, Shared};
use vdso_reader::{Class, auxv, maps};

const SYS_MMAP: u64 = libc::SYS_mmap.unsigned_abs();
const SYS_EXIT_GROUP: u64 = libc::SYS_exit_group.unsigned_abs();
const PROT_READ: u64 = 1;
const PROT_EXEC: u64 = 4;
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
/// Negated results of system calls that the kernel restarts, include/linux/errno.h (Linux 6.18).
const RESTARTS: std::ops::RangeInclusive<u64> = 512..=516;
/// Files and processes of a session in which system calls are counted.
#[derive(Debug, Default)]
pub struct Sites {
    files: HashMap<FileKey, Option<Rc<Found>>>,
    ahead: Option<Ahead>,
    awaited: HashMap<i32, Awaited>,
    left: BTreeMap<String, BTreeMap<Why, u64>>,
    lost: BTreeMap<Lost, u64>,
    /// Executable files that were not looked at.
    unseen: BTreeSet<String>,
    /// Executable mappings that the tracer has handled after a notification, including those that the kernel refused.
    seen: u64,
    /// Whether calls are timed.
    times: bool,
}

/// A file that is read before a process maps it.
#[derive(Debug)]
struct Ahead {
    key: FileKey,
    found: JoinHandle<Option<Found>>,
}

impl Ahead {
    /// Starts with this process's C library, because most programs use the same one and must wait for the result.
    fn begin() -> Option<Self> {
        let maps = proc_text::read("/proc/self/maps").ok()?;
        let mut mappings = maps.lines().filter_map(executed);
        let mapping = mappings.find(|mapping| mapping.name.contains("/libc.so."))?;
        let key = mapping.key.clone();
        let look = move || found_in(std::process::id().cast_signed(), &mapping);
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
    /// The `mmap` that the thread has announced.
    Mapping { entered: bool },
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
    number == libc::SYS_mprotect.unsigned_abs()
        && (size, access, mark) == (PAGE as u64, PROT_READ, INSTALL_MARK)
}

/// Whether a thread has just sent itself the signal at the end of the installer.
fn has_told(registers: &Registers) -> bool {
    registers.call_number() == libc::SYS_tgkill.unsigned_abs()
        && registers.argument(5) == INSTALL_MARK
}

impl Sites {
    /// Counts calls. Times some of them if `times`.
    pub(crate) fn new(times: bool) -> Self {
        Self { times, ..Self::default() }
    }

    /// Reads the C library ahead, because programs are about to be executed.
    pub(crate) fn look_ahead(&mut self) {
        self.ahead = if room::has_few_addresses() { None } else { Ahead::begin() };
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
        self.awaited.get(&thread).is_some_and(|awaited| *awaited != Awaited::Told)
    }

    /// Handles a thread that has stopped at a system call.
    pub(crate) fn at_syscall(&mut self, process: &mut Process, thread: i32) {
        let Some(awaited) = self.awaited.get(&thread).copied() else { return };
        match (awaited, ptrace::syscall_info(thread)) {
            (Awaited::Told, _) | (Awaited::Installed, Ok(SyscallStop::Exit { .. })) => {}
            (Awaited::Installed, Ok(SyscallStop::Entry { number, arguments, .. })) => {
                if is_last(number, &arguments) {
                    self.start(process, thread);
                } else if arguments[5] != INSTALL_MARK {
                    // The image was not installed.
                    self.forget(thread);
                }
            }
            (Awaited::Mapping { .. }, Ok(SyscallStop::Entry { number, arguments, .. })) => {
                let entered = number == SYS_MMAP && arguments[2] & PROT_EXEC != 0;
                self.awaited.insert(thread, Awaited::Mapping { entered });
                self.is_interrupted(process, thread);
            }
            (Awaited::Mapping { entered: false }, Ok(SyscallStop::Exit { .. })) => {}
            (Awaited::Mapping { entered: true }, Ok(SyscallStop::Exit { is_error })) => {
                self.awaited.remove(&thread);
                self.seen += 1;
                let at = ptrace::registers(thread).map(|registers| registers.result());
                let text = proc_text::read(format!("/proc/{}/maps", process.pid));
                if let (false, Ok(at), Ok(text)) = (is_error, at, text) {
                    let is_it = |mapping: &Executed| mapping.start <= at && at < mapping.end;
                    self.patch(process.pid, &text, &mut process.sites, None, is_it);
                }
            }
            (_, Ok(SyscallStop::Other) | Err(_)) => self.forget(thread),
        }
    }

    /// Writes jumps into all files that the program has mapped before it starts.
    fn start(&mut self, process: &mut Process, thread: i32) {
        let (Some(image), Some(pages)) = (process.image(thread), process.pages.clone()) else {
            return self.forget(thread);
        };
        self.awaited.remove(&thread);
        let pid = process.pid;
        if let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) {
            process.sites.begin(pid, image, &maps::parse(&text), self.times);
            self.patch(pid, &text, &mut process.sites, None, |_| true);
        }
        process.sites.give_part(thread, &pages);
    }

    /// Reads all executable files of a process, so that later look-ups are fast.
    pub fn look_at_files(&mut self, pid: i32) {
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return };
        for mapping in text.lines().filter_map(executed) {
            self.found(pid, &mapping);
        }
    }

    /// Starts counting in a process that is already running, in areas that may have been mapped.
    pub fn enter(
        &mut self,
        pid: i32,
        image: u64,
        places: [u64; AREAS],
        pages: &Segment<Shared>,
        there: &There<'_>,
    ) -> InProcess {
        let mut sites = InProcess::at(places);
        if there.is_filtered {
            pages.get().sites[SEEN][0][SEALED].store(1, Relaxed);
        }
        let Ok(text) = proc_text::read(format!("/proc/{pid}/maps")) else { return sites };
        sites.begin(pid, image, &maps::parse(&text), self.times);
        if sites.is_empty() {
            self.lose(NO_ROOM);
        } else {
            self.patch(pid, &text, &mut sites, Some(there), |_| true);
        }
        sites
    }

    /// Writes jumps into the wanted mappings in `text`, a list of mappings.
    fn patch(
        &mut self,
        pid: i32,
        text: &str,
        sites: &mut InProcess,
        there: Option<&There<'_>>,
        wanted: impl Fn(&Executed) -> bool,
    ) {
        let memory = text_of(pid).ok();
        let has_no_linker = has_no_linker(pid);
        for mapping in text.lines().filter_map(executed).filter(wanted) {
            let Some(found) = self.found(pid, &mapping) else {
                self.lose(UNREADABLE);
                continue;
            };
            let patched = if has_no_linker && is_foreign(pid, &mapping) {
                found.sites.iter().map(|_| (Why::Foreign, 1)).collect()
            } else {
                sites.patch((pid, memory.as_ref()), &mapping, &found, there)
            };
            let mut of_mapping: BTreeMap<Why, u64> = BTreeMap::new();
            for (why, sites) in patched {
                *of_mapping.entry(why).or_default() += sites;
            }
            // Other processes may have mapped the same file; keep the maximum.
            let left = self.left.entry(mapping.name).or_default();
            for (why, sites) in of_mapping {
                let known = left.entry(why).or_default();
                *known = sites.max(*known);
            }
        }
    }

    /// The sites in a mapped file; `None` if the file cannot be read, or has been replaced since.
    fn found(&mut self, pid: i32, mapping: &Executed) -> Option<Rc<Found>> {
        if let Some(known) = self.files.get(&mapping.key) {
            return known.clone();
        }
        let found = match self.ahead.take_if(|ahead| ahead.key == mapping.key) {
            Some(ahead) => ahead.found.join().expect("looking into a file does not panic"),
            None => found_in(pid, mapping),
        };
        let found = found.map(Rc::new);
        self.files.insert(mapping.key.clone(), found.clone());
        found
    }

    /// Suppresses a signal that was meant for the tracer. Returns whether it was.
    pub(crate) fn takes(&mut self, process: &mut Process, thread: i32, signal: i32) -> bool {
        if signal == INSTALL_NOTICE && self.awaited.get(&thread) == Some(&Awaited::Told) {
            // Other senders' signals are ignored at this point, because the program has no handlers yet.
            let is_there = ptrace::registers(thread).is_ok_and(|it| has_told(&it));
            if is_there {
                self.start(process, thread);
            }
            return is_there;
        }
        let is_ours = signal == INSTALL_NOTICE
            && SignalInfo::of(thread).is_ok_and(|info| info.queued_value() == Some(INSTALL_MARK));
        if is_ours {
            let at = ptrace::registers(thread).map_or(0, |registers| registers.pc());
            if process.sites.tells_at(at) {
                self.awaited.insert(thread, Awaited::Mapping { entered: false });
            }
        }
        is_ours
    }

    /// Moves a thread that has stopped for a signal out of a stub: by a change of its registers, or, where the stub looks
    /// at arguments, step by step.
    pub(crate) fn leave_stub(&mut self, process: &Process, thread: i32) {
        let areas = &process.sites.areas;
        if areas.is_empty() || settle(process, thread) {
            return;
        }
        // A thread in a system call of the program stays there, because the call may take any time.
        let is_call = |place: &Registers| {
            let is_interrupted = place.call_number().cast_signed() >= 0
                && RESTARTS.contains(&place.result().wrapping_neg());
            let is_next = place.argument(5) != INSTALL_MARK
                && ptrace::is_syscall(thread, place.pc()).unwrap_or(true);
            is_interrupted || is_next
        };
        let is_to_go =
            |place: &Registers| areas.iter().any(|area| area.holds(place.pc())) && !is_call(place);
        stepping::leave(process.pid, thread, is_to_go, |at| {
            // The notification signal waits with all other signals.
            if process.sites.tells_at(at) {
                self.awaited.insert(thread, Awaited::Mapping { entered: false });
            }
        });
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
    pub(crate) fn ends(&mut self, process: &Process, thread: i32) -> bool {
        let ends = count_end(process, thread);
        if ends || thread == process.pid {
            self.look_for_unseen(process, thread);
        }
        ends && process.pages.is_none()
    }

    /// Notes the executable memory of a process that was not looked at.
    pub(crate) fn look_for_unseen(&mut self, process: &Process, thread: i32) {
        let path = format!("/proc/{thread}/maps");
        let Some(text) = proc_text::read(path).ok().filter(|_| !process.sites.is_empty()) else {
            return;
        };
        let mappings = maps::parse(&text);
        let ours = own_code(thread, &mappings);
        for line in text.lines() {
            let Some(mapping) = maps::parse(line).pop() else { continue };
            let is_known = executed(line).is_some_and(|known| self.files.contains_key(&known.key))
                || ["[vdso]", "[vsyscall]"].contains(&&*mapping.name)
                || ours.iter().any(|range| range.contains(&mapping.start));
            if is_known || !mapping.perms.contains('x') {
                continue;
            }
            if mapping.name.starts_with('/') {
                self.unseen.insert(mapping.name);
            } else {
                self.lose(NO_FILE);
            }
        }
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

    /// Clauses that name the system calls that were not counted.
    pub(crate) fn losses(&self, words: &SiteWords) -> Vec<String> {
        let mut clauses = Vec::new();
        if self.left.values().any(|reasons| reasons.contains_key(&Why::SignalReturn)) {
            clauses.push("rt_sigreturn, by which handlers of signals end".to_owned());
        }
        for (file, reasons) in &self.left {
            let others = reasons.iter().filter(|(why, _)| **why != Why::SignalReturn);
            for (why, sites) in others {
                let calls = units::counted(*sites, "instruction", "instructions");
                clauses.push(format!("calls by {calls} of {file}, {why}"));
            }
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
            clauses.push(format!("calls of {unseen} that the program loaded unseen"));
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

/// Moves a thread out of a stub by a change of its registers, unless an instruction of the stub has faulted. Returns
/// whether it was possible.
fn settle(process: &Process, thread: i32) -> bool {
    let Ok(mut registers) = ptrace::registers(thread) else { return false };
    let pc = registers.pc();
    let Some(area) = process.sites.areas.iter().find(|area| area.holds(pc)) else { return false };
    let read = |address: u64| memory::read_u64(thread, address).ok();
    if SignalInfo::of(thread).is_ok_and(|info| info.is_fault()) {
        return false;
    }
    let Some(settled) = area.settled(stub_thread(&registers), &read) else { return false };
    let is_free = settled.place.is_none_or(|at| memory::write(thread, at, &[0; 8]).is_ok());
    set_stub_thread(&mut registers, &settled.thread);
    is_free && ptrace::set_registers(thread, &registers).is_ok()
}

/// Whether the kernel started a program without a dynamic linker: `AT_BASE` is 0, `getauxval(3)`.
fn has_no_linker(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/auxv"))
        .is_ok_and(|vector| auxv::parse(&vector, Class::Elf64).contains(&(libc::AT_BASE, 0)))
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

//! Runs `clockscope trace -p`, and looks at the memory of the attached process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use tempfile::TempDir;
use vdso_image::layout::TOTAL_SIZE;

use super::compare::assert_counts;
use super::conversation::Conversation;
use super::running::{HUNG_AFTER, Report, Traced, clockscope, finish};

/// Polls every 2 ms until a condition holds, for changes without a notification.
///
/// # Panics
///
/// If the condition does not hold within `HUNG_AFTER`.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < HUNG_AFTER, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The vDSO image in a process's memory, at one moment.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Address of the image.
    pub(crate) base: u64,
    /// Content of the image.
    pub(crate) bytes: Vec<u8>,
    /// The process's attached System V segments: their lines of `/proc/PID/maps`, with the segment ids.
    segments: Vec<String>,
}

impl Image {
    /// Reads the vDSO of a process; `None` if the process has none, or is gone. Tries each thread, because the first
    /// one may have ended.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let threads = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
        threads.into_iter().find_map(Self::through)
    }

    /// The vDSOs of several processes. Waits, because a new process may not have its vDSO yet.
    #[track_caller]
    pub(crate) fn of_all(pids: &[i32]) -> Vec<Self> {
        let mut all = Vec::new();
        wait_until("they have a vDSO", || {
            all = pids.iter().filter_map(|pid| Self::of(*pid)).collect::<Vec<_>>();
            all.len() == pids.len()
        });
        all
    }

    /// Reads the vDSO through the memory of a thread.
    fn through(pid: i32) -> Option<Self> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
        let Range { start: base, end } = addresses(line)?;
        let mut bytes = vec![0; usize::try_from(end - base).ok()?];
        File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, base).ok()?;
        let segments = maps.lines().filter(|line| line.contains("SYSV")).map(str::to_owned);
        Some(Self { base, bytes, segments: segments.collect() })
    }

    /// Checks that a process's vDSO is unchanged, except for jumps to clockscope's image in the padding between
    /// functions, which is never executed.
    #[track_caller]
    pub(crate) fn assert_as_before(&self, pid: i32) {
        let now = Self::of(pid).expect("it has its vDSO");
        assert_eq!(self.base, now.base);
        let images = images_of_clockscope(pid);
        let mut bytes = now.bytes.clone();
        for at in 0..bytes.len() - 5 {
            let distance =
                i32::from_le_bytes(bytes[at + 1..at + 5].try_into().expect("four bytes"));
            let target = (self.base + at as u64 + 5).wrapping_add_signed(distance.into());
            let is_padding =
                !self.functions().iter().any(|function| function.covers(self.base + at as u64));
            if bytes[at] == 0xe9 && is_padding && images.iter().any(|image| image.contains(&target))
            {
                bytes[at..at + 5].copy_from_slice(&self.bytes[at..at + 5]);
            }
        }
        let pairs = self.bytes.iter().zip(&bytes).enumerate();
        let changed: Vec<String> = pairs
            .filter(|(_, (before, now))| before != now)
            .map(|(offset, (before, now))| format!("{offset:#x}: {before:02x} {now:02x}"))
            .collect();
        let first = &changed[..changed.len().min(40)];
        assert!(
            changed.is_empty(),
            "{} bytes differ: {first:?} of {:x?}",
            changed.len(),
            self.functions()
        );
    }

    /// The image's code, to the end of the last function.
    pub(crate) fn code(&self) -> &[u8] {
        let ends = self.functions().into_iter().map(|function| function.at + function.size);
        let end = ends.max().expect("it has functions") - self.base;
        &self.bytes[..usize::try_from(end).expect("is in the image")]
    }

    /// The functions among the image's symbols.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let file = object::File::parse(&self.bytes[..]).expect("a vDSO is an ELF file");
        let named = |symbol: object::Symbol<'_, '_>| {
            let name = symbol.name().ok()?.strip_prefix("__vdso_")?.to_owned();
            Some(Function { name, at: self.base + symbol.address(), size: symbol.size() })
        };
        file.dynamic_symbols().filter_map(named).collect()
    }

    /// The first bytes of `clock_gettime`.
    pub(crate) fn entry(&self) -> &[u8] {
        let functions = self.functions();
        let function = functions.iter().find(|function| function.name == "clock_gettime");
        let offset = function.expect("it has this one").at - self.base;
        let offset = usize::try_from(offset).expect("is in the image");
        &self.bytes[offset..offset + 5]
    }
}

/// A function of the vDSO, as its symbol describes it.
#[derive(Debug)]
pub(crate) struct Function {
    /// Name without the prefix `__vdso_`.
    pub(crate) name: String,
    /// Address in the process.
    pub(crate) at: u64,
    size: u64,
}

impl Function {
    fn covers(&self, address: u64) -> bool {
        address.wrapping_sub(self.at) < self.size
    }
}

/// Address ranges of clockscope's images in a process, each with the areas that belong to the image.
pub(crate) fn images_of_clockscope(pid: i32) -> Vec<Range<u64>> {
    let maps = mappings(pid);
    let images = maps.iter().filter(|line| is_an_image(line)).filter_map(|line| addresses(line));
    images.map(|image| image.start..image.start + TOTAL_SIZE as u64).collect()
}

/// The addresses of a mapping, as its line of `/proc/PID/maps` begins.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// The mappings of a process, without its stacks and heaps, which change by themselves.
pub(crate) fn mappings(pid: i32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("read its maps");
    let named = |line: &&str| line.contains('/') || line.contains("[v") || is_clockscopes(line);
    maps.lines().filter(named).map(str::to_owned).collect()
}

/// Checks that all file-backed code of a process equals its files; gives the number of bytes compared.
#[track_caller]
pub(crate) fn assert_code_is_of_its_files(pid: i32) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("read its maps");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("open its memory");
    let mut all = 0;
    for line in maps.lines().filter(|line| line.contains(" r-xp ") && line.contains(" /")) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Range { start, end } = addresses(line).expect("a range");
        let offset = u64::from_str_radix(words[2], 16).expect("a number");
        let size = usize::try_from(end - start).expect("fits");
        let file = fs::File::open(words[5]).expect("open a file that it has mapped");
        let (mut there, mut known) = (vec![0; size], vec![0; size]);
        memory.read_exact_at(&mut there, start).expect("read its code");
        let read = file.read_at(&mut known, offset).expect("read the file");
        let differs = there[..read].iter().zip(&known[..read]).position(|(one, two)| one != two);
        assert_eq!(differs, None, "{line}");
        all += read;
    }
    all
}

/// Whether a line of `/proc/PID/maps` may be a mapping of clockscope: shared memory, or anonymous code of 32 KiB (an
/// image) or 512 KiB.
fn is_clockscopes(line: &str) -> bool {
    line.contains("SYSV") || is_an_image(line) || is_code_of(line, 0x8_0000)
}

fn is_an_image(line: &str) -> bool {
    is_code_of(line, 0x8000)
}

fn is_code_of(line: &str, size: u64) -> bool {
    line.contains(" r-xp 00000000 00:00 0")
        && addresses(line).is_some_and(|range| range.end - range.start == size)
}

/// Checks that a process has the same kernel mappings and shared memory as before, and at most one image of clockscope
/// or as many as before.
#[track_caller]
pub(crate) fn assert_nothing_piles_up(pid: i32, before: &[String]) {
    let now = mappings(pid);
    let those = |maps: &[String], of: &str| -> Vec<String> {
        maps.iter().filter(|line| line.contains(of)).cloned().collect()
    };
    let images = |maps: &[String]| maps.iter().filter(|line| is_an_image(line)).count();
    assert_eq!(those(&now, "[v"), those(before, "[v"), "mappings of the kernel");
    assert_eq!(those(&now, "SYSV"), those(before, "SYSV"), "shared memory");
    assert!(images(&now) <= images(before).max(1), "images of clockscope: {now:#?}");
}

/// The value of a field of `/proc/PID/status`.
pub(crate) fn status_of(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned())
}

/// Sends a signal by its name without `SIG`.
#[track_caller]
pub(crate) fn signal(name: &str, pid: i32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.expect("run kill").success(), "send SIG{name} to {pid}");
}

/// A running `clockscope trace -p`.
pub(crate) struct Attachment {
    child: Option<Child>,
    directory: TempDir,
}

impl Attachment {
    /// Starts clockscope, and waits until the vDSO calls of all these processes go through the shim.
    #[track_caller]
    pub(crate) fn to(pids: &[i32], options: &[&str]) -> Self {
        let before = Image::of_all(pids);
        let mut attachment = Self::start(&[], pids, options);
        attachment.reaches(pids, &before);
        attachment
    }

    /// As [`Attachment::to`], with the processes chosen by the options instead of `-p`.
    #[track_caller]
    pub(crate) fn to_those_of(options: &[&str], pids: &[i32]) -> Self {
        let before = Image::of_all(pids);
        let mut attachment = Self::start(&[], &[], options);
        attachment.reaches(pids, &before);
        attachment
    }

    /// Waits until the vDSO calls of all these processes go through the shim. `before` are their images until then.
    #[track_caller]
    pub(crate) fn reaches(&mut self, pids: &[i32], before: &[Image]) {
        // After a killed clockscope, the jumps exist already and lead to the same image.
        let attached = |pid: &i32, before: &Image| {
            Image::of(*pid).is_none_or(|now| {
                let had_jump = before.entry()[..3].iter().any(|byte| [0xe9, 0xeb].contains(byte));
                now.entry() != before.entry() || had_jump && now.segments != before.segments
            })
        };
        wait_until("clockscope has attached", || {
            self.is_running();
            pids.iter().zip(before).all(|(pid, before)| attached(pid, before))
        });
    }

    /// Starts clockscope below the words of `starter`, without waiting for the attachment.
    #[track_caller]
    pub(crate) fn start(starter: &[OsString], pids: &[i32], options: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("make a temporary directory");
        let list: Vec<String> = pids.iter().map(i32::to_string).collect();
        let words = words![starter, clockscope()];
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("trace").args(options);
        if !list.is_empty() {
            command.args(["-p", &list.join(",")]);
        }
        command.args(["--format", "json", "-o"]).arg(directory.path().join("report.json"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("start clockscope");
        Self { child: Some(child), directory }
    }

    /// The process id of clockscope.
    pub(crate) fn pid(&self) -> i32 {
        self.child.as_ref().expect("is running").id().try_into().expect("is a pid")
    }

    #[track_caller]
    fn is_running(&mut self) {
        let child = self.child.as_mut().expect("is running");
        if child.try_wait().expect("look at clockscope").is_some() {
            let ended = self.wait();
            panic!("clockscope ended before it had attached: {ended:?}");
        }
    }

    /// Waits for the end of clockscope, and gives its report and output.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Traced {
        let output = finish(self.child.take().expect("is running"));
        let report = Report::read(&self.directory.path().join("report.json"));
        Traced::of(&output, report)
    }

    /// Interrupts clockscope as Ctrl-C does, and gives the report, which must exist.
    #[track_caller]
    pub(crate) fn detach(mut self) -> Traced {
        signal("INT", self.pid());
        self.wait().succeeded()
    }

    /// Attaches to a server of `attach_server.c`, lets it work, detaches, and checks the counts.
    #[track_caller]
    pub(crate) fn counts_exactly(server: &mut Conversation, options: &[&str]) -> Report {
        let attachment = Self::to(&[server.pid()], options);
        let said = server.works(5);
        let report = attachment.detach().report();
        assert_counts(&said, &report);
        report
    }

    /// Kills clockscope after this time, in whatever state it is then.
    #[track_caller]
    pub(crate) fn kill_after(self, time: Duration) {
        thread::sleep(time);
        self.kill();
    }

    /// Kills clockscope by SIGKILL.
    #[track_caller]
    pub(crate) fn kill(mut self) {
        signal("KILL", self.pid());
        assert_eq!(self.wait().code(), 128 + 9);
    }
}

impl Drop for Attachment {
    /// A failed test leaves no tracer behind.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Attaches for some seconds (`--duration`), and gives the outcome.
#[track_caller]
pub(crate) fn attach_for(time: &str, pids: &[i32], options: &[&str]) -> Traced {
    attach_below(&[], time, pids, options)
}

/// As [`attach_for`], with clockscope started by the words of `starter`.
#[track_caller]
pub(crate) fn attach_below(
    starter: &[OsString],
    time: &str,
    pids: &[i32],
    options: &[&str],
) -> Traced {
    Attachment::start(starter, pids, &[options, &["--duration", time]].concat()).wait()
}

/// Checks a refusal: exit status 125, and one line with the reason and advice.
#[track_caller]
pub(crate) fn assert_refused(traced: &Traced, words: &[&str]) {
    assert_eq!(traced.code(), 125, "{traced:?}");
    let lines: Vec<&str> = traced.stderr.trim_end().lines().collect();
    assert_eq!(lines.len(), 1, "one line: {traced:?}");
    let message = lines[0].strip_prefix("clockscope: ").unwrap_or(lines[0]);
    assert!(message.starts_with(|c: char| !c.is_uppercase()), "lower case: {message}");
    for word in words {
        assert!(message.contains(word), "{message:?} should say {word:?}");
    }
}

/// Possible reasons when the process ends during the attachment.
pub(crate) const HAS_ENDED: &[&str] = &[
    "it ended while it was being attached to",
    "it has ended already; its parent has not waited for it",
    "there is no such process (any more)",
];

/// Whether the attachment succeeded. A refusal must be one line with one of these reasons.
#[track_caller]
pub(crate) fn is_attached_or_refused(traced: &Traced, reasons: &[&str]) -> bool {
    if traced.code() == 0 {
        assert!(traced.has_report(), "a report: {traced:?}");
        return true;
    }
    assert_refused(traced, &[]);
    let says = reasons.iter().any(|reason| traced.stderr.contains(reason));
    assert!(says, "one of {reasons:?}: {}", traced.stderr);
    false
}

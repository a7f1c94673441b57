//! The kernel's log of this boot: from the ring buffer, and older lines from files or the journal.

use std::fs;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use fastclock::ClockId;

use clock_doctor::collect;
use clock_doctor::facts::{Facts, Log, Unread};
use clock_doctor::log::reader;
use clock_doctor::root::Root;
use clockscope_sys::{identity, poll, tsc};

/// The ring buffer's name in the list of files.
const RING: &str = "dmesg";
const JOURNAL: &str = "journalctl -k -b";
/// Time limit for the journal, which may be large and on a slow disk.
const JOURNAL_TIME: Duration = Duration::from_millis(400);
/// Limit for reading the journal, in bytes; the boot is at its beginning.
const JOURNAL_MAX: usize = 8 << 20;
/// Limit for the records of a ring buffer, more than any has.
const RECORDS_MAX: usize = 1 << 20;

/// The facts of the files below `/`, with the log of this boot and no other.
pub(super) fn facts() -> Facts {
    let Ok(root) = Root::open(Path::new("/")) else { return Facts::default() };
    let ring = ring();
    let bytes = ring.as_ref().ok().map(|bytes| Cursor::new(bytes.clone()));
    let log = bytes.map(|bytes| (Box::new(bytes) as Box<dyn Read>, RING));
    let mut facts = collect::facts_with_log(&root, log);
    match ring {
        Ok(_) if facts.read.iter().any(|file| file == RING) => {}
        Ok(_) => facts.read.push(RING.to_owned()),
        Err(error) => {
            facts.unread.push(Unread::new(RING, refusal(&error)));
            facts.log = facts.log.filter(|log| is_of_this_boot(&log.file));
        }
    }
    if !facts.log.as_ref().is_some_and(|log| log.begins_at_boot) {
        let journal = journal(&mut facts.unread);
        facts.read.extend(journal.as_ref().map(|_| JOURNAL.to_owned()));
        facts.log = joined(journal, facts.log);
    }
    facts
}

/// Joins the log that reaches furthest back with the ring buffer's later lines. Pure.
fn joined(older: Option<Log>, ring: Option<Log>) -> Option<Log> {
    let (mut older, ring) = match (older, ring) {
        (Some(older), Some(ring)) if older.begins_at_boot && !ring.begins_at_boot => (older, ring),
        (older, ring) => return ring.or(older),
    };
    let last = older.events.iter().filter_map(|event| event.at).fold(f64::MIN, f64::max);
    let is_newer = |at: Option<f64>| at.is_some_and(|at| at > last);
    older.events.extend(ring.events.into_iter().filter(|event| is_newer(event.at)));
    older.lines += ring.lines;
    older.leave_out(ring.left_out);
    Some(older)
}

/// The ring buffer, by `syslog(2)` or from `/dev/kmsg`; either may be forbidden alone.
fn ring() -> io::Result<Vec<u8>> {
    identity::read_kernel_log().or_else(|error| records().map_err(|_| error))
}

/// All records of `/dev/kmsg`, as lines with stamps.
fn records() -> io::Result<Vec<u8>> {
    let mut device = open_device()?;
    let mut text = Vec::new();
    let mut record = [0; RECORD_MAX];
    for _ in 0..RECORDS_MAX {
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(size) => text.extend(line(&record[..size]).unwrap_or_default().into_bytes()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // EPIPE: the next record was overwritten before it was read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// Greatest length of a record of `/dev/kmsg`, in bytes (`PRINTKRB_RECORD_MAX`, kernel/printk/internal.h).
pub(super) const RECORD_MAX: usize = 8192;

/// Opens `/dev/kmsg` for non-blocking reads of single records.
///
/// # Errors
///
/// `EPERM` with `kernel.dmesg_restrict`; `ENOENT` in many containers.
pub(super) fn open_device() -> io::Result<fs::File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    fs::OpenOptions::new().read(true).custom_flags(flags).open("/dev/kmsg")
}

/// A record of the kernel as a line `[sec.usec] text`; `None` for a record of a program.
///
/// # References
///
/// - `Documentation/ABI/testing/dev-kmsg` (Linux 6.12): `priority,number,microseconds,flags;text`,
///   then lines that begin with a space
pub(super) fn line(record: &[u8]) -> Option<String> {
    let record = String::from_utf8_lossy(record);
    let (head, text) = record.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let micros: u64 = fields.nth(1)?.parse().ok()?;
    // The facility lies above the three bits of the level; the kernel's facility is 0.
    (priority >> 3 == 0).then(|| {
        let text = text.lines().next().unwrap_or_default();
        format!("[{:5}.{:06}] {text}\n", micros / 1_000_000, micros % 1_000_000)
    })
}

/// The reason why the log cannot be read, with a remedy.
pub(super) fn refusal(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "not permitted (kernel.dmesg_restrict, or a container); try as root, or \
             `journalctl -k -b` as a member of systemd-journal or adm"
                .to_owned()
        }
        ErrorKind::NotFound => {
            "there is no /dev/kmsg here; try outside of the container".to_owned()
        }
        _ => format!("{error}; try `dmesg` as root"),
    }
}

/// Whether a file below `/` was written to since this kernel started; otherwise its log is of an earlier boot.
fn is_of_this_boot(file: &str) -> bool {
    let booted = now(ClockId::Realtime).saturating_sub(now(ClockId::Boottime));
    let modified = fs::metadata(Path::new("/").join(file)).and_then(|file| file.modified());
    let modified = modified.ok().and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    modified.is_some_and(|modified| modified >= booted)
}

/// A clock by system call: the vDSO would read the counter, which may be forbidden.
fn now(clock: ClockId) -> Duration {
    Duration::from_nanos(tsc::now_by_syscall(clock).0.unsigned_abs())
}

/// The journal's copy of this boot's kernel log, as far as it can be read within [`JOURNAL_TIME`].
fn journal(unread: &mut Vec<Unread>) -> Option<Log> {
    let arguments = ["-k", "-b", "-q", "-o", "short-monotonic", "--no-pager"];
    let child = Command::new("journalctl")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        // Hosts without systemd have no journal.
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            unread.push(Unread { why: error.to_string(), ..Unread::of(JOURNAL, &error) });
            return None;
        }
    };
    let (text, is_whole) = output(&mut child, JOURNAL_TIME);
    let _ = child.kill();
    let _ = child.wait();
    if !is_whole {
        let why = format!("took longer than {} ms, and was left", JOURNAL_TIME.as_millis());
        unread.push(Unread::new(JOURNAL, why));
    }
    let log = reader::read(&mut text.as_slice(), JOURNAL);
    log.ok().filter(|log| log.lines > 0)
}

/// The output of a child within `time`; true if it is complete.
fn output(child: &mut Child, time: Duration) -> (Vec<u8>, bool) {
    let start = now(ClockId::Monotonic);
    let mut text = Vec::new();
    let Some(mut from) = child.stdout.take() else { return (text, true) };
    let mut chunk = vec![0; 1 << 16];
    while text.len() < JOURNAL_MAX {
        let left = (start + time).saturating_sub(now(ClockId::Monotonic));
        let is_ready = poll::wait(&[from.as_fd()], left).is_ok_and(|ready| ready[0]);
        if !is_ready && left.is_zero() {
            return (text, false);
        }
        if is_ready {
            match from.read(&mut chunk) {
                Ok(0) => return (text, true),
                Ok(size) => text.extend(&chunk[..size]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return (text, false),
            }
        }
    }
    (text, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock_doctor::facts::Evidence;
    use clock_doctor::log::{Event, EventKind};

    #[test]
    fn records_of_the_kernel_become_lines() {
        let record = b"6,339,5140900,-;NET: Registered\n SUBSYSTEM=acpi\n";
        assert_eq!(line(record).as_deref(), Some("[    5.140900] NET: Registered\n"));
        let warning = b"4,1,12000001,-;clocksource: a;b\n";
        assert_eq!(line(warning).as_deref(), Some("[   12.000001] clocksource: a;b\n"));
        assert_eq!(line(b"30,340,5690716,-;systemd[1]: hello\n"), None, "a program's");
        for bad in [&b""[..], b"no", b"x,1,2,-;a", b"6,1;a", b"6,1,-;a", b"\xff;\xff"] {
            assert_eq!(line(bad), None, "{bad:?}");
        }
    }

    fn log(file: &str, begins_at_boot: bool, stamps: &[f64]) -> Log {
        let event = |at: &f64| Event {
            evidence: Evidence::of(file, ""),
            at: Some(*at),
            kind: EventKind::KvmClock,
        };
        let events = stamps.iter().map(event).collect();
        Log { file: file.to_owned(), events, begins_at_boot, ..Log::default() }
    }

    #[test]
    fn what_left_the_ring_buffer_is_taken_from_who_kept_it() {
        let stamps = |log: Option<Log>| -> Vec<f64> {
            log.unwrap().events.iter().filter_map(|event| event.at).collect()
        };
        let kept = || Some(log("var/log/dmesg", true, &[0.0, 1.0, 5.0]));
        let tail = || Some(log(RING, false, &[1.0, 5.0, 90.0]));
        assert_eq!(stamps(joined(kept(), tail())), [0.0, 1.0, 5.0, 90.0]);
        let whole = Some(log(RING, true, &[0.0, 9.0]));
        assert_eq!(joined(kept(), whole.clone()), whole);
        assert_eq!(joined(kept(), None), kept());
        assert_eq!(joined(Some(log("x", false, &[3.0])), tail()), tail());
        assert_eq!(joined(None, None), None);
    }

    #[test]
    fn refusals_say_what_to_try() {
        let says = |number| refusal(&io::Error::from_raw_os_error(number));
        assert!(says(libc::EPERM).contains("try as root"));
        assert!(says(libc::ENOENT).contains("outside of the container"));
        assert!(says(libc::EIO).contains("`dmesg` as root"));
    }

    #[test]
    fn a_child_is_not_waited_for_longer_than_its_time() {
        let spawn = |script: &str| {
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut quick = spawn("echo a; echo b");
        assert_eq!(output(&mut quick, Duration::from_secs(600)), (b"a\nb\n".to_vec(), true));
        quick.wait().unwrap();
        let mut slow = spawn("echo a; exec sleep 1000");
        let from = slow.stdout.as_ref().unwrap().as_fd();
        assert!(poll::wait(&[from], Duration::from_secs(600)).unwrap()[0], "nothing came");
        assert_eq!(output(&mut slow, Duration::from_millis(10)), (b"a\n".to_vec(), false));
        slow.kill().unwrap();
        slow.wait().unwrap();
    }

    #[test]
    fn both_ways_to_the_ring_buffer_give_the_same_lines() {
        let (Ok(log), Ok(records)) = (identity::read_kernel_log(), records()) else {
            return skips::skip("the kernel's log may not be read here");
        };
        let [log, records] = [log, records].map(|log| String::from_utf8_lossy(&log).into_owned());
        let kernel_only =
            |line: &&str| line.starts_with('<') && line.find('>').is_some_and(|at| at < 3);
        let lines = log.lines().filter(kernel_only).filter_map(|line| line.split_once('>'));
        // A line may leave the buffer between the two.
        let first: Vec<&str> = lines.map(|(_, line)| line).take(2).collect();
        let own = records.lines().next();
        assert!(own.map_or(first.is_empty(), |own| first.contains(&own)), "{own:?}");
    }

    #[test]
    fn a_file_from_before_the_boot_is_not_of_this_boot() {
        assert!(!is_of_this_boot("no/such/file"));
        assert!(is_of_this_boot("proc/self/stat"));
    }
}

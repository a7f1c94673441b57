//! Reads the clocks outside of this kernel's.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clock_doctor::utc::{self, Comparison, Reference, Word};
use clockscope_stats::order;
use clockscope_sys::{clock_reads, ptp, timex, timex::Timex, tsc};
use fastclock::ClockId;

/// Bytes of vmclock's page that are read, more than its structure has.
const PAGE: usize = 128;
/// Files that exist while a daemon keeps the time.
const DAEMONS: [(&str, &str); 4] = [
    ("run/chrony/chronyd.pid", "chrony"),
    ("run/chronyd.pid", "chrony"),
    ("run/systemd/timesync/synchronized", "systemd-timesyncd"),
    ("run/ntpd.pid", "ntpd"),
];
const CHRONY_CONFIGURATION: [&str; 4] =
    ["etc/chrony.conf", "etc/chrony/chrony.conf", "etc/chrony.d", "etc/chrony/conf.d"];
/// Limit for waiting for the beginning of the RTC's next second, in nanoseconds.
const EDGE_MAX: i64 = 1_100_000_000;

/// Compares `CLOCK_REALTIME` with all clocks of this machine. `waits` for the beginning of the RTC's next second.
pub(super) fn compare(waits: bool) -> Comparison {
    let mut comparison = below(Path::new("/"), waits);
    let daemon = DAEMONS.iter().find(|(file, _)| Path::new("/").join(file).exists());
    let daemon = daemon.map(|(_, name)| *name);
    let word = |timex: Timex| Word::new(daemon, timex.maxerror, super::described(&timex).offset_ns);
    comparison.word = timex::read().ok().map(word);
    comparison
}

/// The clocks whose files are below `root`.
fn below(root: &Path, waits: bool) -> Comparison {
    let uptime_s = tsc::now_by_syscall(ClockId::Monotonic).0 as f64 / 1e9;
    let mut comparison = Comparison { uptime_s, ..Comparison::default() };
    let followed = followed(root);
    for entry in entries(&root.join("sys/class/ptp")) {
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
        let driver = text(&entry.join("clock_name")).unwrap_or_default();
        let device = format!("/dev/{name}");
        let mut clock = Reference::ptp(&device, &driver, followed.contains(&device), (0, 0));
        if clock.aside.is_none() {
            match ptp::compare(&root.join("dev").join(name)) {
                Ok(read) => (clock.behind_ns, clock.error_ns) = (read.behind_ns, read.error_ns),
                Err(error) => {
                    comparison.unread.push(refusal(&clock.name, &error));
                    continue;
                }
            }
        }
        comparison.references.push(clock);
    }
    match vmclock(&root.join("dev/vmclock0")) {
        Ok(Some(page)) => {
            comparison.disruption_marker = Some(page.disruption_marker);
            comparison.references.extend(page.clock);
        }
        Ok(None) => {}
        Err(error) => comparison.unread.push(refusal("/dev/vmclock0", &error)),
    }
    comparison.references.extend(rtc(root, waits));
    comparison
}

fn refusal(name: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{name} may not be read: run doctor as root, outside of a sandbox")
        }
        // In a container the kernel's list is complete, and the devices are not there.
        io::ErrorKind::NotFound => format!("{name} is not in this container: run it on the host"),
        _ => format!("{name} cannot be read: {error}"),
    }
}

fn now_ns() -> i64 {
    tsc::now_by_syscall(ClockId::Realtime).0
}

/// The paths in a folder, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    order::by(&mut paths, Ord::cmp);
    paths
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

/// Devices that chrony follows as they are: `refclock PHC DEVICE`, without a correction for TAI.
fn followed(root: &Path) -> Vec<String> {
    let files = CHRONY_CONFIGURATION
        .iter()
        .map(|name| root.join(name))
        .flat_map(|path| if path.is_dir() { entries(&path) } else { vec![path] });
    let texts: Vec<String> = files.filter_map(|file| text(&file)).collect();
    let device = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["refclock", "PHC", device, options @ ..] = &words[..] else { return None };
        let is_utc = !options.contains(&"tai") && !options.contains(&"offset");
        // Options of the driver follow the device after a colon.
        let device = device.split(':').next().filter(|_| is_utc)?;
        let linked = fs::canonicalize(device).ok();
        Some(linked.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or(device.to_owned()))
    };
    texts.iter().flat_map(|text| text.lines()).filter_map(device).collect()
}

/// vmclock's page, copied by the driver as a whole, at a value of the counter; `None` without such a device.
fn vmclock(device: &Path) -> io::Result<Option<utc::Page>> {
    let mut file = match fs::File::open(device) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut page = [0; PAGE];
    file.read_exact(&mut page)?;
    // The counter may be forbidden to this thread.
    if tsc::is_permitted() == Some(false) {
        return Ok(None);
    }
    let before = now_ns();
    let counter = clock_reads::counter_fenced().cast_unsigned();
    let after = now_ns();
    let (middle, window) = (before.midpoint(after), (after - before) / 2 + 1);
    Ok(utc::page(&page, counter, middle, window))
}

/// The RTC by sysfs, in whole seconds.
fn rtc(root: &Path, waits: bool) -> Option<Reference> {
    let adjtime = text(&root.join("etc/adjtime")).unwrap_or_default();
    let is_local = adjtime.lines().nth(2) == Some("LOCAL");
    let file = root.join("sys/class/rtc/rtc0/since_epoch");
    let read = || text(&file)?.parse::<i64>().ok();
    let first = read()?;
    let mut before = now_ns();
    let end = before.saturating_add(EDGE_MAX);
    while waits && before < end {
        let next = read()?;
        let after = now_ns();
        if next != first {
            let window = (after - before) / 2 + 1;
            return Some(Reference::rtc(next, before.midpoint(after), Some(window), is_local));
        }
        before = after;
    }
    Some(Reference::rtc(first, before, None, is_local))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn planted(files: &[(&str, &[u8])]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    #[test]
    fn the_clocks_of_a_machine_are_found_by_their_files() {
        let mut page = [0; 4096];
        page[..4].copy_from_slice(b"VCLK");
        (page[8], page[10], page[16]) = (1, 255, 7);
        let now = (now_ns() / 1_000_000_000).to_string();
        let root = planted(&[
            ("sys/class/ptp/ptp0/clock_name", b"KVM virtual PTP\n"),
            ("sys/class/ptp/ptp1/clock_name", b"igb\n"),
            ("sys/class/ptp/ptp2/clock_name", b"ena\n"),
            ("dev/ptp2", b"no clock"),
            (
                "etc/chrony/conf.d/aws.conf",
                b"# refclock PHC /dev/ptp1\nrefclock PHC /dev/ptp2:nocrossts poll 0\n",
            ),
            ("dev/vmclock0", &page),
            ("sys/class/rtc/rtc0/since_epoch", now.as_bytes()),
        ]);
        let read = below(root.path(), false);
        assert_eq!(read.disruption_marker, Some(7));
        let names: Vec<_> =
            read.references.iter().map(|it| (&it.name[..], it.aside.is_some())).collect();
        assert_eq!(names, [("/dev/ptp1 (igb)", true), ("rtc0", false)]);
        assert!(read.references[1].behind_ns.abs() < 3_000_000_000);
        let inside = "/dev/ptp0 (KVM virtual PTP) is not in this container: run it on the host";
        assert_eq!(read.unread[0], inside);
        let unread = &read.unread[1];
        assert!(unread.starts_with("/dev/ptp2 (ena) cannot be read: "), "{unread}");
    }

    #[test]
    fn a_clock_that_chrony_corrects_is_not_followed_as_it_is() {
        let root = planted(&[(
            "etc/chrony.conf",
            b"refclock PHC /dev/ptp8 tai\nrefclock PHC /dev/ptp9 offset 37\nrefclock SHM 0\nrefclock PHC\n",
        )]);
        assert!(followed(root.path()).is_empty());
    }

    #[test]
    fn a_second_of_the_rtc_that_never_begins_is_waited_for_in_vain_once() {
        let root = planted(&[
            ("sys/class/rtc/rtc0/since_epoch", b"1795861143\n"),
            ("etc/adjtime", b"0\n0\nLOCAL\n"),
        ]);
        let rtc = rtc(root.path(), true).unwrap();
        assert_eq!(rtc.error_ns, 1_000_000_000);
        assert!(rtc.aside.unwrap().contains("local time"));
        assert_eq!(below(planted(&[]).path(), true).references, []);
    }

    #[test]
    fn this_machine_is_compared_with_what_it_has() {
        let comparison = compare(false);
        assert!(comparison.uptime_s > 0.0 && comparison.word.is_some(), "{comparison:?}");
    }
}

//! `clockscope doctor` and `capture` on hostile, damaged or odd input: each run ends with a clear message and an exit
//! status, and reads nothing outside of the root.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use crate::support::command::{self, Said};
use crate::support::placed::{self, as_nobody};
use crate::support::running::{clockscope, rows, untraced, with_input};
use crate::support::{root_or_skip, skip};

const SECRET: &str = "planted-secret";
const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0";

/// Checks that doctor printed a report without a panic, terminal control characters, or the secret.
#[track_caller]
fn is_report(said: &Said) {
    assert!(matches!(said.code, Some(0..=3)), "{said:?}");
    assert_eq!(said.stderr, "", "{said:?}");
    assert!(!said.stdout.is_empty());
    let is_odd = |c: char| c.is_control() && c != '\n';
    assert!(!said.stdout.contains(is_odd), "{said:?}");
    assert!(!said.stdout.contains(SECRET), "{said:?}");
}

fn doctor(root: &Path) -> Said {
    command::said(&["doctor", "--root", root.to_str().expect("UTF-8")])
}

/// The files that doctor's JSON lists as unread: `FILE: WHY`.
fn unread(root: &Path) -> Vec<String> {
    let words = ["doctor", "--format", "json", "--root", root.to_str().expect("UTF-8")];
    let one = |entry: &serde_json::Value| {
        format!("{}: {}", entry["file"].as_str().unwrap(), entry["why"].as_str().unwrap())
    };
    rows(&command::said(&words).json()["unread"]).map(one).collect()
}

/// A root with these files. Its clocksource is hpet, so doctor has a finding.
fn root(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let current = format!("{CLOCKSOURCE}/current_clocksource");
    let usual: [(&str, &[u8]); 1] = [(&current, b"hpet\n")];
    for (path, bytes) in usual.iter().chain(files) {
        write(root.path(), path, bytes);
    }
    root
}

fn write(root: &Path, path: &str, bytes: &[u8]) {
    fs::write(place(root, path), bytes).unwrap();
}

/// Makes the folders around `path` and gives its full path.
fn place(root: &Path, path: &str) -> std::path::PathBuf {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    path
}

#[test]
fn what_is_no_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        fs::write(folder.path().join(name), bytes).unwrap();
        folder.path().join(name)
    };
    doctor(Path::new("/nonexistent/root")).is_refused(3, &["/nonexistent/root", "no such file"]);
    doctor(&file("empty", b"")).is_refused(3, &["empty"]);
    doctor(&file("bytes", &[7; 600])).is_refused(3, &["neither", "nor a log"]);
    doctor(&file("system.journal", b"LPKSHHRH\0\0")).is_refused(3, &["journalctl -k --file"]);
    doctor(&file("a.zip", b"PK\x03\x04aaaa")).is_refused(3, &["zip"]);
    doctor(&file("a.tar.bz2", b"BZh91AY")).is_refused(3, &["bzip2"]);
    doctor(&file("a.tar.gz", b"\x1f\x8b\x08")).is_refused(3, &["cannot be read"]);
    doctor(&file("a.tar.xz", b"\xfd7zXZ\0garbage")).is_refused(3, &["cannot be read"]);
    doctor(&file("a.tar.zst", b"\x28\xb5\x2f\xfdgarbage")).is_refused(3, &["cannot be read"]);
    doctor(Path::new("/dev/zero")).is_refused(3, &["neither a directory nor a plain file"]);
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    doctor(&fifo).is_refused(3, &["neither a directory nor a plain file"]);
}

/// The log of a machine that fell back, and the first line of the report on it.
const FELL_BACK: &str = "[    0.5] clocksource: Switched to clocksource tsc\n\
    [   90.1] tsc: Marking TSC unstable due to clocksource watchdog\n\
    [   90.2] clocksource: Switched to clocksource hpet\n";

#[test]
fn a_log_by_itself_is_read_packed_or_not_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let packed = |by: &[&str]| packed(by, FELL_BACK.as_bytes());
    for (name, bytes) in [
        ("dmesg.txt", FELL_BACK.as_bytes().to_vec()),
        ("dmesg.gz", packed(&["gzip", "-c"])),
        ("dmesg.xz", packed(&["xz", "-c"])),
        ("dmesg.zst", packed(&["zstd", "-qc"])),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, &bytes).unwrap();
        let path = path.to_str().unwrap();
        for words in [["doctor", path].as_slice(), &["doctor", "--root", path]] {
            let said = command::said(words);
            assert_eq!(said.code, Some(1), "{said:?}");
            assert!(said.stdout.starts_with("slow: clocksource hpet"), "{said:?}");
            assert!(said.stdout.contains(&format!("{name}:2: [   90.1] tsc: Marking")), "{said:?}");
        }
        let said = Said::of(with_input(Command::new(clockscope()).args(["doctor", "-"]), &bytes));
        assert!(said.stdout.starts_with("slow: clocksource hpet"), "{name}: {said:?}");
    }
}

#[test]
fn logs_at_the_top_of_a_folder_are_read_and_older_ones_are_told() {
    for name in ["dmesg.log", "kern.log.gz", "journalctl.txt", "messages", "syslog"] {
        let bytes = match name.strip_suffix(".gz") {
            Some(_) => packed(&["gzip", "-c"], FELL_BACK.as_bytes()),
            None => FELL_BACK.as_bytes().to_vec(),
        };
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), name, &bytes);
        write(folder.path(), "messages.1", FELL_BACK.as_bytes());
        write(folder.path(), "var/log/syslog.bz2", b"BZh91AY");
        let said = doctor(folder.path());
        assert!(said.stdout.starts_with("slow: clocksource hpet"), "{name}: {said:?}");
        let told = unread(folder.path());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("messages.1: an older log"), "{told:?}");
        assert!(told[1].starts_with("var/log/syslog.bz2: it is packed with bzip2"), "{told:?}");
    }
}

/// Files of each kind that doctor reads.
const FILES: &str = "proc/version proc/cmdline proc/cpuinfo proc/sys/kernel/osrelease proc/sys/kernel/vsyscall64 \
    var/log/dmesg var/log/syslog dmidecode sys/class/dmi/id/sys_vendor sys/hypervisor/type var/lib/chrony/drift \
    clockscope/measured.json proc/device-tree/timer/compatible \
    sys/devices/system/clocksource/clocksource0/current_clocksource \
    sys/devices/system/clocksource/clocksource0/available_clocksource";

#[test]
fn garbage_in_every_file_is_no_evidence() {
    let mut garbage = vec![0; 300_000];
    File::open("/dev/urandom").unwrap().read_exact(&mut garbage).unwrap();
    let escapes =
        b"\x1b[2J\x1b]0;title\x07\xff\xfe tsc: \x80Marking TSC unstable due to \x1b[31mred\xff\n";
    for bytes in [&garbage[..], escapes, b"\0\0\0\0", b"\n\n\n", &[b'['; 70_000]] {
        let root = tempfile::tempdir().unwrap();
        for path in FILES.split(' ') {
            write(root.path(), path, bytes);
        }
        is_report(&doctor(root.path()));
    }
}

#[test]
fn links_never_lead_out_of_the_root() {
    let outside = tempfile::tempdir().unwrap();
    let line = format!("Linux version 5.10.0-{SECRET} tsc: Marking TSC unstable due to {SECRET}\n");
    fs::write(outside.path().join("file"), &line).unwrap();
    let out = outside.path().join("file");
    let root = root(&[]);
    let climb = format!("{}{}", "../".repeat(30), out.strip_prefix("/").unwrap().display());
    symlink(&out, place(root.path(), "proc/version")).unwrap();
    symlink(&climb, place(root.path(), "var/log/dmesg")).unwrap();
    symlink(outside.path(), place(root.path(), "run/systemd")).unwrap();
    fs::write(outside.path().join("container"), SECRET).unwrap();
    // A folder that is a symbolic link to the outside.
    symlink(outside.path(), root.path().join("etc")).unwrap();
    is_report(&doctor(root.path()));
    let unread = unread(root.path());
    for file in ["proc/version", "var/log/dmesg", "run/systemd/container"] {
        let told =
            unread.iter().filter(|line| line.starts_with(&format!("{file}: a link"))).count();
        assert_eq!(told, 1, "{file}: {unread:?}");
    }
}

#[test]
fn links_within_the_root_are_followed_also_absolute_ones() {
    let root = root(&[
        ("usr/version", b"Linux version 4.9.0-8-amd64\n"),
        ("real/dmi/sys_vendor", b"QEMU\n"),
    ]);
    symlink("/usr/version", place(root.path(), "proc/version")).unwrap();
    symlink("../../../real/dmi", place(root.path(), "sys/class/dmi/id")).unwrap();
    let said = doctor(root.path());
    is_report(&said);
    assert!(said.stdout.contains("Linux 4.9"), "{said:?}");
    assert_eq!(unread(root.path()), [""; 0]);
}

#[test]
fn loops_of_links_end() {
    let root = root(&[]);
    symlink("version", place(root.path(), "proc/version")).unwrap();
    symlink("/proc/b", place(root.path(), "proc/cmdline")).unwrap();
    symlink("/proc/cmdline", place(root.path(), "proc/b")).unwrap();
    symlink("../var", root.path().join("var")).unwrap();
    is_report(&doctor(root.path()));
    let unread = unread(root.path());
    for file in ["proc/version", "proc/cmdline"] {
        assert!(unread.contains(&format!("{file}: links in a loop")), "{file}: {unread:?}");
    }
}

#[test]
fn what_is_no_plain_file_is_told_and_never_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let fifos = ["proc/version", "var/log/dmesg", "var/log/syslog", "proc/cpuinfo"];
    for path in fifos {
        let fifo = place(root.path(), path);
        assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    let current = format!("{CLOCKSOURCE}/current_clocksource");
    fs::create_dir_all(root.path().join(&current)).unwrap();
    let _listener = UnixListener::bind(place(root.path(), "proc/cmdline")).unwrap();
    let said = doctor(root.path());
    is_report(&said);
    assert_eq!(said.code, Some(3));
    let unread = unread(root.path());
    let expect = |file: &str, what: &str| {
        let line = format!("{file}: {what}, not a file");
        assert_eq!(unread.iter().filter(|one| **one == line).count(), 1, "{line}: {unread:?}");
    };
    fifos.iter().for_each(|file| expect(file, "a FIFO"));
    expect(&current, "a directory");
    expect("proc/cmdline", "a socket");
}

#[test]
fn a_device_in_place_of_a_file_is_told() {
    let Some(()) = root_or_skip() else { return };
    let root = root(&[]);
    let device = place(root.path(), "proc/version");
    // Device 1:5 is /dev/zero, which has no end.
    let made = Command::new("mknod").arg(device).args(["c", "1", "5"]).status().unwrap();
    if !made.success() {
        return skip("devices cannot be made here");
    }
    is_report(&doctor(root.path()));
    assert_eq!(unread(root.path()), ["proc/version: a device, not a file"]);
}

#[test]
fn a_file_without_permission_is_told_once() {
    let root = root(&[("proc/version", b"Linux version 5.10.0\n"), ("var/log/dmesg", b"x\n")]);
    for path in ["proc/version", "var/log"] {
        fs::set_permissions(root.path().join(path), Permissions::from_mode(0o000)).unwrap();
    }
    fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
    let tool = root.path().join("clockscope");
    placed::program(&clockscope(), &tool, 0o755);
    let mut words = words![tool, "doctor", "--format", "json", "--root", root.path()];
    if root_or_skip().is_some() {
        words = words![as_nobody(), words];
    }
    let json = Said::of(untraced(&words)).json();
    let files: Vec<_> = json["unread"].as_array().unwrap().iter().map(|one| &one["file"]).collect();
    assert_eq!(files, ["proc/version", "var/log"], "{json}");
    fs::set_permissions(root.path().join("var/log"), Permissions::from_mode(0o755)).unwrap();
}

/// The output of a program with this input: packs, or unpacks.
fn packed(by: &[&str], bytes: &[u8]) -> Vec<u8> {
    let output = with_input(Command::new(by[0]).args(&by[1..]), bytes);
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn archives_are_known_by_their_bytes_and_cut_ones_refused() {
    let noise: Vec<u8> =
        (0..40_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let root = root(&[("var/noise", &noise)]);
    let plain = packed(&["tar", "-C", root.path().to_str().unwrap(), "-c", "sys", "var"], b"");
    let folder = tempfile::tempdir().unwrap();
    for packer in [&["cat"][..], &["gzip", "-c"], &["xz", "-c"], &["zstd", "-q", "-c"]] {
        let path = folder.path().join("archive-without-a-telling-name");
        let bytes = packed(packer, &plain);
        fs::write(&path, &bytes).unwrap();
        let said = doctor(&path);
        is_report(&said);
        assert!(said.stdout.contains("hpet"), "{packer:?}: {said:?}");
        fs::write(&path, &bytes[..bytes.len() * 2 / 3]).unwrap();
        doctor(&path).is_refused(3, &["the archive cannot be read", "cut off"]);
    }
}

#[test]
fn an_archive_that_unpacks_to_more_than_its_memory_takes_none_for_it() {
    let folder = tempfile::tempdir().unwrap();
    // One member, a log, longer than the memory that doctor may use.
    for (packer, mib) in [("gzip -1c", 200), ("zstd -1qc", 600)] {
        let mut header = tar::Header::new_gnu();
        header.set_path("var/log/dmesg").unwrap();
        header.set_size(mib << 20);
        header.set_cksum();
        fs::write(folder.path().join("head"), header.as_bytes()).unwrap();
        let line = format!("(cat head; head -c {mib}M /dev/zero) | {packer} >bomb");
        let made = Command::new("sh").args(["-c", &line]).current_dir(folder.path()).status();
        assert!(made.unwrap().success());
        let bomb = folder.path().join("bomb");
        let words = words!["prlimit", "--as=160000000", clockscope(), "doctor", "--root", bomb];
        let said = Said::of(untraced(&words));
        match packer {
            // gzip's ratio is near that of a log that repeats itself, so doctor reads the log to its end.
            "gzip -1c" => {
                is_report(&said);
                assert_eq!(said.code, Some(3), "{said:?}");
            }
            _ => said.is_refused(3, &["1000 times its size"]),
        }
    }
}

#[test]
fn a_capture_is_the_machine_and_is_written_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let said = command::said_in(folder.path(), &["capture"], "");
    assert_eq!(said.code, Some(0), "{said:?}");
    let names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let [name] = &names[..] else { panic!("{names:?}") };
    assert!(name.starts_with("clockscope-") && name.ends_with("Z.tar.zst"), "{name}");
    assert!(said.stdout.contains(&format!("clockscope doctor --root {name}")), "{said:?}");
    is_report(&doctor(&folder.path().join(name)));
    let to_stdout = untraced(&words![clockscope(), "capture", "-o", "-"]);
    assert!(to_stdout.stdout.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
    assert!(String::from_utf8_lossy(&to_stdout.stderr).starts_with("taken, in bytes:"));
    let tar = packed(&["zstd", "-dc"], &fs::read(folder.path().join(name)).unwrap());
    let paths = String::from_utf8(packed(&["tar", "-t"], &tar)).unwrap();
    for line in paths.lines() {
        assert!(said.stdout.contains(line.strip_prefix("clockscope-capture/").unwrap()), "{line}");
    }
}

//! `clockscope serve` as an administrator runs it, and its page as programs read it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::command::Said;
use crate::support::root_or_skip;
use crate::support::running::untraced;
use crate::support::serve::{Program, Served, command, map, run};
use fastclock::Decline;
use fastclock::page::SIZE;
use serde_json::Value;

const READ_WHILE_VALID: &[&str] = &["--valid", "1h", "--period", "20ms"];

/// A temporary folder, and a path for a page in a subfolder that does not exist yet.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("run/page");
    (folder, page)
}

fn status(page: &Path) -> (Option<i32>, Value) {
    let said = run(page, &["--status", "--format", "json"]);
    (said.code, serde_json::from_str(&said.stdout).unwrap_or_default())
}

#[test]
fn a_page_is_made_for_everybody_and_says_what_it_is_worth() {
    let (_folder, path) = place();
    let served = Served::start(&path, &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o644, 0o755));
    assert_eq!(mode(&path.with_extension("lock")), 0o600);
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64);

    let (code, json) = status(&path);
    assert_eq!((code, &json["answers"], &json["reason"]), (Some(0), &true.into(), &Value::Null));
    assert_eq!(json["writer"], served.id());
    assert!(json["counter_hz"].as_f64().unwrap() > 1e6, "{json}");
    assert!((1..1_000_000).contains(&json["bound_ns"].as_u64().unwrap()), "{json}");
    assert!(json["valid_seconds"].as_f64().unwrap() <= 10.0, "{json}");

    let said = served.end("-TERM");
    assert!(said.contains("clockscope: the page answered for "), "{said}");
    // The page is left in place for the next timekeeper.
    assert_eq!(status(&path).0, Some(0));
}

#[test]
fn a_page_says_who_serves_it_since_when_and_how_to_end_that() {
    let (_folder, path) = place();
    let started = run(&path, &[]);
    let said = started.stdout;
    let (_, json) = status(&path);
    let process = json["writer"].as_u64().unwrap();
    let stop = format!("; to end it: clockscope serve --stop {}\n", path.display());
    assert!(said.starts_with(&format!("process {process} serves the time through ")), "{said}");
    assert!(said.contains(" of the kernel's clock") && said.ends_with(&stop), "{said}");
    assert_eq!(json["served"], true);
    assert!(json["since"].as_str().unwrap().ends_with('Z'), "{json}");

    let stopped = run(Path::new("/none"), &["--stop", path.to_str().unwrap()]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(stopped.stdout, format!("process {process} serves {} no more\n", path.display()));
    assert!(!is_alive(process), "it waits until the process is gone");
    let (code, json) = status(&path);
    assert_eq!((code, &json["served"]), (Some(0), &false.into()), "its last line still answers");
    run(&path, &["--stop"]).is_refused(1, &["nobody serves "]);
    run(Path::new("/none/page"), &["--stop"]).is_refused(1, &["nobody serves /none/page"]);
    assert!(Served::start(&path, &[]).is_running(), "another one may begin");
}

/// Whether a process runs. A zombie does not.
fn is_alive(process: u64) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    state.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[test]
fn a_timekeeper_under_a_supervisor_is_ended_in_order() {
    let (_folder, path) = place();
    let served = Served::start(&path, &["--withdraw-on-exit"]);
    assert_eq!(run(&path, &["--stop"]).code, Some(0));
    let (_, json) = status(&path);
    assert_eq!(json["reason_number"], Decline::WriterStopped.as_raw());
    drop(served);
}

#[test]
fn another_users_timekeeper_is_left_alone() {
    let Some(()) = root_or_skip() else { return };
    let (folder, path) = place();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut served = Served::start(&path, &[]);
    let by_nobody = |arguments: &[&str]| {
        Said::of(command(&path, arguments).uid(65_534).gid(65_534).output().unwrap())
    };
    by_nobody(&["--stop"]).is_refused(2, &["try as its owner or as root"]);
    let json = by_nobody(&["--status", "--format", "json"]).json();
    assert_eq!((&json["served"], &json["writer"]), (&Value::Null, &served.id().into()));
    assert!(served.is_running());
}

#[test]
fn a_status_tells_by_its_code() {
    let (folder, path) = place();
    run(&path, &["--status"]).is_refused(2, &["there is no page"]);
    let bad: [(&str, &[u8], &str); 3] = [
        ("garbage", &[b'x'; SIZE], "the file is not a clock page"),
        ("short", b"fstclock", "the page is truncated"),
        ("long", &[b'x'; SIZE + 1], "the file is not a clock page"),
    ];
    for (name, bytes, words) in bad {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let named = run(Path::new("/none"), &["--status", path.to_str().unwrap()]);
        named.is_refused(2, &[words]);
    }
    let served = Served::start(&path, &["--withdraw-on-exit"]);
    served.end("-INT");
    let (code, json) = status(&path);
    assert_eq!((code, &json["answers"]), (Some(1), &false.into()));
    assert_eq!(json["reason_number"], Decline::WriterStopped.as_raw());
    let Said { code, stdout: text, .. } = run(&path, &["--status"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("does not answer") && text.contains("has ended its work"), "{text}");
}

#[test]
fn there_is_one_timekeeper() {
    let (_folder, path) = place();
    let served = Served::start(&path, &[]);
    let words = format!("another timekeeper (process {}) writes {}", served.id(), path.display());
    for mode in [&["--foreground"][..], &[]] {
        run(&path, mode).is_refused(125, &[&words]);
    }
    assert_eq!(status(&path).0, Some(0), "the first one is not disturbed");
    drop(served);
    Served::start(&path, &[]);
}

#[test]
fn readers_notice_nothing_of_a_restart_but_a_wider_bound() {
    let (_folder, path) = place();
    let mut served = Served::start(&path, READ_WHILE_VALID);
    let page = map(&path).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let program = Program::default();
            let mut reads = 0_u64;
            while !done.load(Ordering::Acquire) {
                let read = program.read(page);
                assert_eq!(read.declined, None, "after {reads} reads");
                reads += 1;
            }
            reads
        });
        for _ in 0..4 {
            let said = served.end("-TERM");
            served = Served::start(&path, READ_WHILE_VALID);
            // A reader thread that failed has printed the reason.
            assert!(!reader.is_finished(), "{said}");
        }
        done.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 1000);
    });
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode, "the same file");
}

#[test]
fn after_sigkill_the_line_holds_to_its_end_and_then_the_kernel_answers() {
    let (_folder, path) = place();
    let valid = &["--valid", "300ms", "--period", "20ms"];
    let program = Program::default();
    for round in 0..3 {
        let served = Served::start(&path, valid);
        let page = map(&path).unwrap();
        // The kernel's answer and then the page's are both right, and time does not step back between them.
        while program.read(page).declined.is_some() {}
        drop(served);
        let reason = loop {
            if let Some(reason) = program.read(page).declined {
                break reason;
            }
        };
        assert_eq!(reason, Decline::Expired, "round {round}");
        let (code, json) = status(&path);
        assert_eq!((code, &json["reason_number"]), (Some(1), &Decline::Expired.as_raw().into()));
    }
}

#[test]
fn what_is_no_page_is_replaced_and_what_is_no_file_is_not_touched() {
    let (folder, path) = place();
    fs::create_dir(path.parent().unwrap()).unwrap();
    let bad: [(&[u8], &str); 3] = [
        (&[b'x'; SIZE], "the file is not a clock page: it is replaced"),
        (b"short", "the page has 5 bytes instead of 4096: it is replaced"),
        (b"", "the page has 0 bytes instead of 4096: it is replaced"),
    ];
    for (bytes, words) in bad {
        fs::write(&path, bytes).unwrap();
        let mut old = fs::File::open(&path).unwrap();
        let said = Served::start(&path, &[]).end("-TERM");
        assert!(said.contains(words), "{said}");
        let mut kept = Vec::new();
        std::io::Read::read_to_end(&mut old, &mut kept).unwrap();
        assert_eq!(kept, bytes, "whoever has the old file keeps it");
        fs::remove_file(&path).unwrap();
    }
    let victim = folder.path().join("victim");
    fs::write(&victim, [7; SIZE]).unwrap();
    symlink(&victim, &path).unwrap();
    run(&path, &["--foreground"]).is_refused(125, &["is a symbolic link"]);
    assert_eq!(fs::read(&victim).unwrap(), [7; SIZE]);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    run(&path, &[]).is_refused(125, &[path.to_str().unwrap()]);
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let nowhere = Path::new("/proc/no/page");
    run(nowhere, &["--foreground"]).is_refused(125, &["cannot make the directory /proc/no"]);
    run(nowhere, &[]).is_refused(125, &["cannot make the directory /proc/no"]);
    run(Path::new("/proc/page"), &[]).is_refused(125, &["cannot open the lock /proc/page.lock"]);
    let said = run(Path::new("/none"), &["--foreground", "--user", "no-such-user"]);
    said.is_refused(125, &["cannot become user no-such-user: there is no such user"]);
}

#[test]
fn a_full_file_system_is_an_error_and_no_signal() {
    let Some(()) = root_or_skip() else { return };
    let (folder, _) = place();
    let mount = folder.path().to_str().unwrap();
    // In its own mount namespace, which goes away with its last process.
    let script = format!(
        "mount -t tmpfs -o size=16k none {mount} && (cat /dev/zero > {mount}/full; true) 2>/dev/null
         exec {} serve --foreground --page {mount}/page",
        env!("CARGO_BIN_EXE_clockscope")
    );
    let said = Said::of(untraced(&words!["unshare", "-m", "sh", "-c", script]));
    said.is_refused(125, &["no space left on device"]);
}

#[test]
fn it_goes_to_the_background_once_the_page_is_there() {
    let (_folder, path) = place();
    run(&path, &[]).printed();
    let (code, json) = status(&path);
    assert_eq!(code, Some(0));
    let process = json["writer"].as_u64().unwrap();
    let lock = fs::read_to_string(path.with_extension("lock")).unwrap();
    assert_eq!(lock.trim(), process.to_string());
    let directory = fs::read_link(format!("/proc/{process}/cwd")).unwrap();
    assert_eq!(directory, Path::new("/"));
    for standard in 0..3 {
        let target = fs::read_link(format!("/proc/{process}/fd/{standard}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"));
    }
    assert!(Command::new("kill").arg(process.to_string()).status().unwrap().success());
}

#[test]
fn privileges_are_dropped() {
    let Some(()) = root_or_skip() else { return };
    let (_folder, path) = place();
    let served = Served::start(&path, &["--user", "nobody"]);
    for task in fs::read_dir(format!("/proc/{}/task", served.id())).unwrap() {
        let text = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        let nobody = fs::read_to_string("/etc/passwd").unwrap();
        let nobody = nobody.lines().find(|line| line.starts_with("nobody:")).unwrap().to_owned();
        let numbers: Vec<&str> = nobody.split(':').skip(2).take(2).collect();
        assert_eq!(line("Uid:"), [numbers[0]; 4]);
        assert_eq!(line("Gid:"), [numbers[1]; 4]);
        assert_eq!(line("Groups:"), [""; 0]);
        for set in ["CapPrm:", "CapEff:"] {
            assert_eq!(line(set), ["0000000000000000"], "{set}");
        }
    }
    assert_eq!(status(&path).0, Some(0));
}

#[test]
fn a_supervisor_is_told() {
    let (folder, path) = place();
    let address = folder.path().join("notify");
    let socket = UnixDatagram::bind(&address).unwrap();
    let mut serve = command(&path, &["--foreground"]);
    serve.env("NOTIFY_SOCKET", &address).env("WATCHDOG_USEC", "400000");
    let served = Served::spawn(&mut serve, &path);
    let mut told = Vec::new();
    let mut hear_until = |word: &str| {
        loop {
            let mut bytes = [0; 512];
            let length = socket.recv(&mut bytes).unwrap();
            told.push(String::from_utf8_lossy(&bytes[..length]).trim().to_owned());
            if told.last().is_some_and(|last| last.contains(word)) {
                return told.clone();
            }
        }
    };
    let told = hear_until("STATUS=");
    assert!(told.iter().any(|word| word == "READY=1"), "{told:?}");
    assert!(told.last().is_some_and(|last| last == "STATUS=the page answers"), "{told:?}");
    hear_until("WATCHDOG=1");
    hear_until("WATCHDOG=1");
    served.end("-TERM");
    hear_until("STOPPING=1");
}

/// A page in its own directory, as a timekeeper leaves it at its end.
fn left_page() -> (tempfile::TempDir, PathBuf) {
    let (folder, path) = place();
    Served::start(&path, &[]).end("-TERM");
    (folder, path)
}

#[test]
fn what_belongs_to_somebody_else_is_not_taken_over() {
    let Some(()) = root_or_skip() else { return };
    let (_folder, path) = left_page();
    let lock = path.with_extension("lock");
    let give = |path: &Path, user| std::os::unix::fs::chown(path, Some(user), None).unwrap();
    for file in [&path, &lock] {
        give(file, 65_534);
        let before = fs::read(file).unwrap();
        run(&path, &["--foreground"]).is_refused(125, &["belongs to user 65534; remove it"]);
        assert_eq!(fs::read(file).unwrap(), before, "{}", file.display());
        give(file, 0);
    }
    let directory = path.parent().unwrap();
    give(directory, 65_534);
    run(&path, &["--foreground"]).is_refused(125, &["run belongs to user 65534; choose another"]);
    give(directory, 0);
    Served::start(&path, &[]);
}

#[test]
fn a_directory_in_which_others_may_write_is_refused() {
    let (_folder, path) = left_page();
    let directory = path.parent().unwrap();
    let open = |mode| fs::set_permissions(directory, fs::Permissions::from_mode(mode)).unwrap();
    for mode in [0o777, 0o775, 0o757] {
        open(mode);
        run(&path, &["--foreground"]).is_refused(125, &["others may write to the directory"]);
    }
    // With the sticky bit, as in /tmp, users cannot remove each other's files.
    open(0o1777);
    Served::start(&path, &[]);
}

#[test]
fn a_file_with_a_second_name_is_refused() {
    let (folder, path) = left_page();
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let lock = path.with_extension("lock");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&precious, &lock).unwrap();
    run(&path, &["--foreground"]).is_refused(125, &["page.lock has 2 names; remove it"]);
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&path, folder.path().join("second")).unwrap();
    run(&path, &["--foreground"]).is_refused(125, &["page has 2 names; remove it"]);
}

#[test]
fn whoever_could_write_the_page_once_cannot_end_its_timekeeper() {
    let (_folder, path) = left_page();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let kept_open = fs::File::options().write(true).open(&path).unwrap();
    let mut served = Served::start(&path, &["--period", "10ms"]);
    kept_open.set_len(0).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64, "it is another file");
    let count = || status(&path).1["count"].as_u64().unwrap();
    let before = count();
    while count() == before {
        assert!(served.is_running(), "the timekeeper has died");
    }
    let said = served.end("-TERM");
    assert!(said.contains("others could write to the page: it is replaced"), "{said}");
}

/// The page belongs to root. So even a compromised timekeeper cannot truncate it, which would end the programs that
/// read it.
#[test]
fn a_timekeeper_without_privileges_cannot_cut_its_page_off() {
    let Some(()) = root_or_skip() else { return };
    let (folder, path) = place();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let served = Served::start(&path, &["--user", "nobody"]);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o644));
    for entry in fs::read_dir(format!("/proc/{}/fd", served.id())).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        assert_ne!(target, path, "it keeps no descriptor");
    }
    let page = path.to_str().unwrap();
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "truncate", "-s", "0", page];
    let cut = Command::new("setpriv").args(nobody).output().unwrap();
    assert!(!cut.status.success(), "{cut:?}");
    assert!(String::from_utf8_lossy(&cut.stderr).contains("Permission denied"), "{cut:?}");
    assert_eq!(fs::metadata(&path).unwrap().len(), SIZE as u64);
}

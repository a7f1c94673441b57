//! `clockscope trace --unit`, `--container` and `--cgroup`: all processes of a control group are counted, including
//! processes that enter it later. `make test-containers` does the same with real containers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::attaching::{Attachment, Image, wait_until};
use crate::support::builds::{self, Link};
use crate::support::command::said;
use crate::support::compare::assert_counts;
use crate::support::running::{clockscope, rows};
use crate::support::{or_skip, root_or_skip, server, skip};

/// A control group of one test, removed when dropped.
struct Group {
    path: PathBuf,
    mount: PathBuf,
}

impl Group {
    /// Makes a control group in a mounted hierarchy; its name contains the process id of the test.
    fn new(name: &str) -> Option<Self> {
        root_or_skip()?;
        let mounts = fs::read_to_string("/proc/self/mounts").expect("read the mounts");
        let mount = mounts.lines().find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[2] == "cgroup2" || words[3].contains("name=systemd")).then(|| words[1].into())
        });
        let mount: PathBuf = or_skip(mount, "no control groups are mounted")?;
        let top = mount.join(format!("clockscope-test-{}-{name}", std::process::id()));
        let path = top.join(name);
        or_skip(fs::create_dir_all(&path).ok(), "a control group cannot be made")?;
        Some(Self { path, mount })
    }

    /// Moves a process into the group.
    fn enter(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("move a process");
    }

    /// The group's path in the hierarchy.
    fn in_hierarchy(&self) -> String {
        format!("/{}", self.path.strip_prefix(&self.mount).expect("is below").display())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes of the group have been killed, and the kernel removes them a moment later.
        let is_gone = |path: &Path| fs::remove_dir(path).is_ok() || !path.exists();
        wait_until("a control group can be removed", || is_gone(&self.path));
        wait_until("the one above it can be removed", || {
            is_gone(self.path.parent().expect("has one"))
        });
    }
}

/// Checks a refusal: status 125 and one line with the wanted words.
#[track_caller]
fn assert_not_found(option: &str, name: &str, wanted: &str) {
    said(&["trace", option, name]).is_refused(125, &[wanted]);
}

#[test]
fn processes_that_are_in_a_group_and_those_that_enter_it_are_counted() {
    let Some(group) = Group::new("some.service") else { return };
    let [Some(mut first), Some(mut second), Some(outside)] = [server(2), server(2), server(2)]
    else {
        return;
    };
    group.enter(first.pid());
    let path = group.in_hierarchy();
    let options = ["--via", "none", "--cgroup", &path];
    let mut attachment = Attachment::to_those_of(&options, &[first.pid()]);
    let before = Image::of_all(&[second.pid()]);
    group.enter(second.pid());
    attachment.reaches(&[second.pid()], &before);
    first.begin();
    second.begin();
    first.check_an_answer(3);
    let (mut said, more) = (first.end(), second.end());
    let report = attachment.detach().report();
    let attached: Vec<_> = rows(report.field("attached")).map(|row| &row["pid"]).collect();
    assert_eq!(attached, [first.pid(), second.pid()], "not {}", outside.pid());
    for (key, calls) in more.vdso {
        *said.vdso.entry(key).or_default() += calls;
    }
    said.at_least.clear();
    assert_counts(&said, &report);
    for rows in ["attached", "processes_detail"] {
        let row = &report.field(rows)[0];
        assert_eq!(row["unit"], "some.service", "{row}");
        assert!(row["container"].is_null() && row["pod"].is_null(), "{row}");
    }
    for server in [first, second, outside] {
        server.ends_well();
    }
}

/// A folder of control groups in which quotas of CPU time can be set.
fn with_quotas() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read the mounts");
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let at = PathBuf::from(words[1]);
        let has_quotas = match words[2] {
            "cgroup2" => fs::write(at.join("cgroup.subtree_control"), "+cpu").is_ok(),
            "cgroup" => words[3].split(',').any(|option| option == "cpu"),
            _ => false,
        };
        has_quotas.then_some(at)
    })
}

/// The group has a tenth of a CPU. Its hierarchy is mounted at two places, which does not count it twice.
#[test]
fn how_long_a_quota_held_the_program_back_is_told() {
    let Some(()) = root_or_skip() else { return };
    let Some(program) = builds::c("shares", Link::Dynamic) else { return };
    let Some(mount) = with_quotas() else { return skip("no quotas of CPU time can be set") };
    let group =
        Group { path: mount.join(format!("clockscope-{}/quota", std::process::id())), mount };
    fs::create_dir_all(&group.path).expect("make a control group");
    let set = |file: &str, text: &str| fs::write(group.path.join(file), text).is_ok();
    let set_both = set("cpu.cfs_period_us", "100000") && set("cpu.cfs_quota_us", "10000");
    assert!(set("cpu.max", "10000 100000") || set_both, "no quota");
    let throttled = || {
        let text = fs::read_to_string(group.path.join("cpu.stat")).expect("read the statistics");
        let number =
            |name| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        number("throttled_time ")
            .or_else(|| Some(number("throttled_usec ")? * 1_000))
            .expect("a time")
    };
    let elsewhere = tempfile::tempdir().expect("make a folder");
    let enter = format!(
        "echo 0 > {}; mount --bind {} {}; exec \"$0\" \"$@\"",
        group.path.join("cgroup.procs").display(),
        group.mount.display(),
        elsewhere.path().display()
    );
    let trace =
        words![clockscope(), "trace", "--via", "none", "--format", "json", program, "50000"];
    let mut command = Command::new("unshare");
    let output =
        command.args(["--mount", "sh", "-c", &enter]).args(trace).output().expect("start a shell");
    let report: serde_json::Value = serde_json::from_slice(&output.stderr).expect("a report");
    let (told, truly) = (report["throttled_ns"].as_u64().expect("a number"), throttled());
    assert!(told > 0 && told <= truly, "{told} of {truly}");
}

#[test]
fn a_container_is_found_by_the_beginning_of_its_id_and_its_end_is_the_end() {
    let id = format!("c10c{:060x}", std::process::id());
    let Some(group) = Group::new(&format!("docker-{id}.scope")) else { return };
    let Some(server) = server(2) else { return };
    group.enter(server.pid());
    let pid = server.pid();
    let (beginning, _) = id.split_at(60);
    let mut attachment = Attachment::to_those_of(&["--via", "none", "--container", &id], &[pid]);
    assert_not_found("--container", beginning, "it is traced by clockscope");
    server.ends_well();
    let report = attachment.wait().succeeded().report();
    let row = &report.field("attached")[0];
    let container = &row["container"];
    assert_eq!((&row["pid"], &row["ended"]), (&pid.into(), &"exited".into()), "{row}");
    assert_eq!((&container["runtime"], &container["id"]), (&"docker".into(), &id.into()), "{row}");
    assert!(container["name"].is_null(), "{row}");
}

#[test]
fn what_is_not_there_is_said_in_one_line() {
    for (option, name, why) in [
        ("--unit", "no\nsuch", "no process is in a unit called \"no\\nsuch.service\""),
        ("--container", "no-such", "container"),
        ("--cgroup", "/no/such", "no process is in a control group \"/no/such\" or below"),
        ("--cgroup", "/", "is the root of the control groups"),
    ] {
        assert_not_found(option, name, why);
    }
}

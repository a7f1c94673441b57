//! If a page has an owner and its timekeeper dies by SIGKILL, the next read notices.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::attaching::wait_until;
use crate::support::serve::{Program, map};
use clockscope_sys::page_file::{self, Access};
use clockscope_timekeeper::{Options, Timekeeper};
use fastclock::Decline;
use fastclock::page::{OWNER_DIED, SIZE};

/// Environment variable with the path of the page that `keeper_to_be_killed` keeps.
const PAGE: &str = "TIMEKEEPER_KILL_PAGE";

/// Not a test of its own: `the_death_of_the_owner_is_noticed_at_once` starts this process and kills it.
#[test]
fn keeper_to_be_killed() {
    let Some(path) = std::env::var_os(PAGE) else { return };
    let file = File::options().read(true).write(true).open(path).unwrap();
    let page = page_file::map(&file, Access::Write).unwrap();
    let valid = Duration::from_secs(3600);
    let keeper = Timekeeper::start(page, Options { valid, ..Options::default() }).unwrap();
    // Normally killed during this read. The read ends only if the other test has failed.
    let _ = std::io::stdin().read(&mut [0]);
    assert!(keeper.is_alive(), "the timekeeper has ended");
}

#[test]
fn the_death_of_the_owner_is_noticed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("page");
    std::fs::write(&path, [0; SIZE]).unwrap();
    let page = map(&path).unwrap();
    for round in 0..5 {
        let program = Program::default();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "timekeeper_kill::keeper_to_be_killed"])
            .env(PAGE, &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the page answers", || {
            assert_eq!(child.try_wait().unwrap(), None, "still there");
            program.read(page).declined.is_none()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let read = program.read(page);
        assert_eq!(read.declined, Some(Decline::WriterDied), "round {round}: {read:?}");
        assert_ne!(page.head.load(Ordering::Acquire) & OWNER_DIED, 0);
    }
}

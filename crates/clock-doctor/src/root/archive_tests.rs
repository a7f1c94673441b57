use super::*;
use crate::root::Root;
use crate::root::unpack;
use crate::root::unpack::tests::{gzip, zstd};

/// A member: name, kind, content (the target, for a link).
type Member<'a> = (&'a str, EntryType, &'a [u8]);

const FILE: EntryType = EntryType::Regular;

/// An archive of these members; names are written as they stand.
fn tar_of(members: &[Member]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind, content) in members {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        let is_link = matches!(kind, EntryType::Symlink | EntryType::Link);
        if is_link {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content);
        }
        let content = if is_link { b"" } else { *content };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn read(members: &[Member]) -> Archive {
    Archive::read(&tar_of(members)[..], "a.tar").unwrap()
}

fn text(archive: &Archive, below: &str) -> String {
    String::from_utf8(archive.file(below).unwrap().unwrap().to_vec()).unwrap()
}

/// The message about each refused member, as `FILE: WHY`.
fn said(archive: &Archive) -> Vec<String> {
    archive.refused.iter().map(|one| format!("{}: {}", one.file, one.why)).collect()
}

#[test]
fn a_folder_around_the_root_is_stripped() {
    for top in ["", "./", "sosreport-box-2024/", "./a/b/c/"] {
        let name = |below: &str| format!("{top}{below}");
        let (version, junk) = (name("proc/version"), name("etc/shadow"));
        let archive = read(&[
            (&name("proc"), EntryType::Directory, b""),
            (&version, FILE, b"Linux version 5.10.0"),
            (&junk, FILE, b"secret"),
        ]);
        assert_eq!(text(&archive, "proc/version"), "Linux version 5.10.0", "{top}");
        assert_eq!(archive.files.len(), 1, "{top}: only what doctor reads is kept");
    }
}

#[test]
fn of_two_machines_the_fuller_one_is_read_and_the_other_is_told() {
    let archive = read(&[
        ("one/proc/version", FILE, b"1"),
        ("one/proc/cmdline", FILE, b"1"),
        ("one/proc/cpuinfo", FILE, b"1"),
        ("two/proc/version", FILE, b"2"),
        ("two/proc/cmdline", FILE, b"2"),
        ("two/proc/cpuinfo", FILE, b"2"),
        ("two/var/lib/ntp/drift", FILE, b"2"),
    ]);
    assert_eq!(text(&archive, "proc/version"), "2");
    assert_eq!(said(&archive), ["one: another machine's root: one is read"]);
}

#[test]
fn paths_that_lead_elsewhere_are_refused_and_counted() {
    let archive = read(&[
        ("../proc/version", FILE, b"1"),
        ("x/../proc/version", FILE, b"2"),
        ("/proc/cmdline", FILE, b"3"),
        ("proc/cpuinfo", FILE, b"4"),
    ]);
    let expected = "../proc/version: an absolute path or `..` in it, not read; such members: 3";
    assert_eq!(said(&archive), [expected]);
    assert_eq!(archive.files.keys().collect::<Vec<_>>(), ["proc/cpuinfo"]);
}

#[test]
fn what_is_no_plain_file_is_refused_with_a_word() {
    let archive = read(&[
        ("proc/version", EntryType::Symlink, b"/etc/shadow"),
        ("proc/cmdline", EntryType::Link, b"etc/shadow"),
        ("proc/cpuinfo", EntryType::Fifo, b""),
        ("uname", EntryType::Char, b""),
        ("dmidecode", EntryType::Directory, b""),
        ("dmesg", EntryType::Symlink, b"../../../../etc/shadow"),
    ]);
    for (below, word) in [
        ("proc/version", "link"),
        ("proc/cmdline", "link"),
        ("proc/cpuinfo", "FIFO"),
        ("uname", "device"),
        ("dmidecode", "directory"),
    ] {
        assert!(archive.file(below).unwrap_err().why.contains(word), "{below}");
    }
    assert!(archive.log("dmesg").unwrap_err().why.contains("link"));
}

#[test]
fn a_link_to_what_is_read_anyway_is_not_told() {
    let members: [Member; 2] = [
        ("sos/uname", EntryType::Symlink, b"sos_commands/kernel/uname_-a"),
        ("sos/sos_commands/kernel/uname_-a", FILE, b"Linux box 5.10.0 x86_64"),
    ];
    let archive = read(&members);
    assert_eq!(archive.file("uname").unwrap(), None);
    assert!(archive.file("sos_commands/kernel/uname_-a").unwrap().is_some());
}

#[test]
fn of_a_member_that_is_there_twice_the_last_counts() {
    let archive = read(&[("proc/version", FILE, b"1"), ("proc/version", FILE, b"2")]);
    assert_eq!(text(&archive, "proc/version"), "2");
}

#[test]
fn long_names_of_both_kinds_are_read() {
    let long = format!("{}/proc/version", "d".repeat(150));
    let gnu =
        tar_of(&[("././@LongLink", EntryType::GNULongName, long.as_bytes()), ("x", FILE, b"1")]);
    let line = format!(" path={long}\n");
    let record = format!("{}{line}", line.len() + 3);
    assert_eq!(record.len(), line.len() + 3);
    let pax = tar_of(&[("x", EntryType::XHeader, record.as_bytes()), ("x", FILE, b"1")]);
    for bytes in [gnu, pax] {
        let archive = Archive::read(&bytes[..], "a").unwrap();
        assert_eq!(text(&archive, "proc/version"), "1");
    }
}

#[test]
fn a_name_or_a_header_without_end_is_an_error() {
    let much = vec![b'a'; 2 << 20];
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let bytes = tar_of(&[("x", kind, &much), ("y", FILE, b"")]);
        let error = Archive::read(&bytes[..], "a.tar").unwrap_err().to_string();
        assert!(error.starts_with("the archive cannot be read"), "{error}");
        assert!(error.contains("of more than"), "{error}");
    }
}

#[test]
fn more_than_is_kept_is_an_error() {
    let (names, megabyte): (Vec<_>, _) =
        ((0..70).map(|n| format!("host{n}/proc/cpuinfo")).collect(), vec![b'a'; 1 << 20]);
    let members: Vec<Member> =
        names.iter().map(|name| (name.as_str(), FILE, &megabyte[..])).collect();
    let error = Archive::read(&tar_of(&members)[..], "a.tar").unwrap_err().to_string();
    assert!(error.contains("64 MiB"), "{error}");
}

#[test]
fn an_archive_in_an_archive_is_told() {
    let inner = tar_of(&[("proc/version", FILE, b"1")]);
    let archive = read(&[("inner.tar", FILE, &inner)]);
    assert!(archive.files.is_empty());
    assert!(said(&archive)[0].contains("archive in the archive"));
}

#[test]
fn what_is_cut_off_is_told() {
    let whole = tar_of(&[("proc/version", FILE, b"Linux"), ("proc/cmdline", FILE, b"ro")]);
    // In a header, in the content, in the padding.
    for cut in [600, 1024 + 100, 1536 + 1] {
        let error = Archive::read(&whole[..cut], "a.tar").unwrap_err().to_string();
        assert!(error.contains("after 1 member") || error.contains("after 2 members"), "{error}");
    }
    let no_end = Archive::read(&whole[..2048], "a.tar").unwrap();
    assert!(said(&no_end)[0].contains("no end mark"));
    assert!(Archive::read(&whole[..], "a.tar").unwrap().refused.is_empty());
}

#[test]
fn packed_archives_are_read_and_their_faults_told() {
    let whole = tar_of(&[("proc/version", FILE, b"Linux"), ("proc/cmdline", FILE, b"ro")]);
    let read = |packed: &[u8]| unpack::log(packed).and_then(|bytes| Archive::read(bytes, "a"));
    for packed in [gzip(&whole), zstd(&whole)] {
        assert_eq!(text(&read(&packed).unwrap(), "proc/version"), "Linux");
        for cut in 1..packed.len() {
            let error = read(&packed[..cut]).unwrap_err().to_string();
            assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        }
    }
}

#[test]
fn a_packed_file_that_is_no_archive_is_told() {
    let packed = zstd(b"[    0.000000] Linux version");
    let error = Archive::read(&packed[..], "dmesg.zst").unwrap_err().to_string();
    assert!(error.contains("no tar archive"), "{error}");
}

#[test]
fn names_that_would_act_on_a_terminal_are_cleaned() {
    let archive = read(&[("../\u{1b}[2Jproc\n", FILE, b"")]);
    assert!(!said(&archive)[0].contains(['\u{1b}', '\n']));
}

#[test]
fn any_bytes_are_read_or_refused() {
    let whole = tar_of(&[("proc/version", FILE, b"Linux"), ("dmesg", FILE, b"[ 0.0] tsc: x\n")]);
    proptest::proptest!(|(at in 0..whole.len(), byte: u8)| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        if let Ok(root) = Root::from_archive(&bytes[..], "a") {
            let _ = crate::collect::facts(&root);
        }
    });
}

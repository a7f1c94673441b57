//! Finds and reads the state files of container runtimes. A container's user may own such a file (podman without root),
//! so it is not trusted: it must be a regular file, owned by that user or root, with at most a few megabytes.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::place::{Container, Place, Runtime, is_id};
use crate::state::{self, Form, Names};

/// Maximum size of a file that is read: a thousand containers take 1 MB.
const LONGEST: u64 = 8 << 20;
/// The storage drivers of containers/storage that have such files.
const DRIVERS: [&str; 4] = ["overlay", "vfs", "btrfs", "zfs"];

/// The names of containers, with a cache by container id.
#[derive(Debug)]
pub struct Lookup {
    roots: Vec<PathBuf>,
    known: HashMap<String, Option<Names>>,
}

impl Lookup {
    /// Searches below the root of process 1 and below our own root. Process 1's root is the host's root even in a
    /// container that sees the host's processes.
    pub fn here() -> Self {
        Self::below(vec!["/proc/1/root".into(), "/".into()])
    }

    /// Searches below these folders.
    pub fn below(roots: Vec<PathBuf>) -> Self {
        Self { roots, known: HashMap::new() }
    }

    /// Adds names to the place of a process of this user, which its control groups gave.
    pub fn fill(&mut self, place: &mut Place, user: u32) {
        let Some(container) = &place.container else { return };
        if let Some(names) = self.names(&container.clone(), user) {
            names.fill(place);
        }
    }

    /// The names of a container with a process of this user.
    pub fn names(&mut self, container: &Container, user: u32) -> Option<Names> {
        let id = container.id.verbatim();
        if let Some(known) = self.known.get(id) {
            return known.clone();
        }
        // An id of another form might be a path.
        let found = if is_id(id) { self.find(container.runtime, id, user) } else { None };
        self.known.insert(id.to_owned(), found.clone());
        found
    }

    fn find(&self, runtime: Option<Runtime>, id: &str, user: u32) -> Option<Names> {
        self.roots.iter().find_map(|root| {
            let names = |home: Option<&str>, owner| {
                places(runtime, id, home).into_iter().find_map(|(form, path)| {
                    state::names(form, &read(&root.join(path), owner)?, id)
                })
            };
            let of_user = || names(Some(&home_of(root, user).filter(|_| user != 0)?), user);
            names(None, 0).or_else(of_user)
        })
    }
}

/// Paths, without the leading `/`, of files that may hold a container's names. Pure.
fn places(runtime: Option<Runtime>, id: &str, home: Option<&str>) -> Vec<(Form, String)> {
    let may_be = |of: &[Runtime]| runtime.is_none_or(|runtime| of.contains(&runtime));
    let mut places = Vec::new();
    if may_be(&[Runtime::Podman, Runtime::CriO]) {
        let of_user = home.map(|home| format!("{}/.local/share", home.trim_start_matches('/')));
        let storage = of_user.unwrap_or("var/lib".to_owned()) + "/containers/storage";
        for driver in DRIVERS {
            places.extend(
                ["containers.json", "volatile-containers.json"]
                    .map(|file| (Form::Storage, format!("{storage}/{driver}-containers/{file}"))),
            );
        }
    }
    if home.is_some() {
        return places;
    }
    if may_be(&[Runtime::Docker]) {
        places.push((Form::Docker, format!("var/lib/docker/containers/{id}/config.v2.json")));
    }
    if may_be(&[Runtime::Containerd]) {
        for containerd in ["run/containerd", "run/k3s/containerd"] {
            for namespace in ["k8s.io", "default"] {
                let task = format!("{containerd}/io.containerd.runtime.v2.task/{namespace}/{id}");
                places.push((Form::Bundle, format!("{task}/config.json")));
            }
        }
    }
    if may_be(&[Runtime::CriO]) {
        let bundle = format!("run/containers/storage/overlay-containers/{id}/userdata");
        places.push((Form::Bundle, format!("{bundle}/config.json")));
    }
    places
}

/// The home of a user, from `etc/passwd` below `root`.
fn home_of(root: &Path, user: u32) -> Option<String> {
    let text = read(&root.join("etc/passwd"), 0)?;
    String::from_utf8_lossy(&text).lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.get(2)?.parse() == Ok(user);
        is_it.then(|| fields.get(5).map(|home| (*home).to_owned()))?
    })
}

/// Reads a small regular file of a user or of root; neither blocks nor follows a link in the last component.
fn read(path: &Path, owner: u32) -> Option<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || !(metadata.uid() == owner || metadata.uid() == 0) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LONGEST).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";

    fn own_uid(root: &Path) -> u32 {
        fs::metadata(root).expect("is there").uid()
    }

    fn put(root: &Path, path: &str, text: &str) -> PathBuf {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("is below")).expect("make folders");
        fs::write(&path, text).expect("write");
        path
    }

    /// The name of a runtime's container, from files below a folder.
    fn name(root: &Path, runtime: Option<Runtime>) -> Option<String> {
        let container = Container { runtime, id: ID.into(), name: None };
        let names = Lookup::below(vec![root.into()]).names(&container, own_uid(root))?;
        names.container.map(|name| name.verbatim().to_owned())
    }

    /// A file of podman, owned by the user that runs the test.
    fn of_podman(root: &Path) -> PathBuf {
        put(root, "etc/passwd", &format!("a:x:{}:0::/var/a:/bin/sh\n", own_uid(root)));
        let folder = if own_uid(root) == 0 { "var/lib" } else { "var/a/.local/share" };
        let text = format!(r#"[{{"id":"{ID}","names":["web"]}}]"#);
        put(root, &format!("{folder}/containers/storage/overlay-containers/containers.json"), &text)
    }

    fn of_docker(root: &Path, folder: &str, text: &str) {
        put(root, &format!("var/lib/docker/containers/{folder}/config.v2.json"), text);
    }

    #[test]
    fn names_are_found_where_the_runtimes_keep_them() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(name(root, None), None);
        of_podman(root);
        for runtime in [Some(Runtime::Podman), Some(Runtime::CriO), None] {
            assert_eq!(name(root, runtime).as_deref(), Some("web"), "{runtime:?}");
        }
        assert_eq!(name(root, Some(Runtime::Docker)), None);
        if own_uid(root) == 0 {
            let path = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}");
            let text = r#"{"annotations":{"io.kubernetes.cri.container-name":"nginx"}}"#;
            put(root, &(path + "/config.json"), text);
            of_docker(root, ID, &format!(r#"{{"ID":"{ID}","Name":"/db"}}"#));
            assert_eq!(name(root, Some(Runtime::Containerd)).as_deref(), Some("nginx"));
            assert_eq!(name(root, Some(Runtime::Docker)).as_deref(), Some("db"));
        }
    }

    #[test]
    fn what_is_no_small_file_is_not_read_and_nobody_waits() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let file = of_podman(root);
        let podman = Some(Runtime::Podman);
        assert_eq!(name(root, podman).as_deref(), Some("web"));
        let moved = root.join("elsewhere");
        fs::rename(&file, &moved).unwrap();
        symlink(&moved, &file).unwrap();
        assert_eq!(name(root, podman), None, "a link");
        fs::remove_file(&file).unwrap();
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, 0o600.into(), 0).unwrap();
        assert_eq!(name(root, podman), None, "a pipe");
        fs::remove_file(&file).unwrap();
        fs::rename(&moved, &file).unwrap();
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(1 << 30).unwrap();
        assert_eq!(name(root, podman), None, "1 GiB");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(name(root, podman), None, "a folder");
    }

    #[test]
    fn a_name_that_is_no_id_is_no_path() {
        let root = tempfile::tempdir().unwrap();
        of_docker(root.path(), "x", r#"{"ID":"../x","Name":"/no"}"#);
        let container = Container { runtime: None, id: "../x".into(), name: None };
        let names = Lookup::below(vec![root.path().into()]).names(&container, own_uid(root.path()));
        assert_eq!(names, None);
    }
}

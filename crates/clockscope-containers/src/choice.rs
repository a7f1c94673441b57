//! Resolves a user's choice of unit, container or control group to its processes. Pure.

use std::collections::BTreeMap;

use crate::place::{Container, Place, components, is_hexadecimal, is_unit, paths, walk};
use crate::processes::Process;
use crate::state::Names;
use clockscope_text::foreign::{Foreign, printable};
use clockscope_text::names::{listed, nearest};

/// A user's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A systemd unit; a name without a suffix is that of a service.
    Unit(String),
    /// A container: name, id, or prefix of an id. In Kubernetes also `POD/NAME` and `NAMESPACE/POD/NAME`.
    Container(String),
    /// A control group: a path in its hierarchy, or below the hierarchy's mount point.
    Cgroup(String),
}

/// The chosen control group; it stands for all processes in it and below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group(String);

impl Group {
    /// Whether a process with this `/proc/PID/cgroup` is in the group or below.
    pub fn has(&self, cgroup: &str) -> bool {
        paths(cgroup).iter().any(|path| is_at_or_below(path, &self.0))
    }
}

fn is_at_or_below(path: &str, group: &str) -> bool {
    path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Why nothing was chosen: a clause with the reason and the possible choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotChosen(String);

/// Gives the names of a container, from the id of one of its processes.
type Ask<'a> = dyn FnMut(&Container, i32) -> Option<Names> + 'a;

/// Maximum number of candidates in a message.
const LISTED: usize = 5;

/// Finds the chosen control group.
///
/// `names` gives the names of a container, from the id of one of its processes. `mountinfo` is the text of
/// `/proc/self/mountinfo`.
///
/// # Errors
///
/// If no process belongs to the choice, or the choice is ambiguous.
pub fn choose(
    wanted: &Wanted,
    processes: &[Process],
    names: &mut Ask<'_>,
    mountinfo: &str,
) -> Result<Group, NotChosen> {
    match wanted {
        Wanted::Unit(name) => unit(name, processes),
        Wanted::Container(name) => container(name, processes, names),
        Wanted::Cgroup(path) => cgroup(path, processes, mountinfo),
    }
}

fn cgroup(path: &str, processes: &[Process], mountinfo: &str) -> Result<Group, NotChosen> {
    let below =
        mounts(mountinfo).filter(|mount| is_at_or_below(path, mount)).max_by_key(|m| m.len());
    let in_hierarchy = below.map_or(path, |mount| &path[mount.len()..]);
    let names: Vec<&str> = components(in_hierarchy).map(|(name, _)| name).collect();
    if names.is_empty() {
        return Err(NotChosen(format!(
            "{path:?} is the root of the control groups, and all processes are below; name one below it"
        )));
    }
    let group = Group(format!("/{}", names.join("/")));
    if processes.iter().any(|process| group.has(&process.cgroup)) {
        return Ok(group);
    }
    Err(NotChosen(format!(
        "no process is in a control group {path:?} or below; /proc/PID/cgroup says in which one a process is"
    )))
}

/// Mount points of the cgroup hierarchies: proc_pid_mountinfo(5).
fn mounts(mountinfo: &str) -> impl Iterator<Item = &str> {
    mountinfo.lines().filter_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let is_cgroup = file_system.starts_with("cgroup ") || file_system.starts_with("cgroup2 ");
        mount.split(' ').nth(4).filter(|_| is_cgroup)
    })
}

fn unit(name: &str, processes: &[Process]) -> Result<Group, NotChosen> {
    let is_whole = is_unit(name) || name.ends_with(".slice");
    let wanted = if is_whole { name.to_owned() } else { format!("{name}.service") };
    // If several units have the same name, systemctl means the system's unit instead of a user's or a container's.
    let mut found: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let mut units = Vec::new();
    for path in processes.iter().flat_map(|process| paths(&process.cgroup)) {
        let container_at = walk(path).container_at;
        for (name, end) in components(path) {
            if is_unit(name) {
                units.push(name);
            }
            if name != wanted {
                continue;
            }
            let is_inside = container_at.is_some_and(|at| at < end);
            let is_of_user = path[..end].contains("/user@");
            let group = path[..end].to_owned();
            let groups = found.entry(u8::from(is_of_user) + 2 * u8::from(is_inside)).or_default();
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
    }
    match found.into_values().next() {
        Some(groups) if groups.len() == 1 => Ok(Group(groups[0].clone())),
        Some(groups) => Err(NotChosen(format!(
            "several units are called {wanted}: {}; choose one by --cgroup",
            printable(&listed(&groups, LISTED))
        ))),
        None => {
            let near = nearest(&wanted, units.into_iter().filter(|unit| *unit != wanted));
            let meant = near.map(|near| format!("did you mean {}? ", printable(near)));
            Err(NotChosen(format!(
                "no process is in a unit called {wanted:?}; {}see `systemctl status {}`",
                meant.unwrap_or_default(),
                printable(&wanted)
            )))
        }
    }
}

/// A running container, with the names that a user may give.
struct Running {
    group: String,
    id: String,
    /// The full name, for users: `shop/web-0/nginx`, `web`.
    whole: Option<String>,
    short_id: String,
}

impl Running {
    /// Whether the full name ends with `name`, at a `/` or as a whole.
    fn is_called(&self, name: &str) -> bool {
        self.whole.as_deref().is_some_and(|whole| {
            whole.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    }

    fn shown(&self) -> String {
        match &self.whole {
            Some(whole) => format!("{} ({})", printable(whole), self.short_id),
            None => self.short_id.clone(),
        }
    }
}

fn container(name: &str, processes: &[Process], ask: &mut Ask<'_>) -> Result<Group, NotChosen> {
    let running = running(processes, ask);
    let of_id = |running: &&Running| running.id == name;
    let of_whole_name = |running: &&Running| running.whole.as_deref() == Some(name);
    let of_name = |running: &&Running| running.is_called(name);
    let of_prefix = |running: &&Running| is_hexadecimal(name) && running.id.starts_with(name);
    let rules: [&dyn Fn(&&Running) -> bool; 4] = [&of_id, &of_whole_name, &of_name, &of_prefix];
    for rule in rules {
        let found: Vec<&Running> =
            running.iter().filter(|one| !name.is_empty() && rule(one)).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(Group(one.group.clone())),
            _ => {
                let found: Vec<String> = found.iter().map(|one| one.shown()).collect();
                return Err(NotChosen(format!(
                    "several containers are called {name:?}: {}; give more of the id",
                    listed(&found, LISTED)
                )));
            }
        }
    }
    if running.is_empty() {
        return Err(NotChosen(format!(
            "no container called {name:?} is running: no process here is in a container; run clockscope on the host"
        )));
    }
    let all: Vec<String> = running.iter().map(Running::shown).collect();
    Err(NotChosen(format!(
        "no running container is called {name:?}; there are {}",
        listed(&all, LISTED)
    )))
}

/// All containers with at least one process.
fn running(processes: &[Process], ask: &mut Ask<'_>) -> Vec<Running> {
    let mut all: Vec<Running> = Vec::new();
    for process in processes {
        let walks = paths(&process.cgroup).into_iter().map(|path| (path, walk(path)));
        let found = walks.filter_map(|(path, walk)| Some((path, walk.container_at?, walk.place)));
        let Some((path, end, place)) = found.into_iter().next() else { continue };
        let Place { container: Some(container), .. } = place else { continue };
        if all.iter().any(|other| other.id == container.id.verbatim()) {
            continue;
        }
        let names = ask(&container, process.pid).unwrap_or_default();
        let parts = [names.namespace, names.pod, names.container];
        let parts: Vec<String> =
            parts.iter().flatten().map(|part: &Foreign| part.verbatim().to_owned()).collect();
        all.push(Running {
            group: path[..end].to_owned(),
            id: container.id.verbatim().to_owned(),
            whole: (!parts.is_empty()).then(|| parts.join("/")),
            short_id: container.short_id(),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: &str = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";
    const DB: &str = "3f2b00c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";
    const POD: &str = "abcdefc09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";

    fn process(pid: i32, path: &str) -> Process {
        Process { pid, cgroup: format!("0::{path}\n") }
    }

    fn host() -> Vec<Process> {
        vec![
            process(1, "/init.scope"),
            process(10, "/system.slice/nginx.service"),
            process(11, "/system.slice/nginx.service/worker"),
            process(12, "/system.slice/dbus.service"),
            process(13, "/user.slice/user-1000.slice/user@1000.service/app.slice/dbus.service"),
            process(14, "/user.slice/user-1001.slice/user@1001.service/app.slice/dbus.service"),
            process(15, "/user.slice/user-1000.slice/user@1000.service/app.slice/vte.service"),
            process(16, "/user.slice/user-1001.slice/user@1001.service/app.slice/vte.service"),
            process(20, &format!("/machine.slice/libpod-{WEB}.scope/container")),
            process(21, &format!("/machine.slice/libpod-{WEB}.scope/container/sub")),
            process(22, &format!("/machine.slice/libpod-{DB}.scope/container")),
            process(23, &format!("/machine.slice/libpod-conmon-{DB}.scope")),
            process(30, &format!("/system.slice/docker-{POD}.scope/system.slice/cron.service")),
        ]
    }

    fn names(container: &Container, _: i32) -> Option<Names> {
        let name = |text: &str| Some(Foreign::from(text));
        match container.id.verbatim() {
            WEB => Some(Names { container: name("web"), ..Names::default() }),
            DB => Some(Names { container: name("d\nb"), ..Names::default() }),
            POD => {
                Some(Names { container: name("web"), pod: name("web-0"), namespace: name("shop") })
            }
            _ => None,
        }
    }

    const MOUNTS: &str = "\
        30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,size=4096k\n\
        31 30 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n\
        32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n";

    /// The ids of the chosen processes, or the reason why there are none.
    fn chosen(wanted: Wanted) -> Result<Vec<i32>, String> {
        let host = host();
        let group = choose(&wanted, &host, &mut names, MOUNTS).map_err(|not| not.to_string())?;
        Ok(host.iter().filter(|one| group.has(&one.cgroup)).map(|one| one.pid).collect())
    }

    #[test]
    fn units_are_found_as_systemctl_finds_them() {
        let unit = |name: &str| chosen(Wanted::Unit(name.to_owned()));
        assert_eq!(unit("nginx.service").unwrap(), [10, 11]);
        assert_eq!(unit("nginx").unwrap(), [10, 11]);
        assert_eq!(unit("dbus").unwrap(), [12], "the system's");
        assert_eq!(unit("cron").unwrap(), [30], "in a container, where there is no other");
        assert_eq!(unit("user@1000.service").unwrap(), [13, 15]);
        assert_eq!(unit("init.scope").unwrap(), [1]);
        assert_eq!(unit("user-1001.slice").unwrap(), [14, 16]);
        let several = unit("vte").unwrap_err();
        assert!(
            several.starts_with("several units are called vte.service: /user.slice/user-1000"),
            "{several}"
        );
        assert_eq!(
            unit("ngnix").unwrap_err(),
            "no process is in a unit called \"ngnix.service\"; did you mean nginx.service? \
             see `systemctl status ngnix.service`"
        );
    }

    #[test]
    fn containers_are_found_by_name_and_by_id() {
        let container = |name: &str| chosen(Wanted::Container(name.to_owned()));
        assert_eq!(container(WEB).unwrap(), [20, 21]);
        assert_eq!(container("3f2a").unwrap(), [20, 21]);
        assert_eq!(container("3f2b").unwrap(), [22], "and not who watches it");
        assert_eq!(container("d\nb").unwrap(), [22]);
        assert_eq!(container("web-0/web").unwrap(), [30]);
        assert_eq!(container("shop/web-0/web").unwrap(), [30]);
        assert_eq!(
            container("3f2").unwrap_err(),
            "several containers are called \"3f2\": web (3f2a81c09d4b), d?b (3f2b00c09d4b); give more of the id"
        );
        assert_eq!(container("web").unwrap(), [20, 21], "its whole name");
        assert_eq!(
            container("no\nsuch").unwrap_err(),
            "no running container is called \"no\\nsuch\"; there are web (3f2a81c09d4b), d?b (3f2b00c09d4b), \
             shop/web-0/web (abcdefc09d4b)"
        );
        assert!(container("").is_err());
        assert!(container("eb").is_err());
        let none =
            choose(&Wanted::Container("a".to_owned()), &[process(1, "/")], &mut names, MOUNTS);
        assert_eq!(
            none.unwrap_err().to_string(),
            "no container called \"a\" is running: no process here is in a container; run clockscope on the host"
        );
    }

    #[test]
    fn control_groups_are_found_by_path_with_and_without_the_mount() {
        let cgroup = |path: &str| chosen(Wanted::Cgroup(path.to_owned()));
        for path in [
            "/system.slice/nginx.service",
            "system.slice/nginx.service/",
            "/sys/fs/cgroup/unified/system.slice/nginx.service",
            "/sys/fs/cgroup/cpu,cpuacct//system.slice/nginx.service",
        ] {
            assert_eq!(cgroup(path).unwrap(), [10, 11], "{path}");
        }
        assert_eq!(cgroup("/system.slice").unwrap(), [10, 11, 12, 30]);
        for root in ["/", "", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/"] {
            assert!(
                cgroup(root).unwrap_err().contains("is the root of the control groups"),
                "{root}"
            );
        }
        assert_eq!(
            cgroup("/system.slice/nginx").unwrap_err(),
            "no process is in a control group \"/system.slice/nginx\" or below; /proc/PID/cgroup says in which one a \
             process is"
        );
    }
}

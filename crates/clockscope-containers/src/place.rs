//! Container, pod and systemd unit of a process, from its control groups. Pure.
//!
//! # References
//!
//! `cgroups(7)`; naming schemes of the runtimes: runc's `libcontainer/cgroups`, podman's
//! `libpod/container_internal_linux.go`, Kubernetes' `pkg/kubelet/cm/cgroup_manager_linux.go` and `helpers_linux.go`,
//! `systemd.unit(5)` (escaping), `systemd-nspawn(1)`, `lxc.container.conf(5)` (`lxc.cgroup.dir`)

use std::fmt;

use serde::{Deserialize, Serialize};

use clockscope_text::foreign::Foreign;
use clockscope_text::names::distinct;

/// Container, pod and unit of a process; `None` if its control groups do not show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The container; the innermost one if containers are nested.
    pub container: Option<Container>,
    /// The pod that the container belongs to.
    pub pod: Option<Pod>,
    /// The systemd unit: the innermost one, except the container's own scope.
    pub unit: Option<Foreign>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Container {
    /// The runtime that made it.
    pub runtime: Option<Runtime>,
    /// 64 hexadecimal digits; for nspawn and LXC the name of the machine.
    pub id: Foreign,
    /// The container's name, if a file of the runtime gives it.
    pub name: Option<Foreign>,
}

/// A pod, of Kubernetes or of podman.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Kubernetes' UID, or podman's id of the pod.
    pub uid: Option<Foreign>,
    /// The pod's name, if a file of the runtime gives it.
    pub name: Option<Foreign>,
    /// The pod's namespace in Kubernetes, if a file of the runtime gives it.
    pub namespace: Option<Foreign>,
}

/// A container runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Runtime {
    /// Docker.
    Docker,
    /// podman.
    Podman,
    /// containerd: Kubernetes, nerdctl.
    Containerd,
    /// CRI-O.
    CriO,
    /// systemd-nspawn.
    Nspawn,
    /// LXC, LXD and Incus.
    Lxc,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Digits of a container's id.
const ID_DIGITS: usize = 64;
/// Digits of the id that docker and podman print.
const SHORT_ID_DIGITS: usize = 12;

impl Container {
    /// The id as docker and podman print it, 12 digits; a machine name is not cut.
    pub fn short_id(&self) -> String {
        let id = self.id.verbatim();
        if is_id(id) { id[..SHORT_ID_DIGITS].to_owned() } else { self.id.printable() }
    }
}

impl Place {
    /// The short name of the container, with its pod, in the form that `--container` accepts: `web`, `web-0/nginx`,
    /// `3f2a81c09d4b`.
    pub fn container_name(&self) -> Option<String> {
        let container = self.container.as_ref()?;
        let name = container.name.as_ref().map_or_else(|| container.short_id(), Foreign::printable);
        let pod = self.pod.as_ref().and_then(|pod| pod.name.as_ref());
        Some(pod.map_or_else(|| name.clone(), |pod| format!("{pod}/{name}", pod = pod.printable())))
    }
}

/// `container web (podman 3f2a81c09d4b)`, `pod shop/web-0`, `nginx.service`, separated by commas; empty if nothing is known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(container) = &self.container {
            let id = container.short_id();
            let runtime = container.runtime.map(|runtime| runtime.to_string());
            parts.push(match (&container.name, runtime) {
                (Some(name), Some(runtime)) => format!("container {name} ({runtime} {id})"),
                (Some(name), None) => format!("container {name} ({id})"),
                (None, Some(runtime)) => format!("container {id} ({runtime})"),
                (None, None) => format!("container {id}"),
            });
        }
        if let Some(pod) = &self.pod {
            parts.push(match (&pod.name, &pod.namespace, &pod.uid) {
                (Some(name), Some(namespace), _) => format!("pod {namespace}/{name}"),
                (Some(name), None, _) => format!("pod {name}"),
                (None, _, Some(uid)) => format!("pod {uid}"),
                (None, _, None) => "a pod".to_owned(),
            });
        }
        parts.extend(self.unit.as_ref().map(Foreign::printable));
        f.pad(&parts.join(", "))
    }
}

/// The control groups in a `/proc/PID/cgroup`, the most informative first: those of v2, of systemd, then the others.
pub fn paths(text: &str) -> Vec<&str> {
    let ranked = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let rank = match controllers {
            "" => 0,
            "name=systemd" => 1,
            _ => 2,
        };
        Some((rank, path.strip_suffix(" (deleted)").unwrap_or(path)))
    });
    let mut found: Vec<(u8, &str)> = ranked.collect();
    found.sort_by_key(|(rank, _)| *rank);
    distinct(found.into_iter().map(|(_, path)| path))
}

/// Container, pod and unit from the text of a `/proc/PID/cgroup`.
pub fn place(text: &str) -> Place {
    let all: Vec<Place> = paths(text).into_iter().map(|path| walk(path).place).collect();
    let with_container = all.iter().find(|place| place.container.is_some());
    let best = with_container.or_else(|| all.iter().find(|place| **place != Place::default()));
    best.cloned().unwrap_or_default()
}

/// The result of a walk down a control group's path.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) place: Place,
    /// Length of the path to the container.
    pub(crate) container_at: Option<usize>,
}

/// Walks down a path.
pub(crate) fn walk(path: &str) -> Walk {
    let mut walk = Walk::default();
    let mut above = "";
    let mut in_kubernetes = false;
    for (name, end) in components(path) {
        // If the cgroup drivers of kubelet and runtime differ, one name consists of three parts.
        let (slice, name) = match name.split_once(':') {
            Some((slice, rest)) if rest.contains(':') => (Some(slice), rest),
            _ => (None, name),
        };
        in_kubernetes |= [Some(name), slice].iter().flatten().any(|name| is_of_kubelet(name));
        if let Some(uid) = pod(slice.unwrap_or(name), in_kubernetes) {
            walk.place = Place { pod: Some(uid), ..Place::default() };
            walk.container_at = None;
        }
        if let Some(container) = container(name, slice.unwrap_or(above)) {
            // Units around a container say less about it. Only a unit that consists of the container alone is its unit.
            let own_unit = if name.ends_with(".service") { name } else { slice.unwrap_or(above) };
            let unit = Some(own_unit).filter(|unit| unit.ends_with(".service"));
            walk.place.container = Some(container);
            walk.place.unit = unit.map(Foreign::from);
            walk.container_at = Some(end);
        } else if is_unit(name) {
            walk.place.unit = Some(name.into());
        }
        above = name;
    }
    walk
}

/// The names in a path, and the end offset of each.
pub(crate) fn components(path: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut end = 0;
    path.split('/').filter_map(move |name| {
        let from = end;
        end = from + name.len() + 1;
        (!name.is_empty()).then_some((name, from + name.len()))
    })
}

/// Whether a name is that of a unit that can contain processes, other than a slice.
pub(crate) fn is_unit(name: &str) -> bool {
    [".service", ".scope", ".socket", ".mount", ".swap"].iter().any(|kind| name.ends_with(kind))
}

fn is_of_kubelet(name: &str) -> bool {
    name.starts_with("kubepods") || name.starts_with("kubelet")
}

/// Whether a name is a container's id.
pub(crate) fn is_id(name: &str) -> bool {
    name.len() == ID_DIGITS && is_hexadecimal(name)
}

pub(crate) fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The pod of a control group, if its name is that of a pod.
fn pod(name: &str, in_kubernetes: bool) -> Option<Pod> {
    let of = |uid: String| Pod { uid: Some(uid.into()), ..Pod::default() };
    if let Some(slice) = name.strip_suffix(".slice") {
        if let Some((_, id)) = slice.rsplit_once("libpod_pod_").filter(|(_, id)| is_id(id)) {
            return Some(of(id.to_owned()));
        }
        let (_, uid) = slice.rsplit_once("-pod").filter(|_| in_kubernetes)?;
        return is_uid(uid).then(|| of(uid.replace('_', "-")));
    }
    let uid = name.strip_prefix("pod").filter(|_| in_kubernetes)?;
    is_uid(uid).then(|| of(uid.to_owned()))
}

/// Whether a text may be the UID of a pod: a UUID, or 32 digits for a static pod.
fn is_uid(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_');
    (32..=36).contains(&text.len()) && text.bytes().all(is_digit)
}

/// The container of a control group, if its name is that of a container.
fn container(name: &str, above: &str) -> Option<Container> {
    let of = |runtime, id: &str| Container { runtime, id: id.into(), name: None };
    let scope = name.strip_suffix(".scope");
    if let Some(machine) = scope.and_then(|scope| scope.strip_prefix("machine-")) {
        // A machine of libvirt is no container.
        let name = unescaped(machine);
        return (!name.starts_with("qemu-")).then(|| of(Some(Runtime::Nspawn), &name));
    }
    let service = name.strip_suffix(".service");
    if let Some(machine) = service.and_then(|name| name.strip_prefix("systemd-nspawn@")) {
        return Some(of(Some(Runtime::Nspawn), &unescaped(machine)));
    }
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return Some(of(Some(Runtime::Lxc), name));
    }
    if matches!(above, "lxc" | "lxc.payload") {
        return Some(of(Some(Runtime::Lxc), name));
    }
    let name = scope.unwrap_or(name);
    let at = name.len().checked_sub(ID_DIGITS).filter(|at| name.is_char_boundary(*at))?;
    let (prefix, id) = name.split_at(at);
    let separates = prefix.is_empty() || prefix.ends_with(['-', ':']);
    // conmon only monitors a container.
    if !is_id(id) || !separates || prefix.contains("conmon") {
        return None;
    }
    let runtime = match (prefix.trim_end_matches(['-', ':']), above) {
        ("docker", _) | ("", "docker") => Some(Runtime::Docker),
        ("libpod" | "libpod-payload", _) | ("", "libpod_parent") => Some(Runtime::Podman),
        ("cri-containerd" | "nerdctl" | "containerd", _) | ("", "k8s.io" | "default") => {
            Some(Runtime::Containerd)
        }
        ("crio", _) => Some(Runtime::CriO),
        _ => None,
    };
    Some(of(runtime, id))
}

/// A name without systemd's escapes: `\x2d` is `-`.
fn unescaped(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code =
            behind.strip_prefix(b"x").and_then(|hex| hex.get(..2)).filter(|_| *first == b'\\');
        let code = code.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[3..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";
    const POD: &str = "9b7d2f4e-1c3a-4e5f-8a6b-0d1e2f3a4b5c";

    /// Container, pod and unit in one line: `runtime id`, pod, unit; `-` for unknown parts.
    fn told(text: &str) -> String {
        let place = place(
            &text.replace("ID", ID).replace("POD_", &POD.replace('-', "_")).replace("POD", POD),
        );
        let container = place.container.map(|container| {
            let runtime = container.runtime.map_or("?".to_owned(), |runtime| runtime.to_string());
            let id = container.id.verbatim();
            format!("{runtime} {}", if id == ID { "ID" } else { id })
        });
        let pod = place
            .pod
            .and_then(|pod| pod.uid)
            .map(|uid| uid.verbatim().replace(POD, "POD").replace(ID, "ID"));
        let unit = place.unit.map(|unit| unit.verbatim().to_owned());
        [container, pod, unit].map(|part| part.unwrap_or("-".to_owned())).join(" | ")
    }

    /// Paths, with container, pod and unit of each; lines with `#` are headings.
    const PATHS: &str = include_str!("place_paths.txt");

    #[test]
    fn paths_of_all_runtimes_are_understood() {
        let rows = PATHS.lines().filter(|row| !row.starts_with('#'));
        assert_eq!(rows.clone().count(), 48);
        for (path, wanted) in rows.map(|row| row.split_once(" = ").expect("a row")) {
            assert_eq!(
                told(&format!("0::{path}\n")),
                wanted.replace("conmon-ID", &format!("conmon-{ID}")),
                "{path}"
            );
        }
    }

    #[test]
    fn hosts_with_the_first_version_and_with_both_are_understood() {
        let v1 = "12:pids:/docker/ID\n11:memory:/docker/ID\n1:name=systemd:/docker/ID\n";
        assert_eq!(told(v1), "docker ID | - | -");
        let hybrid =
            "3:cpu,cpuacct:/system.slice\n1:name=systemd:/system.slice/nginx.service\n0::/\n";
        assert_eq!(told(hybrid), "- | - | nginx.service");
        let no_systemd =
            "2:pids:/libpod_parent/libpod-ID\n1:name=systemd:/user.slice/session-1.scope\n0::/\n";
        assert_eq!(told(no_systemd), "podman ID | - | -");
        assert_eq!(told("0::/system.slice/docker-ID.scope (deleted)\n"), "docker ID | - | -");
        assert_eq!(paths("0::/a:b\n1:name=systemd:/a:b\n2:cpu:/c\nnonsense\n"), ["/a:b", "/c"]);
        assert_eq!(told(""), "- | - | -");
    }

    #[test]
    fn a_place_reads_as_people_say_it() {
        let within = |runtime, name: Option<&str>| {
            let container = Container { runtime, id: ID.into(), name: name.map(Foreign::from) };
            Place { container: Some(container), ..Place::default() }
        };
        let mut place = within(Some(Runtime::Podman), Some("web"));
        assert_eq!(place.to_string(), "container web (podman 3f2a81c09d4b)");
        assert_eq!(place.container_name().as_deref(), Some("web"));
        place.unit = Some("web.service".into());
        assert_eq!(place.to_string(), "container web (podman 3f2a81c09d4b), web.service");
        let pod = Pod {
            name: Some("web-0".into()),
            namespace: Some("shop".into()),
            uid: Some(POD.into()),
        };
        place = Place { pod: Some(pod), ..within(None, None) };
        assert_eq!(place.to_string(), "container 3f2a81c09d4b, pod shop/web-0");
        assert_eq!(place.container_name().as_deref(), Some("web-0/3f2a81c09d4b"));
        place = within(Some(Runtime::Docker), Some("a\nb\x1b[31m"));
        assert_eq!(place.to_string(), "container a?b?[31m (docker 3f2a81c09d4b)");
        assert_eq!(Place::default().to_string(), "");
        assert_eq!(Place::default().container_name(), None);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(0::|1:name=systemd:)?(/|[a-z-]{1,4}|é|:|pod|kubepods|libpod-|[0-9a-f]{64}|\\.scope|\\\\x|\n){0,24}") {
            let place = place(&text);
            if let Some(container) = place.container {
                prop_assert!(!container.short_id().is_empty() || container.id.is_empty());
            }
        }
    }
}

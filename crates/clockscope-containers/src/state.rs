//! Names of containers, from the state files of their runtimes. Pure.
//!
//! # References
//!
//! containers/storage `containers.go` (podman, CRI-O); moby `container/container.go` (`config.v2.json`); the OCI runtime
//! specification's `config.json`, with the annotations of containerd (`pkg/cri/annotations`), CRI-O
//! (`pkg/annotations`) and nerdctl (`pkg/labels`)

use serde_json::Value;

use crate::place::{Place, Pod};
use clockscope_text::foreign::Foreign;

/// Formats of the state files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `containers.json` of podman and CRI-O: all containers of a host or a user.
    Storage,
    /// `config.v2.json` of Docker: one container.
    Docker,
    /// `config.json` of an OCI bundle: one container.
    Bundle,
}

/// The names of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The container's name; in Kubernetes its name within the pod.
    pub container: Option<Foreign>,
    /// Name of its pod.
    pub pod: Option<Foreign>,
    /// The pod's namespace.
    pub namespace: Option<Foreign>,
}

impl Names {
    /// Adds the names to a place, which the control groups gave.
    pub fn fill(&self, place: &mut Place) {
        if let Some(container) = &mut place.container {
            container.name = container.name.take().or_else(|| self.container.clone());
        }
        if self.pod.is_some() {
            let pod = place.pod.get_or_insert_with(Pod::default);
            (pod.name, pod.namespace) = (self.pod.clone(), self.namespace.clone());
        }
    }
}

/// The names of a container in a file; `None` if the file has none, or is malformed.
pub fn names(form: Form, text: &[u8], id: &str) -> Option<Names> {
    let file: Value = serde_json::from_slice(text).ok()?;
    match form {
        Form::Storage => {
            let own = file.as_array()?.iter().find(|stored| stored["id"] == id)?;
            own["names"][0].as_str().map(named)
        }
        Form::Docker => {
            let name = file["Name"].as_str().filter(|_| file["ID"] == id)?;
            Some(named(name.strip_prefix('/').unwrap_or(name)))
        }
        Form::Bundle => annotated(&file["annotations"]),
    }
}

/// Names from a name in Docker's and podman's format. Kubernetes' dockershim and CRI-O put several names into it:
/// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`, and none of them contains a `_`.
fn named(name: &str) -> Names {
    let parts: Vec<&str> = name.split('_').collect();
    if let ["k8s", container, pod, namespace, _, _] = parts[..] {
        return Names {
            container: Some(container.into()),
            pod: Some(pod.into()),
            namespace: Some(namespace.into()),
        };
    }
    Names { container: Some(name.into()), ..Names::default() }
}

fn annotated(annotations: &Value) -> Option<Names> {
    let first =
        |keys: &[&str]| keys.iter().find_map(|key| annotations[*key].as_str()).map(Foreign::from);
    let names = Names {
        container: first(&[
            "io.kubernetes.cri.container-name",
            "io.kubernetes.container.name",
            "nerdctl/name",
        ]),
        pod: first(&["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"]),
        namespace: first(&["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"]),
    };
    (names != Names::default()).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f2a81c09d4b7e65f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708";

    fn told(form: Form, text: &str) -> String {
        let Some(names) = names(form, text.replace("ID_", ID).as_bytes(), ID) else {
            return "nothing".to_owned();
        };
        [names.namespace, names.pod, names.container]
            .map(|name| name.map_or("-".to_owned(), |name| name.verbatim().to_owned()))
            .join("/")
    }

    /// Form, text and names of files, the names as namespace, pod and container.
    const FILES: &str = include_str!("state_files.txt");

    #[test]
    fn every_runtime_s_file_is_read() {
        assert_eq!(FILES.lines().count(), 14);
        for row in FILES.lines() {
            let [form, text, wanted] = row.split(" | ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let form = match form {
                "Storage" => Form::Storage,
                "Docker" => Form::Docker,
                _ => Form::Bundle,
            };
            assert_eq!(told(form, text), wanted, "{row}");
        }
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let deep = "[".repeat(100_000);
        for form in [Form::Storage, Form::Docker, Form::Bundle] {
            let no_object = ["", "null", "7", "\"a\"", "{", "[{}]", &deep];
            for text in [r#"{"ID":7}"#, r#"{"annotations":[]}"#].into_iter().chain(no_object) {
                assert_eq!(told(form, text), "nothing", "{text:.40}");
            }
            assert_eq!(names(form, b"\xff\x00", ID), None);
        }
    }
}

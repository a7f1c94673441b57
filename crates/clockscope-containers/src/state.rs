//! Names of containers, from the state files of their runtimes. Pure.
//!
//! # References
//!
//! containers/storage `containers.go` (podman, CRI-O); moby `container/container.go` (`config.v2.json`); the OCI runtime
//! specification's `config.json`, with the annotations of containerd (`pkg/cri/annotations`), CRI-O
//! (`pkg/annotations`) and nerdctl (`pkg/labels`)

use std::collections::HashMap;

use serde::Deserialize;

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

#[derive(Deserialize)]
struct Stored {
    id: String,
    names: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct OfDocker {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Name")]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Bundle {
    annotations: Option<HashMap<String, String>>,
}

/// The names of a container in a file; `None` if the file has none, or is malformed.
pub fn names(form: Form, text: &[u8], id: &str) -> Option<Names> {
    match form {
        Form::Storage => {
            let all: Vec<Stored> = serde_json::from_slice(text).ok()?;
            let own = all.into_iter().find(|stored| stored.id == id)?;
            own.names?.first().map(|name| named(name))
        }
        Form::Docker => {
            let own: OfDocker = serde_json::from_slice(text).ok()?;
            let name = own.name.filter(|_| own.id == id)?;
            Some(named(name.strip_prefix('/').unwrap_or(&name)))
        }
        Form::Bundle => {
            let bundle: Bundle = serde_json::from_slice(text).ok()?;
            annotated(&bundle.annotations?)
        }
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

fn annotated(annotations: &HashMap<String, String>) -> Option<Names> {
    let first = |keys: &[&str]| {
        keys.iter().find_map(|key| annotations.get(*key)).map(|value| Foreign::from(value.as_str()))
    };
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

    #[test]
    fn every_runtime_s_file_is_read() {
        for (form, text, wanted) in [
            (
                Form::Storage,
                r#"[{"id":"other","names":["db"]},{"id":"ID_","names":["web"],"image":"","layer":"6491",
                    "metadata":"{\"image-name\":\"\",\"name\":\"web\"}","created":"2026-11-23T16:17:24Z","flags":{}}]"#,
                "-/-/web",
            ),
            (
                Form::Storage,
                r#"[{"id":"ID_","names":["k8s_nginx_web-0_shop_9b7d2f4e-1c3a_0"]}]"#,
                "shop/web-0/nginx",
            ),
            (Form::Storage, r#"[{"id":"ID_"}]"#, "nothing"),
            (Form::Storage, r#"[{"id":"ID_","names":null}]"#, "nothing"),
            (Form::Storage, r#"[{"id":"another","names":["db"]}]"#, "nothing"),
            (
                Form::Docker,
                r#"{"ID":"ID_","Name":"/web","State":{"Pid":7},"Config":{"Hostname":"a"}}"#,
                "-/-/web",
            ),
            (Form::Docker, r#"{"ID":"ID_","Name":"/k8s_POD_web-0_shop_9b7d_1"}"#, "shop/web-0/POD"),
            (Form::Docker, r#"{"ID":"another","Name":"/web"}"#, "nothing"),
            (
                Form::Bundle,
                r#"{"ociVersion":"1.1.0","process":{"args":["nginx"]},"annotations":{
                    "io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.container-type":"container",
                    "io.kubernetes.cri.sandbox-id":"aa","io.kubernetes.cri.sandbox-name":"web-0",
                    "io.kubernetes.cri.sandbox-namespace":"shop"}}"#,
                "shop/web-0/nginx",
            ),
            (
                Form::Bundle,
                r#"{"annotations":{"io.kubernetes.container.name":"nginx","io.kubernetes.pod.name":"web-0",
                    "io.kubernetes.pod.namespace":"shop"}}"#,
                "shop/web-0/nginx",
            ),
            (Form::Bundle, r#"{"annotations":{"nerdctl/name":"web"}}"#, "-/-/web"),
            (Form::Bundle, r#"{"annotations":{"org.systemd.property":"1"}}"#, "nothing"),
            (Form::Bundle, r#"{"annotations":null}"#, "nothing"),
            (Form::Bundle, "{}", "nothing"),
        ] {
            assert_eq!(told(form, text), wanted, "{text}");
        }
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let deep = "[".repeat(100_000);
        for form in [Form::Storage, Form::Docker, Form::Bundle] {
            for text in [
                "",
                "null",
                "7",
                "\"a\"",
                "{",
                "[{}]",
                r#"{"ID":7}"#,
                r#"{"annotations":[]}"#,
                &deep,
            ] {
                assert_eq!(told(form, text), "nothing", "{text:.40}");
            }
            assert_eq!(names(form, b"\xff\x00", ID), None);
        }
    }
}

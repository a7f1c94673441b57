//! Seccomp profiles, as Docker, podman and Kubernetes are given them: what one makes of a system call. Pure.
//!
//! # References
//!
//! The OCI runtime specification, `config-linux.md` (seccomp); moby `profiles/seccomp/seccomp.go` (`includes`, `excludes`,
//! `archMap`)

use serde::Deserialize;

use crate::filter::{ARCH_X86_64, Answer, Call};

/// A profile.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    default_action: String,
    default_errno_ret: Option<u16>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    arch_map: Vec<ArchMap>,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArchMap {
    architecture: String,
    #[serde(default)]
    sub_architectures: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    name: String,
    action: String,
    errno_ret: Option<u16>,
    #[serde(default)]
    args: Option<Vec<Argument>>,
    #[serde(default)]
    includes: Option<Condition>,
    #[serde(default)]
    excludes: Option<Condition>,
}

/// When a rule is there: for these capabilities and architectures.
#[derive(Debug, Default, Deserialize)]
struct Condition {
    #[serde(default)]
    caps: Option<Vec<String>>,
    #[serde(default)]
    arches: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: usize,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: String,
}

/// `EPERM`, which a filter gives where a profile names no other error.
const EPERM: u16 = 1;

impl Profile {
    /// Reads one; a clause says why that cannot be done.
    ///
    /// # Errors
    ///
    /// Those of `serde_json`.
    pub fn parse(text: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(text)
    }

    /// What becomes of a call in a container that has no capabilities but the default ones.
    pub fn answer(&self, call: &Call) -> Answer {
        if !self.has_arch(call.arch) {
            return Answer::Kills;
        }
        let rule = self.syscalls.iter().find(|rule| rule.is_for(call));
        match rule {
            Some(rule) => action(&rule.action, rule.errno_ret),
            None => action(&self.default_action, self.default_errno_ret),
        }
    }

    /// A filter knows the architecture of its host without being told; 32-bit calls are a further one.
    fn has_arch(&self, arch: u32) -> bool {
        let is_x86 = |name: &String| name == "SCMP_ARCH_X86";
        arch == ARCH_X86_64
            || self.architectures.iter().any(is_x86)
            || self.arch_map.iter().any(|map| {
                let subordinate = map.sub_architectures.iter().flatten().any(is_x86);
                is_x86(&map.architecture) || (map.architecture == "SCMP_ARCH_X86_64" && subordinate)
            })
    }
}

impl Rule {
    fn is_for(&self, call: &Call) -> bool {
        let is_there = self.includes.as_ref().is_none_or(Condition::is_met)
            && self.excludes.as_ref().is_none_or(|not| not.is_empty() || !not.is_met());
        let is_named = self.name == call.name || self.names.iter().any(|name| name == call.name);
        is_there && is_named && self.args.iter().flatten().all(|argument| argument.is_met(call))
    }
}

impl Condition {
    fn is_empty(&self) -> bool {
        self.caps.iter().flatten().next().is_none() && self.arches.iter().flatten().next().is_none()
    }

    /// On this architecture, without further capabilities.
    fn is_met(&self) -> bool {
        let arches = self.arches.as_deref().unwrap_or_default();
        let caps = self.caps.as_deref().unwrap_or_default();
        caps.is_empty() && (arches.is_empty() || arches.iter().any(|arch| arch == "amd64"))
    }
}

impl Argument {
    fn is_met(&self, call: &Call) -> bool {
        let Some(value) = call.arguments.get(self.index).copied() else { return false };
        match self.op.as_str() {
            "SCMP_CMP_EQ" => value == self.value,
            "SCMP_CMP_NE" => value != self.value,
            "SCMP_CMP_LT" => value < self.value,
            "SCMP_CMP_LE" => value <= self.value,
            "SCMP_CMP_GT" => value > self.value,
            "SCMP_CMP_GE" => value >= self.value,
            "SCMP_CMP_MASKED_EQ" => value & self.value == self.value_two,
            _ => false,
        }
    }
}

fn action(name: &str, errno: Option<u16>) -> Answer {
    match name {
        "SCMP_ACT_ALLOW" | "SCMP_ACT_LOG" => Answer::Passes,
        "SCMP_ACT_ERRNO" => Answer::Fails(errno.unwrap_or(EPERM)),
        "SCMP_ACT_NOTIFY" | "SCMP_ACT_TRACE" => Answer::Asks,
        _ => Answer::Kills,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_reads::refused;

    fn told(profile: &str) -> Vec<String> {
        let profile = Profile::parse(profile.as_bytes()).expect("is a profile");
        let found = refused(&|call| profile.answer(call));
        found.iter().map(|one| format!("{} {} {:?}", one.call, one.bits, one.answer)).collect()
    }

    #[test]
    fn profiles_that_allow_reads_refuse_nothing() {
        assert_eq!(told(r#"{"defaultAction":"SCMP_ACT_ALLOW"}"#), [""; 0]);
        assert_eq!(
            told(
                r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1,"archMap":[
                    {"architecture":"SCMP_ARCH_X86_64","subArchitectures":["SCMP_ARCH_X86","SCMP_ARCH_X32"]}],
                    "syscalls":[{"names":["clock_gettime","clock_gettime64","gettimeofday","getpid"],
                    "action":"SCMP_ACT_ALLOW"}]}"#
            ),
            [""; 0]
        );
        assert_eq!(
            told(
                r#"{"defaultAction":"SCMP_ACT_KILL","syscalls":[{"name":"clock_gettime","action":"SCMP_ACT_ALLOW",
                    "args":[]},{"name":"gettimeofday","action":"SCMP_ACT_LOG","args":null}]}"#
            ),
            [""; 0],
            "no 32-bit program runs there"
        );
    }

    #[test]
    fn profiles_that_forget_a_read_are_told() {
        assert_eq!(
            told(
                r#"{"defaultAction":"SCMP_ACT_ERRNO","architectures":["SCMP_ARCH_X86_64","SCMP_ARCH_X86"],
                    "syscalls":[{"names":["clock_gettime","gettimeofday","getpid"],"action":"SCMP_ACT_ALLOW"}]}"#
            ),
            ["clock_gettime64 32 Fails(1)"],
            "that of Docker until version 19.03.8"
        );
        assert_eq!(
            told(
                r#"{"defaultAction":"SCMP_ACT_KILL_PROCESS","syscalls":[
                    {"names":["read","clock_gettime"],"action":"SCMP_ACT_ALLOW",
                     "args":[{"index":0,"value":0,"op":"SCMP_CMP_EQ"}]},
                    {"names":["gettimeofday"],"action":"SCMP_ACT_ERRNO","errnoRet":38}]}"#
            ),
            ["clock_gettime 64 Kills", "gettimeofday 64 Fails(38)"]
        );
    }

    #[test]
    fn rules_for_other_capabilities_and_machines_are_not_there() {
        for condition in [
            r#""includes":{"caps":["CAP_SYS_TIME"]}"#,
            r#""includes":{"arches":["arm64"]}"#,
            r#""excludes":{"arches":["amd64"]}"#,
        ] {
            let profile = format!(
                r#"{{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{{"names":["clock_gettime","gettimeofday"],
                   "action":"SCMP_ACT_ALLOW",{condition}}}]}}"#
            );
            let refused = ["clock_gettime 64 Fails(1)", "gettimeofday 64 Fails(1)"];
            assert_eq!(told(&profile), refused, "{condition}");
        }
        for condition in [
            r#""includes":{},"excludes":{}"#,
            r#""includes":{"arches":["amd64","x32"]}"#,
            r#""excludes":{"caps":["CAP_SYS_ADMIN"]}"#,
        ] {
            let profile = format!(
                r#"{{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{{"names":["clock_gettime","gettimeofday"],
                   "action":"SCMP_ACT_ALLOW",{condition}}}]}}"#
            );
            assert_eq!(told(&profile), [""; 0], "{condition}");
        }
    }

    #[test]
    fn what_is_no_profile_is_an_error() {
        for text in ["", "[]", "{}", "null", r#"{"defaultAction":7}"#, &"[".repeat(100_000)] {
            assert!(Profile::parse(text.as_bytes()).is_err(), "{text:.20}");
        }
    }
}

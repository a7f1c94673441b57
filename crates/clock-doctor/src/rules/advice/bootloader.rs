//! Adds and removes words of the kernel's command line, by distribution and platform.

use super::case::Case;
use crate::rules::Facts;
use crate::rules::finding::KernelParameters;

/// The family of distributions with the same handling of the command line and packages, by `os-release` or the kernel's
/// release: `debian`, `redhat`, `suse`, `arch`.
pub(super) fn family(facts: &Facts) -> Option<&'static str> {
    let named = facts.distribution.as_ref().map(|known| known.value.as_str()).unwrap_or("");
    let family = |word: &str| match word {
        "debian" | "ubuntu" => Some("debian"),
        "fedora" | "rhel" | "centos" | "amzn" => Some("redhat"),
        "suse" | "opensuse" | "sles" => Some("suse"),
        "arch" => Some("arch"),
        _ => None,
    };
    named.split_whitespace().find_map(family).or_else(|| of_release(&facts.kernel()?.release))
}

/// The distribution family that built a kernel.
fn of_release(release: &str) -> Option<&'static str> {
    let has = |parts: &[&str]| parts.iter().any(|part| release.contains(part));
    // SUSE's kernels for Azure have the same ending as Ubuntu's, but have dots in the build number.
    let build_has_dots = release.split('-').nth(1).is_some_and(|build| build.contains('.'));
    let debian = ["-amd64", "-arm64", "-686", "-generic", "-lowlatency", "-azure", "-aws", "-gcp"];
    match () {
        () if has(&[".el", ".fc", ".amzn"]) => Some("redhat"),
        () if has(&["-default"]) || has(&["-azure"]) && build_has_dots => Some("suse"),
        () if has(&debian) => Some("debian"),
        () => has(&["-arch"]).then_some("arch"),
    }
}

/// The place where the command line is set, its change for programs that edit it, and the commands that add `words`
/// (`adds`) or remove them, and boot.
pub(super) fn edit(
    case: &Case,
    words: &str,
    adds: bool,
) -> (&'static str, Option<KernelParameters>, Vec<String>) {
    let verb = if adds { "add to" } else { "take out of" };
    if case.is("wsl wsl2") {
        let file = format!("# {verb} kernelCommandLine below [wsl2] in %UserProfile%\\.wslconfig:");
        let line =
            if adds { format!("kernelCommandLine = {words}") } else { format!("#   {words}") };
        return ("in Windows", None, vec![file, line, "wsl --shutdown".to_owned()]);
    }
    if case.is("firecracker") {
        let line =
            format!("# {verb} boot_args of the VM's boot source, and start it anew: {words}");
        return ("on the host", None, vec![line]);
    }
    let heading = |text: &str| vec![text.to_owned()];
    let mut commands = match family(case.facts) {
        Some(family) => edit_of(family, words, adds),
        None => [
            heading("# Debian, Ubuntu:"),
            edit_of("debian", words, adds),
            heading("# Fedora, RHEL and their like:"),
            edit_of("redhat", words, adds),
            heading("# then:"),
        ]
        .concat(),
    };
    commands.push("sudo reboot".to_owned());
    if case.is_container() {
        return ("on the host", None, commands);
    }
    let words = words.split(' ').map(str::to_owned).collect();
    let (add, remove) = if adds { (words, Vec::new()) } else { (Vec::new(), words) };
    ("here", Some(KernelParameters { add, remove }), commands)
}

fn edit_of(family: &str, words: &str, adds: bool) -> Vec<String> {
    let make = match family {
        "redhat" => {
            let option = if adds { "args" } else { "remove-args" };
            return vec![format!("sudo grubby --update-kernel=ALL --{option}=\"{words}\"")];
        }
        "suse" => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
        "arch" => "sudo grub-mkconfig -o /boot/grub/grub.cfg",
        _ => "sudo update-grub",
    };
    let edits: Vec<String> = match adds {
        true => vec![format!("s/^GRUB_CMDLINE_LINUX=\"/&{words} /")],
        false => words.split(' ').map(|word| format!("s/\\b{word}\\b *//")).collect(),
    };
    let edits = edits.iter().map(|edit| format!("sudo sed -i '{edit}' /etc/default/grub"));
    edits.chain([make.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Kernel, Known};

    #[test]
    fn the_family_is_told_by_os_release_or_by_the_kernel() {
        let of = |release: &str, named: &str| {
            let kernel = Kernel::parse(release).map(|kernel| Known::new(kernel, "", ""));
            let distribution =
                (!named.is_empty()).then(|| Known::new(named.to_owned(), "etc/os-release", ""));
            family(&Facts { kernel, distribution, ..Facts::default() })
        };
        assert_eq!(of("5.10.0-18-amd64", ""), Some("debian"));
        assert_eq!(of("6.8.0-1029-azure", ""), Some("debian"));
        assert_eq!(of("4.18.0-553.16.1.el8_10.x86_64", ""), Some("redhat"));
        assert_eq!(of("6.17.12-300.fc43.x86_64", ""), Some("redhat"));
        assert_eq!(of("5.3.18-150300.59.112-default", ""), Some("suse"));
        assert_eq!(of("4.12.14-150100.8.50-azure", ""), Some("suse"));
        assert_eq!(of("6.9.1-arch1-1", ""), Some("arch"));
        assert_eq!(of("6.12.5", ""), None);
        assert_eq!(of("6.12.5", "linuxmint ubuntu debian"), Some("debian"));
        assert_eq!(of("6.12.5-amd64", "rocky rhel centos fedora"), Some("redhat"));
    }
}

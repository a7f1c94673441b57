//! How a word gets on the kernel's command line, and off: by distribution and platform.

use super::{Case, Place};
use crate::facts::Facts;
use crate::rules::finding::KernelParameters;

/// Families of distributions that treat the command line alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Debian, Ubuntu and theirs: `/etc/default/grub`, `update-grub`, apt.
    Debian,
    /// Fedora, Red Hat Enterprise Linux, Amazon Linux and theirs: grubby, dnf.
    RedHat,
    /// SUSE: `grub2-mkconfig`, zypper.
    Suse,
    /// Arch: `grub-mkconfig`.
    Arch,
}

/// The family, as `os-release` or the kernel's release tells it.
pub(super) fn family(facts: &Facts) -> Option<Family> {
    let named = facts.distribution.as_ref().map(|known| known.value.as_str()).unwrap_or("");
    for word in named.split_whitespace() {
        match word {
            "debian" | "ubuntu" => return Some(Family::Debian),
            "fedora" | "rhel" | "centos" | "amzn" => return Some(Family::RedHat),
            "suse" | "opensuse" | "sles" => return Some(Family::Suse),
            "arch" => return Some(Family::Arch),
            _ => {}
        }
    }
    of_release(&facts.kernel()?.release)
}

/// What a kernel's release tells of who built it.
fn of_release(release: &str) -> Option<Family> {
    let has = |part: &str| release.contains(part);
    if has(".el") || has(".fc") || has(".amzn") {
        return Some(Family::RedHat);
    }
    // SUSE's kernels for Azure end like Ubuntu's, but have dots in the build's number.
    let build_has_dots = release.split('-').nth(1).is_some_and(|build| build.contains('.'));
    if has("-default") || (has("-azure") && build_has_dots) {
        return Some(Family::Suse);
    }
    let debian = ["-amd64", "-arm64", "-686", "-generic", "-lowlatency", "-azure", "-aws", "-gcp"];
    if debian.iter().any(|&ending| has(ending)) {
        return Some(Family::Debian);
    }
    has("-arch").then_some(Family::Arch)
}

/// Where the command line is set, and the commands that put `words` on it and boot.
pub(super) fn add(case: &Case, words: &str) -> (Place, Vec<String>) {
    edit(case, &Edit { words, adds: true })
}

/// Where the command line is set, and the commands that take `words` off it and boot.
pub(super) fn remove(case: &Case, words: &str) -> (Place, Vec<String>) {
    edit(case, &Edit { words, adds: false })
}

struct Edit<'a> {
    words: &'a str,
    adds: bool,
}

impl Edit<'_> {
    fn here(&self) -> Place {
        let words = self.words.split(' ').map(str::to_owned).collect();
        let (add, remove) = if self.adds { (words, Vec::new()) } else { (Vec::new(), words) };
        Place::CommandLine(KernelParameters { add, remove })
    }
}

fn edit(case: &Case, edit: &Edit) -> (Place, Vec<String>) {
    let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    let verb = if edit.adds { "add to" } else { "take out of" };
    let words = edit.words;
    if case.is(&["wsl", "wsl2"]) {
        let file = format!("# {verb} kernelCommandLine below [wsl2] in %UserProfile%\\.wslconfig:");
        let line = match edit.adds {
            true => format!("kernelCommandLine = {words}"),
            false => format!("#   {words}"),
        };
        return (Place::Windows, lines(&[&file, &line, "wsl --shutdown"]));
    }
    if case.is(&["firecracker"]) {
        let line =
            format!("# {verb} boot_args of the VM's boot source, and start it anew: {words}");
        return (Place::Host, vec![line]);
    }
    let place = if case.is_container() { Place::Host } else { edit.here() };
    let mut commands = match family(case.facts) {
        Some(family) => edit_of(family, edit),
        None => either(edit),
    };
    commands.push("sudo systemctl reboot".to_owned());
    (place, commands)
}

fn either(edit: &Edit) -> Vec<String> {
    let mut commands = vec!["# Debian, Ubuntu:".to_owned()];
    commands.extend(edit_of(Family::Debian, edit));
    commands.push("# Fedora, RHEL and their like:".to_owned());
    commands.extend(edit_of(Family::RedHat, edit));
    commands.push("# then:".to_owned());
    commands
}

fn edit_of(family: Family, edit: &Edit) -> Vec<String> {
    let words = edit.words;
    if family == Family::RedHat {
        let option = if edit.adds { "args" } else { "remove-args" };
        return vec![format!("sudo grubby --update-kernel=ALL --{option}=\"{words}\"")];
    }
    let make = match family {
        Family::Suse => "sudo grub2-mkconfig -o /boot/grub2/grub.cfg",
        Family::Arch => "sudo grub-mkconfig -o /boot/grub/grub.cfg",
        Family::Debian | Family::RedHat => "sudo update-grub",
    };
    let mut commands = match edit.adds {
        true => {
            vec![format!("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{words} /' /etc/default/grub")]
        }
        false => words
            .split(' ')
            .map(|word| format!("sudo sed -i 's/\\b{word}\\b *//' /etc/default/grub"))
            .collect(),
    };
    commands.push(make.to_owned());
    commands
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
        assert_eq!(of("5.10.0-18-amd64", ""), Some(Family::Debian));
        assert_eq!(of("6.8.0-1029-azure", ""), Some(Family::Debian));
        assert_eq!(of("4.18.0-553.16.1.el8_10.x86_64", ""), Some(Family::RedHat));
        assert_eq!(of("6.17.12-300.fc43.x86_64", ""), Some(Family::RedHat));
        assert_eq!(of("5.3.18-150300.59.112-default", ""), Some(Family::Suse));
        assert_eq!(of("4.12.14-150100.8.50-azure", ""), Some(Family::Suse));
        assert_eq!(of("6.9.1-arch1-1", ""), Some(Family::Arch));
        assert_eq!(of("6.12.5", ""), None);
        assert_eq!(of("6.12.5", "linuxmint ubuntu debian"), Some(Family::Debian));
        assert_eq!(of("6.12.5-amd64", "rocky rhel centos fedora"), Some(Family::RedHat));
    }
}

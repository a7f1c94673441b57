//! Signs of the machine, the hypervisor or the container, and the device tree's timer.

use super::{Files, first_line, first_word};
use crate::facts::{Evidence, Known, Sign};
use crate::root::paths::{self, DMI_FIELDS};

/// All signs, the strongest first.
pub(super) fn machine(files: &mut Files) -> Vec<Known<Sign>> {
    let hypervisor = |text: &str| first_word(text).map(Sign::Hypervisor);
    let container = |text: &str| first_word(text).map(Sign::Container);
    let mut signs = dmi(files);
    signs.extend(files.value("sys/hypervisor/type", hypervisor));
    signs.extend(files.value("proc/xen/capabilities", |_| Some(Sign::Xen)));
    signs.extend(device_tree(files, "hypervisor/compatible", hypervisor));
    signs.extend(files.value("run/systemd/container", container));
    signs.extend(files.value("run/.containerenv", |_| Some(Sign::Container("podman".to_owned()))));
    signs
}

/// DMI fields from `/sys`, or from `dmidecode`'s output.
fn dmi(files: &mut Files) -> Vec<Known<Sign>> {
    let mut found = Vec::new();
    for place in paths::DMI {
        if found.is_empty() {
            found.extend(DMI_FIELDS.iter().filter_map(|(.., name)| {
                files.value(&format!("{place}/{name}"), |text| dmi_sign(name, text.trim()))
            }));
        }
    }
    for file in paths::DMIDECODE {
        if found.is_empty() {
            found.extend(files.text(file).iter().flat_map(|text| dmidecode(file, text)));
        }
    }
    found
}

fn dmi_sign(name: &str, value: &str) -> Option<Sign> {
    (!value.is_empty()).then(|| Sign::Dmi(name.to_owned(), value.to_owned()))
}

fn dmidecode(file: &str, text: &str) -> Vec<Known<Sign>> {
    let mut section = "";
    let mut signs: Vec<Known<Sign>> = Vec::new();
    for line in text.lines() {
        if !line.starts_with(char::is_whitespace) {
            section = line.trim();
            continue;
        }
        let Some((key, value)) = line.trim().split_once(':') else { continue };
        let field = DMI_FIELDS.iter().find(|(at, name, _)| (*at, *name) == (section, key));
        let Some((_, _, name)) = field else { continue };
        // A chassis contains several boards; the first one is the machine's.
        let is_name = |one: &Known<Sign>| matches!(&one.value, Sign::Dmi(it, _) if it == name);
        let sign = dmi_sign(name, value.trim()).filter(|_| !signs.iter().any(is_name));
        signs.extend(sign.map(|sign| Known::new(sign, file, &first_line(line))));
    }
    signs
}

fn device_tree<T>(
    files: &mut Files,
    below: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Known<T>> {
    paths::DEVICE_TREE.iter().find_map(|at| files.value(&format!("{at}/{below}"), &parse))
}

/// `compatible` of the timer: several names, the most exact first, joined by one space.
pub(super) fn arm_timer(files: &mut Files) -> Option<Known<String>> {
    let known = device_tree(files, "timer/compatible", |text| {
        let names: Vec<&str> = text.split_whitespace().collect();
        (!names.is_empty()).then(|| names.join(" "))
    })?;
    Some(Known::new(known.value.clone(), &known.evidence.file, &known.value))
}

/// The property has no value; its presence is the fact.
pub(super) fn arm_registers_not_configured(files: &mut Files) -> Option<Evidence> {
    let known = device_tree(files, paths::DEVICE_TREE_FIELDS[2], |_| Some(()))?;
    Some(Evidence::of(&known.evidence.file, "the property is there"))
}

//! Files without names for their functions, and the packages that have them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use clockscope_text::foreign::printable;

use super::debuginfod::Servers;
use super::module_file::Bytes;
use super::modules::Module;

/// Where Debian keeps a list of files for each installed package.
const LISTS: &str = "/var/lib/dpkg/info";
/// Most lists that are read, and most bytes of one.
const LISTS_MAX: usize = 20_000;
const LIST_MAX: u64 = 16 << 20;

/// Says that a file has no names for functions that are in stacks, and what would name them.
pub(super) fn advice(module: &Module, servers: &Servers) -> String {
    let package = if is_of_this_root(module) { package_of(&module.name) } else { None };
    let name = module.name.file_name().unwrap_or_default().to_string_lossy();
    let what = match package {
        Some(package) => format!("{package}-dbgsym"),
        None => "its debugging symbols".to_owned(),
    };
    let or = match servers {
        Servers::None => ", or a server in DEBUGINFOD_URLS,",
        Servers::NoClient => ", or debuginfod-find for DEBUGINFOD_URLS (package debuginfod),",
        // They were asked.
        Servers::By(_) => "",
    };
    printable(&format!("{name} is stripped: {what}{or} would name its functions"))
}

/// Whether the file is the one that has this path here, and not in a container.
fn is_of_this_root(module: &Module) -> bool {
    let Some(Bytes::File(file)) = &module.bytes else { return false };
    let inode = file.metadata().map(|data| (data.dev(), data.ino()));
    let here = std::fs::metadata(&module.name).map(|data| (data.dev(), data.ino()));
    inode.is_ok_and(|inode| here.is_ok_and(|here| here == inode))
}

/// The package of Debian's that a file is of.
fn package_of(path: &Path) -> Option<String> {
    let lists = std::fs::read_dir(LISTS).ok()?.take(LISTS_MAX).flatten();
    lists.map(|entry| entry.path()).find_map(|list| {
        let package = list.file_name()?.to_str()?.strip_suffix(".list")?.to_owned();
        let mut files = Vec::new();
        File::open(&list).ok()?.take(LIST_MAX).read_to_end(&mut files).ok()?;
        // `libc6:amd64` is the package `libc6`.
        has_file(&files, path).then(|| package.split(':').next().unwrap_or(&package).to_owned())
    })
}

/// Whether a list has a file. Lists may have it below `/lib` where that is a link to `/usr/lib`.
fn has_file(list: &[u8], path: &Path) -> bool {
    let path = path.as_os_str().as_bytes();
    let before = path.strip_prefix(b"/usr").unwrap_or(path);
    list.split(|byte| *byte == b'\n').any(|line| line == path || line == before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_known_by_the_whole_path() {
        let list = b"/.\n/usr\n/usr/bin\n/usr/bin/server\n/lib/libown.so.1\n";
        for (path, is_in) in [
            ("/usr/bin/server", true),
            ("/usr/lib/libown.so.1", true),
            ("/lib/libown.so.1", true),
            ("/usr/bin/serve", false),
            ("/opt/usr/bin/server", false),
        ] {
            assert_eq!(has_file(list, Path::new(path)), is_in, "{path}");
        }
    }

    #[test]
    fn what_would_name_the_functions_of_a_file_is_said() {
        let module = |name: &str, bytes| Module::of(name.into(), bytes);
        let own = File::open("/proc/self/exe").unwrap();
        let said =
            advice(&module("/opt/\u{1b}server", Some(Bytes::File(own.into()))), &Servers::None);
        assert_eq!(
            said,
            "?server is stripped: its debugging symbols, or a server in DEBUGINFOD_URLS, would name its \
             functions"
        );
        let system = std::fs::canonicalize("/bin/sh").unwrap();
        let Some(package) = package_of(&system) else {
            return skips::skip("no package of Debian's has /bin/sh");
        };
        let file = File::open(&system).unwrap();
        let module = module(system.to_str().unwrap(), Some(Bytes::File(file.into())));
        let said = advice(&module, &Servers::NoClient);
        assert!(said.contains(&format!(": {package}-dbgsym, or debuginfod-find for")), "{said}");
    }
}

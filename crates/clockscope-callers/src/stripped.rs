//! Files without function names.

use clockscope_text::foreign::printable;

use super::debuginfod::Servers;
use super::modules::Module;

/// A sentence: this file lacks names for functions in stacks, and where to get them.
pub(super) fn advice(module: &Module, servers: &Servers) -> String {
    let name = module.name.file_name().unwrap_or_default().to_string_lossy();
    let or = match servers {
        Servers::None => ", or a server in DEBUGINFOD_URLS,",
        Servers::NoClient => ", or debuginfod-find for DEBUGINFOD_URLS (package debuginfod),",
        // The servers were asked already.
        Servers::By(_) => "",
    };
    printable(&format!("{name} is stripped: its debugging symbols{or} would name its functions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_name_the_functions_of_a_file_is_said() {
        let said = |servers| advice(&Module::of("/opt/\u{1b}server".into(), None), &servers);
        for (servers, or) in [
            (Servers::None, ", or a server in DEBUGINFOD_URLS,"),
            (Servers::NoClient, ", or debuginfod-find for DEBUGINFOD_URLS (package debuginfod),"),
            (Servers::By("/usr/bin/debuginfod-find".into()), ""),
        ] {
            let expected =
                format!("?server is stripped: its debugging symbols{or} would name its functions");
            assert_eq!(said(servers), expected);
        }
    }
}

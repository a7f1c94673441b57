//! Gives the shared library its name, with the major version in it: programs that are linked with
//! the library ask for this name, so the version must change when `fastclock.h` does in a way that
//! such programs would notice.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let abi = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfastclock.so.{abi}");
}

//! Sets the soname of the shared library, with the major version in it. Programs linked with the
//! library load it by this name, so the version must change with every incompatible change of
//! `fastclock.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let abi = env!("CARGO_PKG_VERSION_MAJOR");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfastclock.so.{abi}");
}

//! Builds what runs outside of the command: our vDSO image.

#[path = "build/vdso_image.rs"]
mod vdso_image;

fn main() {
    if let Err(message) = vdso_image::build() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

//! Builds what the command carries inside: our vDSO image and the eBPF program.

#[path = "build/bpf_object.rs"]
mod bpf_object;
#[path = "build/vdso_image.rs"]
mod vdso_image;

fn main() {
    bpf_object::build();
    if let Err(message) = vdso_image::build() {
        println!("cargo::error={message}");
        std::process::exit(1);
    }
}

//! Builds what the command carries inside: the eBPF program.

#[path = "build/bpf_object.rs"]
mod bpf_object;

fn main() {
    bpf_object::build();
}

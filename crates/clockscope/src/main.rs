//! clockscope: what it costs a Linux program to ask what time it is, and to call the kernel at all.

fn main() -> std::process::ExitCode {
    clockscope::main()
}

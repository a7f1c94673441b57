//! Any bytes are the code of a filter: every call gets an answer, more filters never allow more, and a call reported as
//! refused is refused.
#![no_main]

use clockscope_containers::clock_reads::refused;
use clockscope_containers::filter::{
    ARCH_AARCH64, ARCH_I386, ARCH_X86_64, Answer, Call, Instruction, answer,
};

fn check(of: &dyn Fn(&Call) -> Answer) {
    let tables = [ARCH_X86_64, ARCH_AARCH64];
    for refused in tables.into_iter().flat_map(|arch| refused(arch, of)) {
        assert!(matches!(refused.answer, Answer::Fails(_) | Answer::Kills), "{refused:?}");
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let code: Vec<Instruction> = bytes
        .chunks_exact(8)
        .map(|one| Instruction::parse(one.try_into().expect("eight")))
        .collect();
    let (first, second) = code.split_at(code.len() / 2);
    let both = [first.to_vec(), second.to_vec()];
    check(&|call| answer(&both, call));
    for (name, number, arch) in [
        ("clock_gettime", 228, ARCH_X86_64),
        ("clock_gettime64", 403, ARCH_I386),
        ("none", -1, ARCH_X86_64),
    ] {
        let call = Call { name, number, arch, at: 0x7fff_1234_5678, arguments: [1, 2, 3, 4, 5, 6] };
        let passes = |filters: &[Vec<Instruction>]| answer(filters, &call) == Answer::Passes;
        let each = both.iter().all(|one| passes(std::slice::from_ref(one)));
        assert_eq!(passes(&both), each);
    }
});

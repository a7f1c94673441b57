//! Any bytes are a program's file with its unwind tables: every walk by them ends, whatever the stack holds.
#![no_main]

use clockscope_callers::sample::{Called, FP, Mapping, MemoryEvent, Registers, SP, Sample};
use clockscope_callers::unwind::Unwinder;

/// Bytes of the copied stack, which come before the file.
const STACK: usize = 256;
const STACK_AT: u64 = 0x7ffe_0000_0000;
const FILE_AT: u64 = 0x10_0000;
/// No process has this id, so `/proc` adds nothing.
const NOBODY: i32 = i32::MAX;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((stack, file)) = bytes.split_first_chunk::<STACK>() else { return };
    let mut unwinder = Unwinder::new(file.to_vec());
    let mapping = Mapping {
        start: FILE_AT,
        end: FILE_AT + 0x1_0000,
        offset: 0,
        name: "[anon]".into(),
        inode: (0, 0),
    };
    unwinder.event(&MemoryEvent::Begun { pid: NOBODY, mappings: vec![mapping] });
    unwinder.event(&MemoryEvent::Image { pid: NOBODY, at: FILE_AT });
    let words: Vec<u64> = stack
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
        .collect();
    // Every second word of the stack becomes a return address into the file, so that many table entries are used.
    for start in 0..16 {
        let mut copied = stack.to_vec();
        let place = FILE_AT + (words[start] & 0xffff);
        copied[..8].copy_from_slice(&place.to_le_bytes());
        for word in copied[8..].chunks_exact_mut(16) {
            let place = FILE_AT + u64::from(word[0]) * 16 + u64::from(word[1]);
            word[..8].copy_from_slice(&place.to_le_bytes());
        }
        // A register holds the start of the file or of the stack, or any word.
        let mut registers = Registers { ip: place, ..Registers::default() };
        for (register, value) in registers.general.iter_mut().zip(words.iter().cycle().skip(start))
        {
            *register = Some([*value, STACK_AT, FILE_AT][(*value % 3) as usize]);
        }
        registers.general[SP] = Some(STACK_AT);
        registers.general[FP] = Some(STACK_AT + (words[start + 1] & 0xff));
        let sample = Sample {
            called: Called::Vdso(0),
            pid: NOBODY,
            tid: NOBODY,
            time_ns: 1,
            weight: 1,
            after_ticks: None,
            registers,
            stack: copied,
            frame_pointers: words[..4].to_vec(),
        };
        let unwound = unwinder.stack_with(&sample, None);
        assert!(unwound.frames.len() <= STACK + words.len(), "{} frames", unwound.frames.len());
    }
});

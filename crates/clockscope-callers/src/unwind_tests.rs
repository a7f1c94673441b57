//! Tests without programs: events, damaged files, code made at run time.

use proptest::prelude::*;

use super::super::arch::registers::{KERNEL, LINK};
use super::super::frames::{End, FrameAddress};
use super::super::managed::{Function, Names};
use super::super::module_file::{Bytes, Elf};
use super::super::modules::mappings_of;
use super::super::python;
use super::super::sample::{Called, FP, GENERAL, Mapping, MemoryEvent, Registers, SP, Sample};
use super::super::unwind_cfi::{Frames, Stack};
use super::super::unwind_go::GoTable;
use super::{Interpreted, Unwinder, chain_from, entered};

const STACK: u64 = 0x7ffe_0000_0000;

fn with_stack(stack: u64) -> Registers {
    let mut registers = Registers { ip: 1, general: [None; GENERAL] };
    registers.general[SP] = Some(stack);
    registers
}

/// A sample with the return address at the place where a call leaves it.
fn sample(pid: i32, stack: &[u64]) -> Sample {
    let mut registers = with_stack(STACK);
    if let Some(link) = LINK {
        registers.general[link] = stack.first().copied();
    }
    Sample {
        called: Called::Vdso(0),
        pid,
        tid: pid,
        time_ns: 1,
        weight: 1,
        after_ticks: None,
        registers,
        stack: stack.iter().flat_map(|word| word.to_le_bytes()).collect(),
        frame_pointers: Vec::new(),
    }
}

fn mapping(start: u64, end: u64, name: &str) -> Mapping {
    Mapping { start, end, offset: 0, name: name.into(), inode: (0, 0) }
}

/// No process has this number: `/proc` adds nothing.
const NOBODY: i32 = i32::MAX;

fn with(mappings: Vec<Mapping>) -> Unwinder {
    let mut unwinder = Unwinder::new(KERNEL.to_vec());
    unwinder.event(&MemoryEvent::Begun { pid: NOBODY, mappings });
    unwinder
}

#[test]
fn the_function_that_has_the_interpreters_frame_executes_pythons() {
    let stamp = Names::default().id(Function {
        name: "stamp".into(),
        module: "[python]",
        file: None,
        line: None,
        is_inlined: false,
    });
    let read =
        |entry| Interpreted(python::Frames { functions: vec![stamp], is_whole: true, entry });
    let (at, caller) = (with_stack(0x1000), with_stack(0x1100));
    let native = FrameAddress::Unknown { at: 7 };
    let look = |interpreted: Option<&Interpreted>| {
        let mut frames = vec![native, native];
        (entered(interpreted, &at, &caller, &mut frames), frames)
    };
    for entry in [0x1000, 0x10b0] {
        let replaced = vec![native, FrameAddress::Managed(stamp)];
        assert_eq!(look(Some(&read(Some(entry)))), (Some(End::Complete), replaced));
    }
    // The frame of another function; the thread's state, which is no stack; no entry; nothing was
    // read.
    let others = [Some(read(Some(0x1100))), Some(read(Some(0x80))), Some(read(None)), None];
    for other in others {
        assert_eq!(look(other.as_ref()), (None, vec![native; 2]), "{other:?}");
    }
}

#[test]
fn unknown_places_are_unknown() {
    let mut unwinder = with(vec![mapping(0x1000, 0x2000, "")]);
    let unwound = unwinder.stack_with(&sample(NOBODY, &[0x9000]), None);
    assert_eq!(unwound.frames, [FrameAddress::Unknown { at: 0x8fff }]);
    assert_eq!(unwound.end, End::NotMapped);
    let unwound = unwinder.stack_with(&sample(NOBODY, &[]), None);
    assert_eq!((unwound.frames.len(), unwound.end), (0, End::StackTooShort));
    unwinder.event(&MemoryEvent::Ended { pid: NOBODY });
    let unwound = unwinder.stack_with(&sample(NOBODY, &[0x9000]), None);
    assert_eq!((unwound.frames.len(), unwound.end), (0, End::UnknownProcess));
}

#[test]
fn code_made_at_run_time_is_walked_only_where_that_can_be_checked() {
    // Return addresses in anonymous memory of a process that is gone: no call can be found there.
    let mut unwinder = with(vec![mapping(0x1000, 0x2000, "")]);
    let mut taken = sample(NOBODY, &[0x1100, 7, STACK + 32, 0x1200, 0, 0x1300]);
    taken.registers.general[FP] = Some(STACK + 16);
    let unwound = unwinder.stack_with(&taken, None);
    assert!(matches!(unwound.frames[..], [FrameAddress::RunTime { at: 0x10ff, .. }]));
    assert_eq!(unwound.end, End::RunTimeCode);
    // In the kernel's image, whose bytes can be read, an address without a call before it is
    // rejected.
    let mut unwinder = with(vec![mapping(0x1000, 0x2000, ""), mapping(0x4000, 0x6000, "[vdso]")]);
    taken.stack[24..32].copy_from_slice(&0x4001_u64.to_le_bytes());
    assert_eq!(unwinder.stack_with(&taken, None).frames.len(), 1);
}

#[test]
fn forks_share_until_they_map_and_new_mappings_replace_old() {
    let mut unwinder = with(vec![mapping(0x1000, 0x4000, "[vdso]")]);
    let child = NOBODY - 1;
    unwinder.event(&MemoryEvent::Forked { pid: child, parent: NOBODY });
    let region = |unwinder: &Unwinder, pid, at| {
        let region = unwinder.modules.region(pid, at)?;
        Some((region.start, region.end, region.offset))
    };
    assert_eq!(region(&unwinder, child, 0x3fff), region(&unwinder, NOBODY, 0x3fff));
    unwinder.event(&MemoryEvent::Mapped { pid: child, mapping: mapping(0x2000, 0x3000, "") });
    assert_ne!(region(&unwinder, child, 0x2000), region(&unwinder, NOBODY, 0x2000));
    assert_eq!(region(&unwinder, child, 0x1fff), Some((0x1000, 0x2000, 0)));
    assert_eq!(region(&unwinder, child, 0x3000), Some((0x3000, 0x4000, 0x2000)));
    unwinder.event(&MemoryEvent::Ended { pid: NOBODY });
    assert!(region(&unwinder, child, 0x1fff).is_some());
}

#[test]
fn the_kernels_chain_goes_on_where_the_copy_ends() {
    let mut taken = sample(NOBODY, &[1, STACK + 24, 11, 0x5000, 12]);
    taken.registers.general[FP] = Some(STACK + 8);
    taken.frame_pointers = vec![11, 12, 13, 14];
    let stack = Stack { start: STACK, bytes: &taken.stack };
    assert_eq!(chain_from(&taken, stack, STACK + 8), Some(&[11, 12, 13, 14][..]));
    assert_eq!(chain_from(&taken, stack, STACK + 24), Some(&[12, 13, 14][..]));
    assert_eq!(chain_from(&taken, stack, 0x5000), Some(&[13, 14][..]));
    assert_eq!(chain_from(&taken, stack, 0x6000), None);
}

#[test]
fn own_mappings_are_executable_and_in_order() {
    let pid = i32::try_from(std::process::id()).unwrap();
    let mappings = mappings_of(pid).unwrap();
    assert!(mappings.iter().any(|mapping| mapping.name.to_str() == Some("[vdso]")));
    assert!(mappings.is_sorted_by_key(|mapping| mapping.start));
    let here = (own_mappings_are_executable_and_in_order as fn()) as usize as u64;
    assert!(mappings.iter().any(|mapping| (mapping.start..mapping.end).contains(&here)));
}

/// Looks up the caller at every tenth byte of a file's code.
fn ask_everywhere(bytes: Vec<u8>, registers: &Registers, stack: Stack<'_>) -> usize {
    let Some(elf) = Elf::read(Bytes::Memory(bytes.into())) else { return 0 };
    let go = GoTable::read(&elf);
    let mut frames = Frames::read(&elf, true);
    let mut found = 0;
    for at in (0..0x2000).step_by(10) {
        let caller = frames.as_mut().map(|frames| frames.caller(at, registers, stack));
        found += usize::from(matches!(caller, Some(Ok(_))));
        let _ = go.as_ref().and_then(|go| go.function(at));
    }
    found
}

fn registers() -> Registers {
    Registers { ip: 1, general: [Some(STACK); GENERAL] }
}

#[test]
fn a_sound_image_has_callers() {
    let stack = Stack { start: STACK, bytes: &[1; 4096] };
    assert!(ask_everywhere(KERNEL.to_vec(), &registers(), stack) > 50);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(
        damage in prop::collection::vec((0_usize..8192, any::<u8>()), 1..40),
        cut in 64_usize..16384,
        value in any::<u64>(),
    ) {
        let mut bytes = KERNEL.to_vec();
        bytes.truncate(cut);
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let stack = Stack { start: STACK, bytes: &[3; 512] };
        ask_everywhere(bytes, &Registers { ip: 1, general: [Some(value); GENERAL] }, stack);
    }

    #[test]
    fn walks_of_any_stack_end(
        words in prop::collection::vec(prop_oneof![0_u64..0x3000, STACK..STACK + 2048], 0..256),
        bp in STACK..STACK + 2048,
        chain in prop::collection::vec(0_u64..0x3000, 0..8),
    ) {
        let mut unwinder = with(vec![mapping(0, 0x1fff, "[vdso]"), mapping(0x1fff, 0x3000, "")]);
        let mut taken = sample(NOBODY, &words);
        taken.registers.general[FP] = Some(bp);
        taken.frame_pointers = chain;
        let unwound = unwinder.stack_with(&taken, None);
        prop_assert!(unwound.frames.len() <= words.len() + 9);
    }
}

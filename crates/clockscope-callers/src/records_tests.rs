use super::*;

const MARK: u64 = 0x1234_5678;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

fn read(kind: RecordType, body: &[u8]) -> Option<Record> {
    Reader::new(MARK).read(Raw { kind: kind.0, misc: 2, body })
}

/// The values of the registers with a meaning at the sample probe; the others hold 100 plus their
/// number.
const SHOWN: [(u64, u64); 4] = [
    (registers::SHOWN, 9 << 32 | 40),
    (registers::SLOT, 0x7f00_0000_0080 + 25),
    (registers::COST, 77),
    (registers::WAIT, 3),
];

/// The registers of a sample in the order of their numbers, with these values.
fn registers_with(values: &[(u64, u64)]) -> Vec<u64> {
    let numbers = (0..64).filter(|number| registers::REGISTERS >> number & 1 == 1);
    let value = |number: u64| {
        values.iter().find(|(own, _)| *own == number).map_or(100 + number, |(_, value)| *value)
    };
    numbers.map(value).collect()
}

fn sample(raw: &[u8], values: &[(u64, u64)]) -> Vec<u8> {
    [
        words(&[0xffff_8000_0000_1000]), // where the kernel was
        halves(&[100, 101]),
        words(&[123_456, 6]),
        words(&[4, u64::MAX - 511, 0x1365, 0x2001, 0x2002]),
        halves(&[u32::try_from(raw.len()).unwrap()]),
        raw.to_vec(),
        words(&[&[2], &registers_with(values)[..], &[64]].concat()),
        vec![7; 64],
        words(&[48]),
    ]
    .concat()
}

fn taken(body: &[u8]) -> Option<Taken> {
    match read(RecordType::SAMPLE, body)?.said {
        Said::Sample(taken) => Some(*taken),
        _ => None,
    }
}

#[test]
fn a_sample_at_the_probe_says_who_called_what_and_for_how_many() {
    let Taken { sample, cost_ticks, slot, wait } = taken(&sample(&[0; 4], &SHOWN)).unwrap();
    assert_eq!(sample.called, Called::Vdso(25));
    assert_eq!((slot, wait), (0x7f00_0000_0080, Some(3)));
    assert_eq!((sample.pid, sample.tid, sample.time_ns), (100, 101, 123_456));
    assert_eq!((sample.weight, sample.after_ticks, cost_ticks), (40, Some(9), 77));
    let mut expected = Registers { ip: 100 + registers::IP, ..Registers::default() };
    for (number, of_dwarf) in registers::UNWINDING {
        expected.general[of_dwarf] = Some(100 + number);
    }
    assert_eq!(sample.registers, expected);
    assert_eq!(sample.stack, [7; 48]);
    assert_eq!(sample.frame_pointers, [0x2001, 0x2002]);
}

#[test]
fn a_call_that_is_no_second_of_a_pair_comes_after_nothing() {
    let taken = taken(&sample(&[0; 4], &[(registers::SHOWN, 3)])).unwrap();
    assert_eq!((taken.sample.weight, taken.sample.after_ticks), (3, None));
}

#[test]
fn a_sample_of_a_system_call_stands_for_its_period() {
    let raw = [words(&[0, 257, 1, 2, 3, 4, 5, 6]), vec![0; 4]].concat();
    let taken_ = taken(&sample(&raw, &SHOWN)).unwrap();
    assert_eq!(taken_.sample.called, Called::Syscall(257));
    assert_eq!((taken_.sample.weight, taken_.sample.after_ticks), (6, None));
    assert_eq!(taken(&sample(&raw, &[(registers::MARK, MARK)])), None);
}

#[test]
fn a_sample_that_is_cut_anywhere_gives_nothing_and_no_panic() {
    let whole = sample(&[0; 4], &SHOWN);
    for length in 0..whole.len() {
        assert_eq!(read(RecordType::SAMPLE, &whole[..length]), None, "{length}");
    }
}

#[test]
fn a_sample_with_any_byte_damaged_makes_no_panic() {
    let whole = sample(&[0; 4], &SHOWN);
    let mut differ = 0;
    for at in 0..whole.len() {
        for value in [0, 0x7f, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            differ += u32::from(taken(&damaged) != taken(&whole));
        }
    }
    assert!(differ > 100, "{differ}");
}

#[test]
fn a_thread_of_the_kernel_has_no_user_registers() {
    let head = [words(&[1]), halves(&[100, 101]), words(&[123_456, 6, 0])].concat();
    let body = [head, halves(&[4, 0]), words(&[0, 0])].concat();
    assert_eq!(read(RecordType::SAMPLE, &body), None);
}

fn map(protection: u32, name: &[u8]) -> Vec<u8> {
    let task = halves(&[100, 101]);
    let place = [words(&[0x1000, 0x2000, 0x3000]), halves(&[8, 1]), words(&[77, 0])].concat();
    [&task, &place, &halves(&[protection, 2]), name, &task, &words(&[99])].concat()
}

#[test]
fn what_can_be_executed_is_told_with_file_and_offset() {
    let record = read(RecordType::MMAP2, &map(5, b"/lib/x\0\0")).unwrap();
    let mapping = Mapping {
        start: 0x1000,
        end: 0x3000,
        offset: 0x3000,
        name: "/lib/x".into(),
        inode: (8 << 32 | 1, 77),
    };
    let said = Said::Memory(MemoryEvent::Mapped { pid: 100, mapping });
    assert_eq!(record, Record { time_ns: 99, said });
    assert_eq!(read(RecordType::MMAP2, &map(1, b"/lib/x\0\0")), None);
}

#[test]
fn a_mapping_without_end_is_none() {
    let mut body = map(5, b"/lib/x\0\0");
    body[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    assert_eq!(read(RecordType::MMAP2, &body), None);
}

#[test]
fn forks_are_told_and_new_threads_are_not() {
    let task = |pid, parent| {
        [halves(&[pid, parent, pid, parent]), words(&[5]), halves(&[9, 9]), words(&[55])].concat()
    };
    let record = read(RecordType::FORK, &task(8, 7)).unwrap();
    assert_eq!(record.time_ns, 55);
    assert_eq!(record.said, Said::Memory(MemoryEvent::Forked { pid: 8, parent: 7 }));
    assert_eq!(read(RecordType::FORK, &task(7, 7)), None);
}

#[test]
fn losses_are_told() {
    let body = [words(&[1, 33]), halves(&[9, 9]), words(&[55])].concat();
    assert_eq!(read(RecordType::LOST, &body).unwrap().said, Said::Lost(33));
    let throttle = [words(&[1, 2, 3]), halves(&[9, 9]), words(&[55])].concat();
    assert_eq!(read(RecordType::THROTTLE, &throttle).unwrap().said, Said::Throttled);
}

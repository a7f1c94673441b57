//! Converts records of the kernel to samples and memory events.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use linux_perf_event_reader::{
    BranchSampleFormat, Endianness, EventRecord, Mmap2FileId, Mmap2Record, RawData, RawDataU64,
    RawEventRecord, ReadFormat, RecordIdParseInfo, RecordParseInfo, RecordType, Regs, SampleFormat,
    SampleRecord,
};

use super::sample::{Called, Mapping, MemoryEvent, Registers, Sample};
use clockscope_sys::perf_rings::Raw;
use clockscope_sys::perf_samples as perf;
use clockscope_sys::perf_samples::registers;

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A sample.
    Sample(Box<Taken>),
    /// A change to the memory of a process.
    Memory(MemoryEvent),
    /// Number of records that found no room in the ring.
    Lost(u64),
    /// The kernel stopped taking samples until its next tick, because they came too often.
    Throttled,
}

/// A sample, and further values from its registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The sample.
    pub sample: Sample,
    /// Ticks that the program spent on the thread's last sample; 0 if unknown.
    pub cost_ticks: u64,
    /// Address of the counter slot of the call; 0 for a system call.
    pub slot: u64,
    /// The number of the call's wait in its process, if the call waits until this sample was read.
    pub wait: Option<u64>,
}

/// A record and its moment, `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of the record.
    pub time_ns: u64,
    /// Content of the record.
    pub said: Said,
}

/// Sorts records by time; those of the same time keep their order.
pub fn sort_by_time(records: &mut [Record]) {
    records.sort_by_key(|record| record.time_ns);
}

/// Offset of the system call number in the data of the tracepoint `raw_syscalls:sys_enter`: behind
/// the eight bytes with which all tracepoints begin (its `format` file, Linux 6.18).
const NUMBER_AT: usize = 8;
/// Offset in the body of a sample of the length of its frame pointer chain: behind address, process
/// and thread, time, and period.
const CHAIN_AT: usize = 32;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`: not requested, and the library reads such records in a
/// different way.
const WITH_BUILD_ID: u16 = 1 << 14;
/// Values from here on in a chain of frame pointers are marks and no addresses (`PERF_CONTEXT_MAX`,
/// include/uapi/linux/perf_event.h, Linux 6.18).
const MARKS_FROM: u64 = u64::MAX - 4095;
/// The low bits of the slot's register at the sample probe hold the counter's number: slots are
/// aligned to 128 bytes.
const COUNTER_MASK: u64 = 31;
const PROT_EXEC: u32 = 4;

/// Reads records. All events of `perf_samples` in `clockscope-sys` have the same content.
#[derive(Clone, Debug)]
pub struct Reader {
    info: RecordParseInfo,
    /// Value of the mark's register in clockscope's own system calls.
    mark: u64,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Reader {
    /// Makes a reader that skips system calls with this mark.
    pub fn new(mark: u64) -> Self {
        let sample_format = SampleFormat::from_bits_truncate(perf::CONTENT);
        let ids = SampleFormat::TID | SampleFormat::TIME;
        let count = |bits: u64| u8::try_from(bits.count_ones()).unwrap_or(u8::MAX); // 64 at most
        let words = |format: SampleFormat| count(format.bits()) * 8;
        let info = RecordParseInfo {
            endian: Endianness::LittleEndian,
            sample_format,
            branch_sample_format: BranchSampleFormat::empty(),
            read_format: ReadFormat::empty(),
            common_data_offset_from_end: Some(words(ids)),
            sample_regs_user: registers::REGISTERS,
            user_regs_count: count(registers::REGISTERS),
            sample_regs_intr: 0,
            intr_regs_count: 0,
            id_parse_info: RecordIdParseInfo {
                nonsample_record_id_offset_from_end: None,
                sample_record_id_offset_from_start: None,
            },
            nonsample_record_time_offset_from_end: Some(words(SampleFormat::TIME)),
            sample_record_time_offset_from_start: Some(words(SampleFormat::IP | SampleFormat::TID)),
        };
        Self { info, mark }
    }

    /// The content of a record; `None` if the record is damaged or of a kind that is not needed.
    pub fn read(&self, raw: Raw<'_>) -> Option<Record> {
        let kind = RecordType(raw.kind);
        let safe = match kind {
            RecordType::SAMPLE => chain_fits(raw.body),
            RecordType::MMAP2 => raw.misc & WITH_BUILD_ID == 0,
            RecordType::FORK | RecordType::LOST | RecordType::THROTTLE => true,
            _ => false,
        };
        if !safe {
            return None;
        }
        let event = RawEventRecord::new(kind, raw.misc, RawData::Single(raw.body), self.info);
        let time_ns = event.timestamp()?;
        let said = match event.parse().ok()? {
            EventRecord::Sample(sample) => Said::Sample(Box::new(self.sample(&sample)?)),
            EventRecord::Mmap2(map) => Said::Memory(mapped(&map)?),
            EventRecord::Fork(fork) if fork.pid != fork.ppid => {
                Said::Memory(MemoryEvent::Forked { pid: fork.pid, parent: fork.ppid })
            }
            EventRecord::Lost(lost) => Said::Lost(lost.count),
            EventRecord::Throttle(_) => Said::Throttled,
            _ => return None,
        };
        Some(Record { time_ns, said })
    }

    fn sample(&self, sample: &SampleRecord<'_>) -> Option<Taken> {
        let user = sample.user_regs.as_ref()?;
        let value = |number| user.get(number);
        let raw = sample.raw.map(|raw| raw.as_slice().into_owned()).unwrap_or_default();
        let (called, weight, after_ticks, cost_ticks, slot, wait) =
            match raw.get(NUMBER_AT..NUMBER_AT + 8) {
                Some(number) => {
                    if value(registers::MARK)? == self.mark {
                        return None;
                    }
                    let number = u64::from_le_bytes(number.try_into().ok()?);
                    (Called::Syscall(u32::try_from(number).ok()?), sample.period?, None, 0, 0, None)
                }
                None => {
                    let shown = value(registers::SHOWN)?;
                    let slot_and_counter = value(registers::SLOT)?;
                    let counter = u8::try_from(slot_and_counter & COUNTER_MASK).ok()?;
                    let slot = slot_and_counter & !COUNTER_MASK;
                    let wait = Some(value(registers::WAIT)?).filter(|number| *number != 0);
                    let after = Some(shown >> 32).filter(|ticks| *ticks != 0);
                    let weight = shown & u64::from(u32::MAX);
                    (Called::Vdso(counter), weight, after, value(registers::COST)?, slot, wait)
                }
            };
        Some(Taken {
            sample: Sample {
                called,
                pid: sample.pid?,
                tid: sample.tid?,
                time_ns: sample.timestamp?,
                weight,
                after_ticks,
                registers: unwinding_registers(user)?,
                stack: stack(sample),
                frame_pointers: sample.callchain.as_ref().map(frame_pointers).unwrap_or_default(),
            },
            cost_ticks,
            slot,
            wait,
        })
    }
}

/// Whether the sample is long enough for the stated number of frame pointers.
fn chain_fits(body: &[u8]) -> bool {
    body.get(CHAIN_AT..)
        .and_then(|rest| rest.split_first_chunk::<8>())
        .is_some_and(|(count, rest)| u64::from_le_bytes(*count) <= rest.len() as u64 / 8)
}

fn unwinding_registers(user: &Regs<'_>) -> Option<Registers> {
    let mut found = Registers { ip: user.get(registers::IP)?, ..Registers::default() };
    for (number, of_dwarf) in registers::UNWINDING {
        found.general[of_dwarf] = Some(user.get(number)?);
    }
    Some(found)
}

/// The copied part of the stack.
fn stack(sample: &SampleRecord<'_>) -> Vec<u8> {
    let Some((stack, copied)) = &sample.user_stack else { return Vec::new() };
    let mut bytes = stack.as_slice().into_owned();
    if let Ok(copied) = usize::try_from(*copied) {
        bytes.truncate(copied);
    }
    bytes
}

/// The return addresses of a chain: without marks, and without the first entry, which is the
/// thread's own address.
fn frame_pointers(chain: &RawDataU64<'_>) -> Vec<u64> {
    let all = (0..chain.len()).filter_map(|index| chain.get(index));
    all.filter(|address| *address < MARKS_FROM).skip(1).collect()
}

/// The mapping, if it is executable.
fn mapped(map: &Mmap2Record<'_>) -> Option<MemoryEvent> {
    if map.protection & PROT_EXEC == 0 {
        return None;
    }
    let inode = match &map.file_id {
        Mmap2FileId::InodeAndVersion(id) => {
            ((u64::from(id.major) << 32) | u64::from(id.minor), id.inode)
        }
        Mmap2FileId::BuildId(_) => (0, 0),
    };
    Some(MemoryEvent::Mapped {
        pid: map.pid,
        mapping: Mapping {
            start: map.address,
            end: map.address.checked_add(map.length)?,
            offset: map.page_offset,
            name: PathBuf::from(OsStr::from_bytes(&map.path.as_slice())),
            inode,
        },
    })
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;

//! Unpacks a stream, with limits on size, ratio and memory.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Maximum number of unpacked bytes of an archive.
const UNPACKED: u64 = 4 << 30;
/// Number of unpacked bytes from which on the ratio is checked.
const RATIO_FROM: u64 = 256 << 20;
/// Maximum ratio of unpacked to packed size. Logs reach 100 at times. Only padding reaches this ratio; gzip stays below
/// 1032 even for that.
const RATIO: u64 = 1000;
/// Memory for the dictionary of xz and the window of zstd, in KiB: the sizes of `xz -9` and `zstd --long`. The decoder
/// of xz needs a little more than the dictionary.
const WINDOW_KIB: u32 = 128 << 10;
const BUFFER: usize = 64 << 10;

/// The compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// Bytes that are needed to recognise a file's type: a tar header.
pub(super) const HEAD: usize = 512;

const EMPTY: &str = "it is empty";
const NEITHER: &str =
    "it is neither a directory nor an archive (.tar, .tar.zst, .tar.gz, .tar.xz) nor a log";
/// The signature of systemd's binary journal (systemd: src/libsystemd/sd-journal/journal-def.h).
const JOURNAL: &[u8] = b"LPKSHHRH";

/// Recognises the compression of an archive by its first bytes.
///
/// # Errors
///
/// The actual type of the file, as a clause.
pub(super) fn packing(head: &[u8]) -> Result<Packing, &'static str> {
    let is_skippable =
        head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18];
    match head {
        [] => Err(EMPTY),
        [0x1f, 0x8b, ..] => Ok(Packing::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Ok(Packing::Xz),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Packing::Zstd),
        _ if is_skippable => Ok(Packing::Zstd),
        [b'B', b'Z', b'h', ..] => {
            Err("it is packed with bzip2, which is not read: unpack it first")
        }
        [b'P', b'K', 3, 4, ..] => Err("it is a zip archive, which is not read: unpack it first"),
        _ if is_tar(head) => Ok(Packing::None),
        _ if head.starts_with(JOURNAL) => Err(
            "it is a journal's own file, which is not read: print it with `journalctl -k --file FILE`",
        ),
        _ => Err(NEITHER),
    }
}

/// Whether these bytes are those of a log: text, which an empty file and an archive are not.
pub(super) fn is_text(head: &[u8]) -> bool {
    let is_plain =
        |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace() || *byte == 0x1b;
    packing(head) == Err(NEITHER) && head.iter().all(is_plain)
}

/// Whether these bytes begin with a tar header, by its checksum; old headers have no other mark.
pub(super) fn is_tar(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<HEAD>() else { return false };
    let header = tar::Header::from_byte_slice(head);
    let mut right = header.clone();
    right.set_cksum();
    // An empty archive consists of zeros only.
    header.cksum().ok().is_some_and(|stated| right.cksum().ok() == Some(stated))
        || head.iter().all(|byte| *byte == 0)
}

/// The first bytes, at most `size`, and the rest of the stream.
pub(crate) fn head_of<R: Read>(mut bytes: R, size: usize) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::with_capacity(size);
    (&mut bytes).take(size as u64).read_to_end(&mut head)?;
    Ok((head, bytes))
}

/// A log, unpacked if it is packed.
///
/// # Errors
///
/// Those of `bytes`, or the kind of a file that is not read, as a clause.
pub(crate) fn log<'a>(bytes: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let (head, bytes) = head_of(bytes, HEAD)?;
    let kind = packing(&head);
    let whole = io::Cursor::new(head).chain(bytes);
    match kind {
        Ok(Packing::None) | Err(NEITHER | EMPTY) => Ok(Box::new(whole)),
        Ok(packing) => Ok(unpack(whole, packing)),
        Err(why) => Err(io::Error::other(why)),
    }
}

/// Unpacks `packed`.
pub(super) fn unpack<'a>(packed: impl Read + 'a, packing: Packing) -> Box<dyn Read + 'a> {
    let count = Rc::new(Cell::new(0));
    // Each decoder is compiled once, not once for each kind of input.
    let packed: Box<dyn Read + 'a> = Box::new(packed);
    let packed = BufReader::with_capacity(BUFFER, Counted { inner: packed, count: count.clone() });
    let unpacked: Box<dyn Read + 'a> = match packing {
        Packing::None => Box::new(packed),
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Xz => Box::new(XzReader::new_mem_limit(packed, true, WINDOW_KIB + 1024)),
        Packing::Zstd => Box::new(ZstdFrames::new(packed)),
    };
    let ratio = if packing == Packing::None { None } else { Some(count) };
    Box::new(BufReader::with_capacity(
        BUFFER,
        Bounded { inner: unpacked, packed: ratio, unpacked: 0 },
    ))
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// Fails as soon as a limit is exceeded.
struct Bounded<R> {
    inner: R,
    packed: Option<Rc<Cell<u64>>>,
    unpacked: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.unpacked += read as u64;
        if self.unpacked > UNPACKED {
            return Err(io::Error::other("it unpacks to more than 4 GiB"));
        }
        let is_bomb = |packed: &Rc<Cell<u64>>| self.unpacked / RATIO > packed.get();
        if self.unpacked > RATIO_FROM && self.packed.as_ref().is_some_and(is_bomb) {
            let text = format!("it unpacks to more than {RATIO} times its size");
            return Err(io::Error::other(text));
        }
        Ok(read)
    }
}

/// The frames of a zstd file, one after the other, with their checksums verified.
struct ZstdFrames<R> {
    packed: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: io::BufRead> ZstdFrames<R> {
    fn new(packed: R) -> ZstdFrames<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(u64::from(WINDOW_KIB) << 10);
        ZstdFrames { packed, decoder, is_in_frame: false }
    }

    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            if self.packed.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    let skipped = io::copy(&mut (&mut self.packed).take(length), &mut io::sink())?;
                    if skipped < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

impl<R: io::BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            self.is_in_frame = self.is_in_frame || self.begin()?;
            if !self.is_in_frame {
                break;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                let stated = self.decoder.get_checksum_from_data();
                if stated.is_some() && stated != self.decoder.get_calculated_checksum() {
                    return Err(io::Error::other("wrong checksum of a zstd frame"));
                }
                self.is_in_frame = false;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.packed, one).map_err(io::Error::other)?;
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(packed: &[u8], packing: Packing) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        unpack(packed, packing).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn frames_follow_each_other_and_some_are_skipped() {
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0], &b"abc"[..]].concat();
        let packed = [skipped.clone(), zstd(b"one "), skipped, zstd(b"two"), zstd(b"")].concat();
        assert_eq!(packing(&packed), Ok(Packing::Zstd));
        assert_eq!(unpacked(&packed, Packing::Zstd).unwrap(), b"one two");
        for cut in 1..packed.len() {
            // A file cut between two frames is valid.
            if let Ok(bytes) = unpacked(&packed[..cut], Packing::Zstd) {
                assert!(matches!(&bytes[..], b"" | b"one " | b"one two"), "{cut}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_an_error_by_the_checksum() {
        let mut packed = zstd(b"text that is stored as it stands");
        let at = packed.windows(4).position(|four| four == b"stor").unwrap();
        packed[at] = b'S';
        assert!(unpacked(&packed, Packing::Zstd).is_err());
    }

    #[test]
    fn gzip_of_several_members_is_one_file() {
        let packed = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(unpacked(&packed, Packing::Gzip).unwrap(), b"one two");
    }

    #[test]
    fn what_it_is_not_is_said() {
        for (head, word) in [
            (&b""[..], "empty"),
            (b"BZh91AY", "bzip2"),
            (b"PK\x03\x04", "zip"),
            (b"hello", "neither"),
            (&[7; HEAD], "neither"),
        ] {
            assert!(packing(head).unwrap_err().contains(word), "{word}");
        }
    }

    #[test]
    fn more_than_the_ratio_ends_it() {
        let zeros = io::repeat(0).take(RATIO_FROM + (1 << 20));
        let count = Rc::new(Cell::new(100));
        let mut bounded = Bounded { inner: zeros, packed: Some(count), unpacked: 0 };
        let error = io::copy(&mut bounded, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("1000 times"), "{error}");
        let mut much = Bounded { inner: io::repeat(0), packed: None, unpacked: UNPACKED - 5 };
        assert!(io::copy(&mut much, &mut io::sink()).unwrap_err().to_string().contains("4 GiB"));
    }
}

//! Bytes that are read by position: a file, memory, or a memory-mapped file.

use ixion_tensor::Mapping;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The source of an archive's bytes.
pub(super) enum Source {
    File { file: PositionedFile, length: u64 },
    Memory(Arc<[u8]>),
    Mapped(Mapping),
}

impl Source {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self::File { file: PositionedFile::new(file), length })
    }

    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self::Memory(bytes.into())
    }

    /// The length in bytes when the source was opened.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { length, .. } => *length,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Mapped(mapping) => mapping.bytes().len() as u64,
        }
    }

    /// Fills `buffer`, starting at byte `position`, without moving a shared cursor.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        match self {
            Self::File { file, .. } => file.read_exact_at(buffer, position),
            Self::Memory(bytes) => copy_at(bytes, buffer, position),
            Self::Mapped(mapping) => copy_at(mapping.bytes(), buffer, position),
        }
    }
}

fn copy_at(bytes: &[u8], buffer: &mut [u8], position: u64) -> io::Result<()> {
    let start = usize::try_from(position).ok();
    let range = start.and_then(|start| Some(start..start.checked_add(buffer.len())?));
    let found = range.and_then(|range| bytes.get(range)).ok_or(io::ErrorKind::UnexpectedEof)?;
    buffer.copy_from_slice(found);
    Ok(())
}

#[cfg(unix)]
pub(super) use unix::PositionedFile;
#[cfg(windows)]
pub(super) use windows::PositionedFile;

#[cfg(not(any(unix, windows)))]
pub(super) use other::PositionedFile;

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt;

    pub(in super::super) struct PositionedFile(File);

    impl PositionedFile {
        pub(super) fn new(file: File) -> Self {
            Self(file)
        }

        pub(super) fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
            self.0.read_exact_at(buffer, position)
        }
    }
}

#[cfg(windows)]
mod windows {
    use std::fs::File;
    use std::io;
    use std::os::windows::fs::FileExt;

    pub(in super::super) struct PositionedFile(File);

    impl PositionedFile {
        pub(super) fn new(file: File) -> Self {
            Self(file)
        }

        /// `seek_read` moves the file's cursor, but no read here depends on the cursor.
        pub(super) fn read_exact_at(&self, mut buffer: &mut [u8], mut position: u64) -> io::Result<()> {
            while !buffer.is_empty() {
                match self.0.seek_read(buffer, position) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => {
                        buffer = buffer.get_mut(count..).unwrap_or_default();
                        position = position.saturating_add(count as u64);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
    }
}

#[cfg(not(any(unix, windows)))]
mod other {
    use std::fs::File;
    use std::io::{self, Read, Seek, SeekFrom};
    use std::sync::{Mutex, PoisonError};

    pub(in super::super) struct PositionedFile(Mutex<File>);

    impl PositionedFile {
        pub(super) fn new(file: File) -> Self {
            Self(Mutex::new(file))
        }

        /// Seeks and reads under a lock. Poisoning is ignored: every read seeks first.
        pub(super) fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
            let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(position))?;
            file.read_exact(buffer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn both(bytes: &[u8]) -> (tempfile::NamedTempFile, [Source; 2]) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let sources = [Source::open(file.path()).unwrap(), Source::from_bytes(bytes.to_vec())];
        (file, sources)
    }

    #[test]
    fn reads_succeed_inside_the_source_and_fail_outside() {
        let (_file, sources) = both(b"0123456789");
        for source in sources {
            let mut buffer = [0; 3];
            source.read_exact_at(&mut buffer, 4).unwrap();
            assert_eq!((&buffer, source.len()), (b"456", 10));
            for position in [8, 10, 1000, u64::MAX / 2] {
                assert!(source.read_exact_at(&mut buffer, position).is_err(), "{position}");
            }
            source.read_exact_at(&mut [], 10).unwrap();
        }
    }

    #[test]
    fn threads_share_a_source() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (_file, sources) = both(&bytes);
        for source in &sources {
            std::thread::scope(|scope| {
                for start in 0..8_u8 {
                    scope.spawn(move || {
                        let mut byte = [0];
                        for position in (start..=255).step_by(8) {
                            source.read_exact_at(&mut byte, u64::from(position)).unwrap();
                            assert_eq!(byte, [position]);
                        }
                    });
                }
            });
        }
    }
}

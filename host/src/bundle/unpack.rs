//! Reading a bundle that anyone may have made.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use super::{ATTACHMENTS, Bundle, HOST, MARK, VERSION, limit};
use crate::recorded::Entry;

type Packed<'a, R> = tar::Entry<'a, R>;

fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

pub(super) fn read(from: impl Read) -> io::Result<Bundle> {
    let mut archive = Archive::new(Bounded { from: GzDecoder::new(from), left: limit::TOTAL_BYTES });
    let mut bundle = Bundle::default();
    let mut marked = false;
    let mut count = 0;
    for packed in archive.entries()? {
        let packed = packed?;
        count += 1;
        if count > limit::ENTRIES {
            return Err(refused(format!("it has more than {} entries", limit::ENTRIES)));
        }
        let path = path(&packed)?;
        match (marked, path.strip_prefix(HOST), path.strip_prefix(ATTACHMENTS)) {
            (false, ..) => {
                mark(packed, &path)?;
                marked = true;
            }
            (_, Some(below), _) => host(&mut bundle, below, packed)?,
            (_, _, Some(name)) => attachment(&mut bundle, name, packed)?,
            _ => return Err(refused(format!("`{path}` does not belong into a bundle"))),
        }
    }
    if !marked {
        return Err(refused("it is empty"));
    }
    // The checksum stands behind the last entry.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(bundle)
}

/// Ends with an error where a plain limit would look like the end of the file.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => self.left = left,
            None => return Err(refused(format!("it unpacks to more than {} bytes", limit::TOTAL_BYTES))),
        }
        Ok(read)
    }
}

/// A path of plain names.
fn path(packed: &Packed<'_, impl Read>) -> io::Result<String> {
    let bytes = packed.path_bytes();
    let path = std::str::from_utf8(&bytes).map_err(|_| refused("a path in it is no text"))?;
    // Directories may be written with a slash at their end.
    let path = path.strip_suffix('/').unwrap_or(path);
    let plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if plain && path.len() <= limit::PATH_BYTES && !path.contains('\0') {
        Ok(path.to_owned())
    } else {
        let start: String = path.chars().take(64).collect();
        Err(refused(format!("the path `{start}` in it is not made of plain names, or too long")))
    }
}

fn mark(packed: Packed<'_, impl Read>, path: &str) -> io::Result<()> {
    if path != MARK {
        return Err(refused(format!("it is another archive: it does not begin with `{MARK}`")));
    }
    let version = bytes(packed, 64)?;
    match std::str::from_utf8(&version).unwrap_or("?").trim() {
        VERSION => Ok(()),
        other => {
            Err(refused(format!("its layout is version `{other}`; this program knows version {VERSION}")))
        }
    }
}

fn host(bundle: &mut Bundle, below: &str, packed: Packed<'_, impl Read>) -> io::Result<()> {
    let kind = packed.header().entry_type();
    let entry = match kind {
        EntryType::Directory => Entry::Directory,
        EntryType::Symlink => Entry::Link(target(&packed)?),
        EntryType::Regular if packed.header().mode()? == 0 => Entry::Unread,
        EntryType::Regular => Entry::File(bytes(packed, limit::FILE_BYTES)?),
        _ => return Err(refused(format!("`{below}` in it is neither file, directory nor symbolic link"))),
    };
    if bundle.host.get(below).is_some() {
        return Err(refused(format!("`{below}` is in it twice")));
    }
    bundle.host.add(below, entry);
    Ok(())
}

fn target(packed: &Packed<'_, impl Read>) -> io::Result<String> {
    let target = packed.link_name_bytes().unwrap_or_default().into_owned();
    let target = String::from_utf8(target).ok().filter(|target| target.len() <= limit::PATH_BYTES);
    target.ok_or_else(|| refused("a link in it points to what is no path"))
}

fn attachment(bundle: &mut Bundle, name: &str, packed: Packed<'_, impl Read>) -> io::Result<()> {
    if name.contains('/') || packed.header().entry_type() != EntryType::Regular {
        return Err(refused(format!("the attachment `{name}` is no plain file")));
    }
    let bytes = bytes(packed, limit::ATTACHMENT_BYTES)?;
    match bundle.attachments.insert(name.to_owned(), bytes) {
        None => Ok(()),
        Some(_) => Err(refused(format!("the attachment `{name}` is in it twice"))),
    }
}

fn bytes(packed: Packed<'_, impl Read>, limit: u64) -> io::Result<Vec<u8>> {
    let declared = packed.size();
    if declared > limit {
        return Err(refused(format!("a file in it has {declared} bytes; at most {limit} are allowed")));
    }
    let mut bytes = Vec::new();
    packed.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == declared { Ok(bytes) } else { Err(refused("it ends within a file")) }
}

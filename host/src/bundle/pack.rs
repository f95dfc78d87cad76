//! Writing a bundle.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::{ATTACHMENTS, Bundle, BundleError, HOST, MARK, VERSION, limit};
use crate::recorded::Entry;

pub(super) fn write(bundle: &Bundle, to: impl Write) -> Result<(), BundleError> {
    let mut archive = Builder::new(GzEncoder::new(to, Compression::default()));
    let mut add = |path: &str, entry: &Entry| {
        let failed = |source| BundleError::Pack { entry: path.to_owned(), source };
        add(&mut archive, path, entry).map_err(failed)
    };
    add(MARK, &Entry::File(format!("{VERSION}\n").into()))?;
    for (path, entry) in bundle.host.iter() {
        add(&format!("{HOST}{path}"), entry)?;
    }
    for (name, bytes) in &bundle.attachments {
        let path = format!("{ATTACHMENTS}{name}");
        let refused = |why: &str| BundleError::Pack { entry: path.clone(), source: io::Error::other(why) };
        if name.is_empty() || name.contains('/') || name.len() > 100 {
            return Err(refused("the name of an attachment has 1 to 100 characters and no `/`"));
        }
        if bytes.len() as u64 > limit::ATTACHMENT_BYTES {
            return Err(refused("it is too large"));
        }
        add(&path, &Entry::File(bytes.clone()))?;
    }
    let failed = |source| BundleError::Pack { entry: "its end".to_owned(), source };
    let compressed = archive.into_inner().map_err(failed)?;
    compressed.finish().and_then(|mut to| to.flush()).map_err(failed)
}

fn add(archive: &mut Builder<impl Write>, path: &str, entry: &Entry) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    let (kind, mode, bytes): (_, _, &[u8]) = match entry {
        Entry::Directory => (EntryType::Directory, 0o755, &[]),
        Entry::Unread => (EntryType::Regular, 0, &[]),
        Entry::Link(_) => (EntryType::Symlink, 0o777, &[]),
        Entry::File(bytes) => (EntryType::Regular, 0o644, bytes),
    };
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes.len() as u64);
    match entry {
        Entry::Link(target) => archive.append_link(&mut header, path, target),
        _ => archive.append_data(&mut header, path, bytes),
    }
}

//! The rendered scrape, kept until the snapshot changes.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flate2::Compression;
use flate2::write::GzEncoder;
use gpulet_inventory::snapshot::Snapshot;
use hyper::body::Bytes;

use crate::encode::{self, Format};
use crate::own::Own;

/// What was rendered, per format.
#[derive(Default)]
pub(super) struct Bodies {
    text: Mutex<Rendered>,
    open_metrics: Mutex<Rendered>,
}

/// One format's body.
#[derive(Default)]
struct Rendered {
    /// What it was rendered from. Held weakly, so that an old snapshot does not stay for want of scrapes; its address
    /// is not used again while it is held.
    of: Weak<Snapshot>,
    plain: Bytes,
    gzip: Option<Bytes>,
}

/// A body and whether it is compressed.
pub(super) struct Body {
    pub(super) bytes: Bytes,
    pub(super) gzip: bool,
}

impl Bodies {
    /// The body of a scrape: rendered by the first request after a change of snapshot, and compressed by the first that
    /// asks for it.
    pub(super) fn get(&self, snapshot: &Arc<Snapshot>, own: &Own, format: Format, gzip: bool) -> Body {
        let rendered = match format {
            Format::Text004 => &self.text,
            Format::OpenMetrics100 => &self.open_metrics,
        };
        // Whoever panicked while holding the lock left a body that the next change of snapshot replaces.
        let mut rendered = rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::ptr::eq(rendered.of.as_ptr(), Arc::as_ptr(snapshot)) {
            let mut buffer = recycle(std::mem::take(&mut rendered.plain));
            encode::render(snapshot, own, format, &mut buffer);
            *rendered = Rendered { of: Arc::downgrade(snapshot), plain: buffer.into(), gzip: None };
        }
        if gzip && rendered.gzip.is_none() {
            rendered.gzip = compress(&rendered.plain);
        }
        match rendered.gzip.clone().filter(|_| gzip) {
            Some(bytes) => Body { bytes, gzip: true },
            None => Body { bytes: rendered.plain.clone(), gzip: false },
        }
    }
}

/// The memory of a body that is done with, if nobody reads it any more; else as much new memory.
fn recycle(body: Bytes) -> Vec<u8> {
    if !body.is_unique() {
        return Vec::with_capacity(body.len());
    }
    let mut buffer = Vec::from(body);
    buffer.clear();
    buffer
}

fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    match encoder.write_all(plain).and_then(|()| encoder.finish()) {
        Ok(compressed) => Some(compressed.into()),
        Err(error) => {
            // It writes to memory, which takes everything. The plain body is right in any case.
            tracing::error!(%error, "a scrape could not be compressed");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own::BuildInfo;

    fn own() -> Own {
        let build = BuildInfo { version: String::new(), revision: String::new(), rustc: String::new() };
        Own::new(build, &[]).unwrap()
    }

    #[test]
    fn one_snapshot_is_rendered_once() {
        let (bodies, own, snapshot) = (Bodies::default(), own(), Arc::new(gpulet_benches::snapshot(1, 0)));
        let get = |snapshot, gzip| bodies.get(snapshot, &own, Format::Text004, gzip).bytes;
        let (first, compressed) = (get(&snapshot, false), get(&snapshot, true));
        assert_eq!(first.as_ptr(), get(&snapshot, false).as_ptr());
        assert_eq!(compressed.as_ptr(), get(&snapshot, true).as_ptr());
        let next = Arc::new(gpulet_benches::snapshot(2, 0));
        assert_ne!(first, get(&next, false));
        assert_ne!(compressed, get(&next, true));
    }

    #[test]
    fn memory_is_used_again_once_nobody_reads_it() {
        let (bodies, own) = (Bodies::default(), own());
        let get =
            || bodies.get(&Arc::new(gpulet_benches::snapshot(1, 0)), &own, Format::Text004, false).bytes;
        let read = get();
        let (before, text) = (read.as_ptr(), read.to_vec());
        let other = get();
        assert_ne!(other.as_ptr(), before, "someone reads it");
        assert_eq!(read, text, "and reads what it was");
        let before = other.as_ptr();
        drop(other);
        assert_eq!(get().as_ptr(), before);
    }

    #[test]
    fn an_old_snapshot_is_not_kept() {
        let (bodies, snapshot) = (Bodies::default(), Arc::new(gpulet_benches::snapshot(1, 0)));
        bodies.get(&snapshot, &own(), Format::OpenMetrics100, true);
        let kept = Arc::downgrade(&snapshot);
        drop(snapshot);
        assert!(kept.upgrade().is_none());
    }
}

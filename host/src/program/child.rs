//! Waiting for a program and for what it writes, for a bounded time.

use std::io::{self, Read};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The most that is kept of what a program writes, bytes of each stream. The rest is read and dropped.
const MAX_OUTPUT: u64 = 64 << 10;

/// How long after it was killed a program may take to go, and what it has written to arrive.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Tells when the child has ended. The thread stays for as long as the kernel keeps the child.
pub(super) fn waited(mut child: Child) -> Receiver<io::Result<ExitStatus>> {
    let (tell, told) = channel();
    thread::spawn(move || tell.send(child.wait()));
    told
}

/// Reads all of it; what it is to be has an end.
pub(super) fn collect(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let Some(mut from) = from else { return };
        let mut room = [0; 4096];
        let mut left = MAX_OUTPUT;
        while let Ok(read @ 1..) = from.read(&mut room) {
            let kept = usize::try_from(left).unwrap_or(usize::MAX).min(read);
            left -= kept as u64;
            let _ = tell.send(room.get(..kept).unwrap_or_default().to_vec());
        }
    });
    told
}

/// What has been written; something that it left behind may keep the stream open.
pub(super) fn gathered(from: &Receiver<Vec<u8>>) -> String {
    let until = Instant::now() + GRACE;
    let mut bytes = Vec::new();
    while let Ok(part) = from.recv_timeout(until.saturating_duration_since(Instant::now())) {
        bytes.extend(part);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

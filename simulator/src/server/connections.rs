//! The socket's side: one thread that accepts, one for each client.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::{Shared, locked};
use crate::protocol::{Connection, Reply};

/// Time between attempts to accept a client when one has failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The acceptor's thread.
pub(super) fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    for (number, stream) in (0..).zip(listener.incoming()) {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let Ok((stream, handle)) =
            stream.and_then(|stream| stream.try_clone().map(|handle| (stream, handle)))
        else {
            // Out of file descriptors, most likely: asking again at once would not help.
            thread::sleep(PAUSE);
            continue;
        };
        locked(&shared.connections).insert(number, handle);
        // One that came while the others were cut is cut here.
        if shared.stopping.load(Ordering::Acquire) {
            let _cut = stream.shutdown(Shutdown::Both);
            return;
        }
        let served = Arc::clone(shared);
        let work = move || {
            // However a client ends, what it had open is closed.
            let _broken = converse(&served, number, Connection::new(stream));
            locked(&served.users).remove(&number);
            locked(&served.connections).remove(&number);
        };
        if thread::Builder::new().name("sim-client".to_owned()).spawn(work).is_err() {
            locked(&shared.connections).remove(&number);
        }
    }
}

/// Answers one client until it leaves.
fn converse(shared: &Shared, number: u64, mut connection: Connection) -> io::Result<()> {
    loop {
        let reply = match connection.receive_request() {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => shared.answer(number, request),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                connection.send(&Reply::Failed(format!("this is not a request: {error}")))?;
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        connection.send(&reply)?;
    }
}

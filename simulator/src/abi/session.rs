//! The library's own state in a client's process: how often it was initialised, and what it holds open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::code::{
    Answer, DRIVER_NOT_LOADED, INVALID_ARGUMENT, LIB_RM_VERSION_MISMATCH, NO_PERMISSION, OPERATING_SYSTEM,
    UNINITIALIZED,
};
use super::{faults, place};
use crate::client::{Client, ClientError, DriverUse};
use crate::driver_call::{Called, DriverCall};
use crate::share::{self, AttachError, Reader};
use crate::state::NodeState;

/// References that `nvmlInit` has given out and `nvmlShutdown` not taken back, and what they share.
struct Library {
    references: u32,
    session: Option<Arc<Session>>,
}

static LIBRARY: RwLock<Library> = RwLock::new(Library { references: 0, session: None });

/// The time between the first `nvmlInit` and the last `nvmlShutdown`.
pub(super) struct Session {
    reader: Reader,
    /// Count of driver loads at the time of `nvmlInit`.
    load: u64,
    host: PathBuf,
    /// What the driver sees as open; taken at shutdown even while calls are in flight.
    open: Mutex<Option<Open>>,
}

/// Open files, as the real library has them.
struct Open {
    _control: File,
    gpus: BTreeMap<u32, File>,
    driver: DriverUse,
}

/// `nvmlInit`: the first reference opens the driver.
pub(super) fn init(symbol: &'static str) -> Answer {
    // Without a session, opening one obeys.
    if let Some(session) = current().ok().filter(|session| session.state().is_ok()) {
        faults::obey(session.reader(), symbol, None)?;
    }
    let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
    let mut superfluous = None;
    // Under a session of an earlier load of the driver a new one is opened; old handles stay worthless.
    if library.session.as_ref().is_none_or(|session| session.state().is_err()) {
        // A fault can hold this up for ever; other threads must get their UNINITIALIZED meanwhile.
        drop(library);
        let session = Arc::new(Session::open(symbol)?);
        library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
        let raced = library.session.as_ref().is_some_and(|session| session.state().is_ok());
        superfluous = if raced { Some(session) } else { library.session.replace(session) };
    }
    library.references += 1;
    drop(library);
    if let Some(session) = superfluous {
        session.close();
    }
    Ok(())
}

/// `nvmlShutdown`: the last reference closes the driver.
pub(super) fn shutdown() -> Answer {
    let ended = {
        let mut library = LIBRARY.write().unwrap_or_else(PoisonError::into_inner);
        library.references = library.references.checked_sub(1).ok_or(UNINITIALIZED)?;
        if library.references == 0 { library.session.take() } else { None }
    };
    if let Some(session) = ended {
        session.close();
    }
    Ok(())
}

/// The present session.
pub(super) fn current() -> Answer<Arc<Session>> {
    let library = LIBRARY.read().unwrap_or_else(PoisonError::into_inner);
    library.session.clone().ok_or(UNINITIALIZED)
}

impl Session {
    fn open(symbol: &'static str) -> Answer<Self> {
        let dir = place::simulation_dir().ok_or(DRIVER_NOT_LOADED)?;
        let reader = Reader::attach(&dir.join(share::FILE_NAME)).map_err(|error| match error {
            AttachError::Layout { .. } => LIB_RM_VERSION_MISMATCH,
            AttachError::Map { source, .. } => refusal(&source),
        })?;
        let load = admit(&reader, symbol)?;
        let host = dir.join("host");
        let control = open_device(&host.join("dev/nvidiactl"))?;
        let driver = DriverUse::begin(&dir).map_err(|error| match error {
            ClientError::Connect { source, .. } => refusal(&source),
            _ => DRIVER_NOT_LOADED,
        })?;
        let open = Open { _control: control, gpus: BTreeMap::new(), driver };
        Ok(Self { reader, load, host, open: Mutex::new(Some(open)) })
    }

    /// Count of driver loads that this session belongs to.
    pub(super) fn load(&self) -> u64 {
        self.load
    }

    /// What the driver knows now.
    ///
    /// # Errors
    /// `DRIVER_NOT_LOADED` while it is not there, `UNINITIALIZED` once it was loaded anew.
    pub(super) fn state(&self) -> Answer<Arc<NodeState>> {
        let state = self.reader.state().map_err(|_| DRIVER_NOT_LOADED)?;
        match &state.driver {
            driver if !driver.loaded => Err(DRIVER_NOT_LOADED),
            driver if driver.load != self.load => Err(UNINITIALIZED),
            _ => Ok(state),
        }
    }

    /// Opens a GPU's device file, once. From then on the driver knows that it is open.
    pub(super) fn open_gpu(&self, index: u32, minor: u32) -> Answer {
        let mut open = self.open_files();
        let open = open.as_mut().ok_or(UNINITIALIZED)?;
        if let Entry::Vacant(place) = open.gpus.entry(minor) {
            let file = open_device(&self.host.join(format!("dev/nvidia{minor}")))?;
            open.driver.open_gpu(index).map_err(|_| DRIVER_NOT_LOADED)?;
            place.insert(file);
        }
        Ok(())
    }

    /// Says that a call is to change a GPU, whatever becomes of it.
    ///
    /// # Errors
    /// `DRIVER_NOT_LOADED` when the server is gone.
    pub(super) fn announce_change(&self, gpu: u32) -> Answer {
        let dir = self.host.parent().ok_or(DRIVER_NOT_LOADED)?;
        let answer = Client::connect(dir).and_then(|mut client| client.announce_change(gpu));
        answer.map_err(|_| DRIVER_NOT_LOADED)
    }

    /// Has the driver change a GPU. When it returns, every client sees it.
    ///
    /// # Errors
    /// What the driver refuses with; `DRIVER_NOT_LOADED` when the server is gone.
    pub(super) fn change(&self, call: DriverCall) -> Answer<Called> {
        // A connection of its own, so that a slow change holds nobody else up.
        let dir = self.host.parent().ok_or(DRIVER_NOT_LOADED)?;
        let answer = Client::connect(dir).and_then(|mut client| client.call(self.load, call));
        answer.map_err(|_| DRIVER_NOT_LOADED)?
    }

    /// What stands for `/` on this node.
    pub(super) fn host(&self) -> &Path {
        &self.host
    }

    /// The shared state, to wait on.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Whether the last reference was given back.
    pub(super) fn closed(&self) -> bool {
        self.open_files().is_none()
    }

    /// Lets go of every file. Returns when the server knows, and holds up nobody else until then.
    fn close(&self) {
        let open = self.open_files().take();
        if let Some(open) = open {
            open.driver.end();
        }
    }

    fn open_files(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the driver lets a caller in at all; the count of loads if so.
fn admit(reader: &Reader, symbol: &'static str) -> Answer<u64> {
    let state = faults::obey(reader, symbol, None)?;
    match &state.driver {
        driver if !driver.loaded => Err(DRIVER_NOT_LOADED),
        driver if driver.no_permission => Err(NO_PERMISSION),
        driver => Ok(driver.load),
    }
}

/// Opens a device file as the driver's library does, for reading and writing.
fn open_device(path: &Path) -> Answer<File> {
    File::options().read(true).write(true).open(path).map_err(|error| refusal(&error))
}

fn refusal(error: &io::Error) -> super::code::Code {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => DRIVER_NOT_LOADED,
        ErrorKind::PermissionDenied => NO_PERMISSION,
        ErrorKind::InvalidInput => INVALID_ARGUMENT,
        _ => OPERATING_SYSTEM,
    }
}

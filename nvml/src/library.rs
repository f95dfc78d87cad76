//! Finds the driver's library and opens it, or says in which state the driver is and what to do about it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulet_inventory::reading::Cause;
use gpulet_inventory::snapshot::DriverDown;

use crate::file::{self, Refusal};
use crate::kernel::Kernel;
use crate::raw::calls::Calls;
use crate::raw::library::{Library, LoadError};
use crate::raw::symbol;
use crate::stats::Stats;
use crate::tracker::Tracker;
use crate::{Options, code};

/// What the driver is known by to the loader.
const NAME: &str = "libnvidia-ml.so.1";

/// Where a host's root, or a driver container's, can be below the host's file system.
const ROOTS: [&str; 3] = ["", "run/nvidia/driver", "driver-root"];

/// Where distributions and images put the library below a root.
const DIRECTORIES: [&str; 9] = [
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/lib/nvidia",
    "usr/local/nvidia/lib64",
    "home/kubernetes/bin/nvidia/lib64",
    "opt/nvidia/lib64",
    "run/opengl-driver/lib",
];

/// The driver, open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) library: Arc<Library>,
    /// What was opened: a path, as far as it can be told.
    pub(crate) path: PathBuf,
    pub(crate) driver_version: String,
    pub(crate) nvml_version: String,
    pub(crate) cuda_version: Option<String>,
    pub(crate) gpus: u32,
    /// What the kernel said just before.
    pub(crate) kernel: Kernel,
}

/// Why the driver cannot be opened. A node without GPUs is not among these: its driver opens, with none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OpenError {
    /// Nowhere to be found.
    #[error("no {NAME} found in {}", Listed(.tried))]
    LibraryNotFound { tried: Vec<PathBuf> },
    /// Found, but the loader refuses it or it is something else.
    #[error("{} cannot be used: {why}", .path.display())]
    LibraryUnusable { path: PathBuf, why: String },
    /// Found, and not given to the loader.
    #[error("{} cannot be used: {why}", .path.display())]
    LibraryRefused { path: PathBuf, why: Refusal },
    /// The kernel has no driver.
    #[error("the NVIDIA kernel driver is not loaded ({call} of {}: {cause})", .path.display())]
    DriverNotLoaded { path: PathBuf, call: &'static str, cause: Cause },
    /// The kernel's driver does not let us.
    #[error("no permission to use the NVIDIA driver ({call} of {}: {cause})", .path.display())]
    NoPermission { path: PathBuf, call: &'static str, cause: Cause },
    /// Library and kernel driver are of different versions.
    #[error("{} is of another version than the loaded kernel driver ({call}: {cause})", .path.display())]
    VersionMismatch { path: PathBuf, call: &'static str, cause: Cause },
    /// It answered something else.
    #[error("the driver cannot be opened ({call} of {}: {cause})", .path.display())]
    Unknown { path: PathBuf, call: &'static str, cause: Cause },
    /// A call while opening has not returned.
    #[error("opening the driver hangs: {call} has not returned for {seconds} s")]
    Unresponsive { call: &'static str, seconds: u64 },
    /// Too many threads are stuck in calls of earlier times.
    #[error("{stuck} threads are stuck in calls to the driver that do not return; it is not opened again")]
    TooManyStuckThreads { stuck: usize },
    /// The system has no thread left.
    #[error("cannot start a thread for the driver: {why}")]
    NoThread { why: String },
}

impl OpenError {
    /// The stable word.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::LibraryNotFound { .. } => "LibraryNotFound",
            Self::LibraryUnusable { .. } | Self::LibraryRefused { .. } => "LibraryUnusable",
            Self::DriverNotLoaded { .. } => "DriverNotLoaded",
            Self::NoPermission { .. } => "NoPermission",
            Self::VersionMismatch { .. } => "VersionMismatch",
            Self::Unknown { .. } => "Unknown",
            Self::Unresponsive { .. } => "Unresponsive",
            Self::TooManyStuckThreads { .. } => "TooManyStuckThreads",
            Self::NoThread { .. } => "NoThread",
        }
    }

    /// What a person can do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::LibraryNotFound { .. } => {
                "install the NVIDIA driver, mount the host's root and name it with --host-root, or name the library \
                 with --nvml-library; without GPUs there is nothing to do"
            }
            Self::LibraryUnusable { .. } => {
                "install a driver library for this machine's architecture, or name another with --nvml-library"
            }
            Self::LibraryRefused { why, .. } => why.remedy(),
            Self::DriverNotLoaded { .. } => {
                "load the kernel module: modprobe nvidia; see dmesg if that fails"
            }
            Self::NoPermission { .. } => {
                "run as root, and in a container with access to /dev/nvidiactl and /dev/nvidia*"
            }
            Self::VersionMismatch { .. } => {
                "finish the driver upgrade: unload and load the kernel module, or reboot, so that both have one version"
            }
            Self::Unknown { .. } => "look for NVRM messages in dmesg, and try nvidia-smi",
            Self::Unresponsive { .. } => {
                "look for NVRM messages in dmesg; a driver that hangs is usually cured by a reset or a reboot only"
            }
            Self::TooManyStuckThreads { .. } => {
                "restart gpulet once the GPU that hangs has been reset, or the node rebooted"
            }
            Self::NoThread { .. } => "raise the limit on tasks (pids.max, TasksMax) of gpulet",
        }
    }

    /// For the snapshot.
    pub(crate) fn down(&self) -> DriverDown {
        DriverDown { reason: self.reason(), message: self.to_string(), remedy: self.remedy().to_owned() }
    }
}

/// A list of paths for people: how many, and the first few. All of them are logged at `debug`.
struct Listed<'a>(&'a [PathBuf]);

/// As many as a person reads.
const FEW: usize = 3;

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.0.len();
        write!(f, "{number} place{} (", if number == 1 { "" } else { "s" })?;
        for (at, path) in self.0.iter().take(FEW).enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{}", path.display())?;
        }
        f.write_str(if number > FEW { ", …)" } else { ")" })
    }
}

/// What the loader would look at for a name, as far as that can be told from outside.
#[derive(Debug, Default)]
struct Loader {
    /// `LD_LIBRARY_PATH`.
    search_path: OsString,
    /// `/etc/ld.so.cache`. Its paths are strings that end with a zero.
    cache: Vec<u8>,
}

impl Loader {
    fn read() -> Self {
        Self {
            search_path: std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default(),
            cache: std::fs::read("/etc/ld.so.cache").unwrap_or_default(),
        }
    }

    fn places(&self) -> impl Iterator<Item = PathBuf> {
        let searched = std::env::split_paths(&self.search_path).map(|directory| directory.join(NAME));
        let cached = self.cache.split(|byte| *byte == 0).map(|text| OsString::from_vec(text.to_vec()).into());
        searched.chain(cached.filter(|path: &PathBuf| path.file_name() == Some(OsStr::new(NAME))))
    }
}

/// Where to look, in order. A path that was named is the only one.
///
/// What the loader would find for the bare name comes first, by its full path, so that it can be looked at before it is
/// loaded; then the usual directories here, those of the host and those of driver containers. The bare name is the last
/// resort, for loaders that look elsewhere.
fn candidates(options: &Options, loader: &Loader) -> Vec<PathBuf> {
    if let Some(library) = &options.library {
        return vec![library.clone()];
    }
    let own = DIRECTORIES.iter().map(|directory| Path::new("/").join(directory));
    let below = ROOTS.iter().flat_map(|root| DIRECTORIES.iter().map(move |directory| (root, directory)));
    let below = below.map(|(root, directory)| options.host_root.join(root).join(directory));
    let all = loader.places().chain(own.chain(below).map(|directory| directory.join(NAME)));
    let mut places: Vec<PathBuf> = Vec::new();
    for place in all.filter(|place| place.is_absolute()) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.push(NAME.into());
    places
}

/// Opens the first candidate that works. Blocks for as long as the driver does: to be called on a thread of its own.
///
/// # Errors
/// What came closest to working: a library that the kernel driver refuses tells more than one that is not there.
pub(crate) fn open(
    options: &Options,
    tracker: &Arc<Tracker>,
    stats: &Arc<Stats>,
) -> Result<Opened, OpenError> {
    let tried = candidates(options, &Loader::read());
    let mut closest: Option<OpenError> = None;
    for candidate in &tried {
        let error = match load(candidate, &closest, tracker) {
            Ok(Some(library)) => return describe(library, candidate, options, tracker, stats),
            Ok(None) => continue,
            Err(LoadError::Refused(why)) => OpenError::LibraryRefused { path: candidate.clone(), why },
            Err(LoadError::Loader(why)) => OpenError::LibraryUnusable { path: candidate.clone(), why },
            Err(LoadError::NotNvml) => {
                let why = "it has no nvmlInit".to_owned();
                OpenError::LibraryUnusable { path: candidate.clone(), why }
            }
            Err(LoadError::Init(code)) => {
                let call = symbol::INIT_WITH_FLAGS.name;
                stats.failed(call, Cause::Code(code));
                let error = refused(candidate.clone(), call, Cause::Code(code));
                // A library left over from another version may hide the right one further down.
                if !matches!(error, OpenError::VersionMismatch { .. }) {
                    return Err(error);
                }
                closest = Some(error);
                continue;
            }
        };
        closest.get_or_insert(error);
    }
    Err(closest.unwrap_or_else(|| {
        tracing::debug!(?tried, "no {NAME} in any of these");
        OpenError::LibraryNotFound { tried }
    }))
}

/// Loads one candidate, if it is there. `closest` is what others before it came to.
fn load(
    candidate: &Path,
    closest: &Option<OpenError>,
    tracker: &Tracker,
) -> Result<Option<Library>, LoadError> {
    if is_bare(candidate) {
        // The loader may find the very file again that must not be loaded.
        let deadly =
            |error: &OpenError| matches!(error, OpenError::LibraryRefused { why, .. } if why.is_deadly());
        if closest.as_ref().is_some_and(deadly) {
            return Ok(None);
        }
    } else {
        tracker.enter("dlopen");
        let checked = if candidate.exists() { file::check(candidate).map(Some) } else { Ok(None) };
        tracker.leave();
        if checked.map_err(LoadError::Refused)?.is_none() {
            return Ok(None);
        }
    }
    match Library::open(candidate.as_os_str(), tracker) {
        Err(LoadError::Loader(why)) if is_absent(&why, candidate) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Whether the loader looks for it in its own places: it has no directory.
fn is_bare(candidate: &Path) -> bool {
    !candidate.as_os_str().as_bytes().contains(&b'/')
}

/// Whether the loader says that the library itself is not there (and not one that it needs).
fn is_absent(why: &str, candidate: &Path) -> bool {
    let name = candidate.to_string_lossy();
    why.starts_with(&format!("{name}: cannot open shared object file: No such file"))
}

/// Asks what was opened.
fn describe(
    library: Library,
    candidate: &Path,
    options: &Options,
    tracker: &Arc<Tracker>,
    stats: &Arc<Stats>,
) -> Result<Opened, OpenError> {
    let library = Arc::new(library);
    let calls = Calls::new(Arc::clone(&library), Arc::clone(tracker), Arc::clone(stats));
    let fail = |call: &'static str| {
        let path = candidate.to_path_buf();
        move |cause| refused(path, call, cause)
    };
    let version = &symbol::DRIVER_VERSION;
    let driver_version = calls.system_text(version).map_err(fail(version.name))?;
    let nvml_version = calls.system_text(&symbol::NVML_VERSION).map_err(fail(symbol::NVML_VERSION.name))?;
    let cuda_version = calls.system(&symbol::CUDA_VERSION).ok().and_then(cuda_version);
    // Before counting, so that a GPU that comes now is noticed; initialising may have loaded the module.
    let kernel = Kernel::read(&options.host_root);
    let gpus = calls.system(&symbol::COUNT).map_err(fail(symbol::COUNT.name))?;
    let path = loaded_path(candidate);
    Ok(Opened { library, path, driver_version, nvml_version, cuda_version, gpus, kernel })
}

fn refused(path: PathBuf, call: &'static str, cause: Cause) -> OpenError {
    match cause {
        Cause::Code(code::DRIVER_NOT_LOADED) => OpenError::DriverNotLoaded { path, call, cause },
        Cause::Code(code::NO_PERMISSION) => OpenError::NoPermission { path, call, cause },
        Cause::Code(code::LIB_RM_VERSION_MISMATCH) => OpenError::VersionMismatch { path, call, cause },
        Cause::Code(code::LIBRARY_NOT_FOUND) => {
            OpenError::LibraryUnusable { path, why: format!("{call}: a library that it needs is missing") }
        }
        _ => OpenError::Unknown { path, call, cause },
    }
}

/// NVML encodes 13.0 as 13000: 1000 × major + 10 × minor.
fn cuda_version(encoded: i32) -> Option<String> {
    (encoded > 0).then(|| format!("{}.{}", encoded / 1000, encoded % 1000 / 10))
}

/// The file behind a name that the loader found by itself.
fn loaded_path(candidate: &Path) -> PathBuf {
    if candidate.is_absolute() {
        return candidate.to_path_buf();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    mapped(&maps, candidate.as_os_str()).unwrap_or_else(|| candidate.to_path_buf())
}

/// The first mapped file of that name; its real name continues with the version.
fn mapped(maps: &str, name: &OsStr) -> Option<PathBuf> {
    let stem: OsString = Path::new(name).file_stem()?.to_owned();
    let stem = stem.to_str()?;
    maps.lines()
        .filter_map(|line| line.split_once('/').map(|(_, path)| PathBuf::from(format!("/{path}"))))
        .find(|path| path.file_name().and_then(OsStr::to_str).is_some_and(|file| file.starts_with(stem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate() {
        let options = Options { library: Some("/opt/x/libnvidia-ml.so".into()), ..Options::default() };
        assert_eq!(candidates(&options, &Loader::read()), [PathBuf::from("/opt/x/libnvidia-ml.so")]);
    }

    #[test]
    fn what_the_loader_would_find_comes_first_then_here_then_the_host_then_driver_containers() {
        let options = Options { host_root: "/host".into(), ..Options::default() };
        let cache =
            b"glibc-ld.so.cache1.1\0\x01/opt/odd/libnvidia-ml.so\0/opt/lib/libnvidia-ml.so.1\0libz.so.1\0";
        let loader = Loader { search_path: "relative::/opt/first".into(), cache: cache.to_vec() };
        let candidates = candidates(&options, &loader);
        let place = |path: &str| candidates.iter().position(|c| c == Path::new(path)).unwrap();
        let order = [
            "/opt/first/libnvidia-ml.so.1",
            "/opt/lib/libnvidia-ml.so.1",
            "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            "/host/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            "/host/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
            "libnvidia-ml.so.1",
        ];
        assert!(order.map(place).is_sorted(), "{candidates:?}");
        assert_eq!((place(order[0]), place(order[1]), place(order[5])), (0, 1, candidates.len() - 1));
        for path in [
            "/host/usr/lib64/libnvidia-ml.so.1",
            "/host/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
            "/host/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
            "/host/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
        ] {
            place(path);
        }
        let relative = candidates.iter().filter(|c| !c.is_absolute()).count();
        assert_eq!(relative, 1, "{candidates:?}");
    }

    #[test]
    fn of_many_places_the_first_few_are_told() {
        let told = |options| {
            OpenError::LibraryNotFound { tried: candidates(&options, &Loader::default()) }.to_string()
        };
        assert_eq!(
            told(Options::default()),
            "no libnvidia-ml.so.1 found in 28 places (/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1, \
             /usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1, /usr/lib64/libnvidia-ml.so.1, …)"
        );
        let one = told(Options { library: Some("/opt/nvml.so".into()), ..Options::default() });
        assert_eq!(one, "no libnvidia-ml.so.1 found in 1 place (/opt/nvml.so)");
    }

    #[test]
    fn a_bare_name_is_not_loaded_past_an_incomplete_file() {
        let incomplete = Refusal::Incomplete { size: 1, needed: 2 };
        let closest = Some(OpenError::LibraryRefused { path: "/l".into(), why: incomplete });
        // One that the loader has: loading it would succeed in that, and fail for want of nvmlInit.
        let name = Path::new("libc.so.6");
        assert!(matches!(load(name, &closest, &Tracker::default()), Ok(None)));
        assert!(matches!(load(name, &None, &Tracker::default()), Err(LoadError::NotNvml)));
    }

    #[test]
    fn only_the_library_itself_being_away_counts_as_absent() {
        let path = Path::new(NAME);
        let why = "libnvidia-ml.so.1: cannot open shared object file: No such file or directory";
        assert!(is_absent(why, path));
        assert!(!is_absent("libother.so: cannot open shared object file: No such file or directory", path));
        assert!(!is_absent("libnvidia-ml.so.1: invalid ELF header", path));
    }

    #[test]
    fn each_refusal_is_a_state_of_its_own() {
        let reason = |code| refused("/l".into(), "nvmlInitWithFlags", Cause::Code(code)).reason();
        assert_eq!(reason(code::DRIVER_NOT_LOADED), "DriverNotLoaded");
        assert_eq!(reason(code::NO_PERMISSION), "NoPermission");
        assert_eq!(reason(code::LIB_RM_VERSION_MISMATCH), "VersionMismatch");
        assert_eq!(reason(code::LIBRARY_NOT_FOUND), "LibraryUnusable");
        assert_eq!(reason(999), "Unknown");
        for code in 1..=30 {
            assert!(DriverDown::REASONS.contains(&reason(code)), "{code}");
        }
        let others = [
            OpenError::LibraryNotFound { tried: Vec::new() },
            OpenError::Unresponsive { call: "", seconds: 0 },
            OpenError::TooManyStuckThreads { stuck: 0 },
            OpenError::NoThread { why: String::new() },
        ];
        for error in others {
            assert!(DriverDown::REASONS.contains(&error.reason()), "{error:?}");
        }
    }

    #[test]
    fn the_cuda_version_is_decoded() {
        assert_eq!(cuda_version(13000).as_deref(), Some("13.0"));
        assert_eq!(cuda_version(12090).as_deref(), Some("12.9"));
        assert_eq!(cuda_version(0), None);
    }

    #[test]
    fn the_file_behind_a_name_is_found() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 12 /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 13                 /usr/lib/libnvidia-ml.so.580.105.08\n";
        assert_eq!(mapped(maps, OsStr::new(NAME)), Some("/usr/lib/libnvidia-ml.so.580.105.08".into()));
        assert_eq!(mapped("", OsStr::new(NAME)), None);
    }
}

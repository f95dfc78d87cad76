//! What the kernel tells of the driver, without a call to it.
//!
//! The library counts its GPUs when it is initialised and may go on to tell that number. The kernel knows at once which
//! are bound.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

/// The kernel's side of the driver at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Version of the module. The library's file tells nothing: packages replace it long before the module, and until
    /// then only the library that is open works.
    module: Option<String>,
    /// The GPUs that are bound to it, by PCI address.
    gpus: Option<BTreeSet<OsString>>,
}

/// What became different, for which the driver must be opened anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The module.
    Module,
    /// The GPUs.
    Gpus,
}

impl Change {
    /// In words.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Module => "another driver is loaded than the one that was opened",
            Self::Gpus => "the driver has other GPUs than when it was opened",
        }
    }
}

impl Kernel {
    /// As it is now.
    pub(crate) fn read(host_root: &Path) -> Self {
        let names =
            |directory: std::fs::ReadDir| directory.flatten().map(|entry| entry.file_name()).collect();
        Self {
            module: std::fs::read_to_string(host_root.join("sys/module/nvidia/version")).ok(),
            gpus: std::fs::read_dir(host_root.join("proc/driver/nvidia/gpus")).ok().map(names),
        }
    }

    /// What is different later. What cannot be read tells nothing.
    pub(crate) fn change(&self, later: &Self) -> Option<Change> {
        fn differs<T: PartialEq>(before: Option<&T>, later: Option<&T>) -> bool {
            before.zip(later).is_some_and(|(before, later)| before != later)
        }
        if differs(self.module.as_ref(), later.module.as_ref()) {
            return Some(Change::Module);
        }
        differs(self.gpus.as_ref(), later.gpus.as_ref()).then_some(Change::Gpus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_module_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let nothing = Kernel::read(root.path());
        assert_eq!(nothing, Kernel { module: None, gpus: None });
        let module = root.path().join("sys/module/nvidia");
        std::fs::create_dir_all(&module).unwrap();
        std::fs::write(module.join("version"), "580.82.07\n").unwrap();
        let before = Kernel::read(root.path());
        assert_eq!(before.change(&before), None);
        std::fs::write(module.join("version"), "580.105.08\n").unwrap();
        assert_eq!(before.change(&Kernel::read(root.path())), Some(Change::Module));
        assert_eq!((before.change(&nothing), nothing.change(&before)), (None, None));
    }

    #[test]
    fn gpus_that_come_go_or_are_exchanged_are_noticed() {
        let root = tempfile::tempdir().unwrap();
        let gpus = root.path().join("proc/driver/nvidia/gpus");
        std::fs::create_dir_all(gpus.join("0000:01:00.0")).unwrap();
        let one = Kernel::read(root.path());
        std::fs::create_dir(gpus.join("0000:02:00.0")).unwrap();
        let two = Kernel::read(root.path());
        std::fs::remove_dir(gpus.join("0000:01:00.0")).unwrap();
        let other = Kernel::read(root.path());
        for (before, later) in [(&one, &two), (&two, &one), (&one, &other)] {
            assert_eq!(before.change(later), Some(Change::Gpus));
        }
        std::fs::remove_dir_all(&gpus).unwrap();
        let unknown = Kernel::read(root.path());
        assert_eq!((one.change(&unknown), unknown.change(&one)), (None, None));
    }
}

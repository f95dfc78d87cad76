//! Which hardware thread is where.

use super::description::{CpuDescription, Numbering};

/// Where a hardware thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Package.
    pub package: u32,
    /// Core within its package.
    pub core: u32,
    /// Thread within its core.
    pub thread: u32,
}

impl CpuDescription {
    /// Hardware threads in all.
    pub fn count(&self) -> u64 {
        let cores = u64::from(self.packages).saturating_mul(u64::from(self.cores_per_package));
        cores.saturating_mul(u64::from(self.threads_per_core))
    }

    /// Where CPU number `cpu` is.
    pub fn thread(&self, cpu: u32) -> Thread {
        let (per_package, threads) = (self.cores_per_package.max(1), self.threads_per_core.max(1));
        let cores = self.packages.saturating_mul(per_package).max(1);
        let (core, thread) = match self.numbering {
            Numbering::CoresFirst => (cpu % cores, cpu / cores),
            Numbering::ThreadsAdjacent => (cpu / threads, cpu % threads),
        };
        Thread { package: core / per_package, core: core % per_package, thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbered_as_linux_does() {
        let mut cpu = CpuDescription {
            model: String::new(),
            packages: 2,
            cores_per_package: 4,
            threads_per_core: 2,
            numbering: Numbering::CoresFirst,
        };
        assert_eq!(cpu.thread(5), Thread { package: 1, core: 1, thread: 0 });
        assert_eq!(cpu.thread(13), Thread { package: 1, core: 1, thread: 1 });
        cpu.numbering = Numbering::ThreadsAdjacent;
        assert_eq!(cpu.thread(5), Thread { package: 0, core: 2, thread: 1 });
    }
}

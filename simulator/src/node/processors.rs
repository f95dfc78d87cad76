//! Which hardware thread is where.

use super::description::{CpuDescription, Numbering};

/// Root ports by how a processor's model begins.
const ROOT_PORTS: [(&str, (u16, u16)); 2] = [("AMD", (0x1022, 0x14ab)), ("Neoverse", (0x10de, 0x22b2))];
const INTEL_ROOT_PORT: (u16, u16) = (0x8086, 0x352a);

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

    /// Whether these are processors of the Arm architecture.
    pub fn is_arm(&self) -> bool {
        self.model.starts_with("Neoverse")
    }

    /// PCI vendor and device of their root ports.
    pub fn root_port(&self) -> (u16, u16) {
        let of_maker = ROOT_PORTS.iter().find(|(maker, _)| self.model.starts_with(maker));
        of_maker.map_or(INTEL_ROOT_PORT, |(_, ids)| *ids)
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
    fn makers_have_root_ports_of_their_own() {
        let of = |model: &str| CpuDescription {
            model: model.to_owned(),
            packages: 1,
            cores_per_package: 1,
            threads_per_core: 1,
            numbering: Numbering::CoresFirst,
        };
        assert_eq!(of("AMD EPYC 9654 96-Core Processor").root_port().0, 0x1022);
        assert_eq!(of("Neoverse-V2").root_port().0, 0x10de);
        assert_eq!(of("Intel(R) Xeon(R) Platinum 8480C").root_port().0, 0x8086);
        assert!(of("Neoverse-V2").is_arm() && !of("AMD EPYC 9654 96-Core Processor").is_arm());
    }

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

//! What the driver said survives being written and read.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Architecture, Gpu, GpuUuid, MaxClocks, PcieMax};
use gpulet_inventory::link::{NvLink, RemoteKind};
use gpulet_inventory::locality::{DriverLocality, GpuLocality, Level};
use gpulet_inventory::mig::{
    ComputeInstance, ComputeInstanceId, GpuInstance, GpuInstanceId, MigMode, MigProfile, MigState, Placement,
};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::process::{GpuProcess, ProcessKind};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::record::{NodeRecord, StoredRecord};
use gpulet_inventory::sample::{
    Bar1, Clocks, ClocksHeld, Ecc, Fabric, Memory, Pcie, Power, RemappedRows, Sample, Temperature,
    Utilization,
};
use gpulet_inventory::snapshot::{
    CallStats, Condition, DownReason, Driver, DriverDown, DriverInfo, GpuState, NodeGpus, UnlistedGpu,
};
use proptest::prelude::*;

const CALLS: [&str; 4] = [
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]",
    "nvmlDeviceGetMaxClockInfo[NVML_CLOCK_GRAPHICS]",
];
const REASONS: [&str; 3] = ["LibraryNotFound", "DriverNotLoaded", "Quiesced"];

/// Draws whatever is asked for from a row of numbers, over and over.
struct Draw {
    numbers: Vec<u64>,
    at: usize,
}

impl Draw {
    fn number(&mut self) -> u64 {
        self.at += 1;
        let drawn = self.numbers[self.at % self.numbers.len()];
        // So that the same row gives other values the next time around.
        drawn.rotate_left(u32::try_from(self.at / self.numbers.len() % 64).unwrap())
    }

    fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    fn small(&mut self) -> u32 {
        u32::try_from(self.number() >> 32).unwrap()
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    fn one_of<T: Copy, const N: usize>(&mut self, of: [T; N]) -> T {
        of[usize::try_from(self.below(N as u64)).unwrap()]
    }

    fn text(&mut self) -> String {
        let number = self.number();
        self.one_of(["", "NVIDIA H100 80GB HBM3", "\"\\\u{fffd}\n", "é"]).to_owned() + &number.to_string()
    }

    fn some<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(value(self)) } else { None }
    }

    fn many<T>(&mut self, value: impl Fn(&mut Self) -> T) -> Vec<T> {
        (0..self.below(4)).map(|_| value(self)).collect()
    }

    fn cause(&mut self) -> Cause {
        let code = Cause::Code(self.small());
        self.one_of([
            code,
            Cause::NoSymbol,
            Cause::Blank,
            Cause::Implausible,
            Cause::TimedOut,
            Cause::Busy,
            Cause::NotOpen,
        ])
    }

    fn answer(&mut self) -> Answer {
        Answer { call: self.one_of(CALLS), cause: self.cause() }
    }

    fn reading<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Reading<T> {
        match self.below(4) {
            0 => Reading::Unsupported(self.answer()),
            1 => Reading::Failed(self.answer()),
            _ => Reading::Supported(value(self)),
        }
    }

    fn reading32(&mut self) -> Reading<u32> {
        self.reading(Self::small)
    }

    fn reading64(&mut self) -> Reading<u64> {
        self.reading(Self::number)
    }

    fn duration(&mut self) -> Duration {
        Duration::new(self.below(100_000), u32::try_from(self.below(1_000_000_000)).unwrap())
    }

    fn pci(&mut self) -> PciAddress {
        PciAddress {
            domain: self.small(),
            bus: u8::try_from(self.below(256)).unwrap(),
            device: u8::try_from(self.below(32)).unwrap(),
            function: u8::try_from(self.below(8)).unwrap(),
        }
    }

    fn uuid(&mut self) -> GpuUuid {
        format!("GPU-{:08x}-0000-1111-2222-333344445555", self.small()).parse().unwrap()
    }

    fn down_reason(&mut self) -> DownReason {
        let (answer, call, since) = (self.answer(), self.one_of(CALLS), self.duration());
        self.one_of([
            DownReason::Lost(answer),
            DownReason::ResetRequired(answer),
            DownReason::Unresponsive { call, since },
            DownReason::DriverDown,
            DownReason::Failed(answer),
        ])
    }

    fn gpu(&mut self) -> Gpu {
        Gpu {
            index: self.small(),
            uuid: self.uuid(),
            pci: self.pci(),
            minor: self.reading32(),
            name: self.reading(Self::text),
            serial: self.reading(Self::text),
            vbios: self.reading(Self::text),
            architecture: self.reading(|draw| Architecture::from_number(draw.small() % 14)),
            compute_capability: self.reading(|draw| (draw.small(), draw.small())),
            pcie_max: PcieMax { generation: self.reading32(), width: self.reading32() },
            max_clock: MaxClocks {
                graphics: self.reading32(),
                sm: self.reading32(),
                memory: self.reading32(),
                video: self.reading32(),
            },
        }
    }

    fn link(&mut self) -> NvLink {
        NvLink {
            link: self.small(),
            active: self.flag(),
            version: self.reading32(),
            remote_kind: self.reading(|draw| {
                draw.one_of([RemoteKind::Gpu, RemoteKind::Npu, RemoteKind::Switch, RemoteKind::Unknown])
            }),
            remote_pci: self.reading(Self::pci),
            transmitted_bytes: self.reading64(),
            received_bytes: self.reading64(),
        }
    }

    fn placement(&mut self) -> Placement {
        Placement { start: self.small(), size: self.small() }
    }

    fn mig(&mut self) -> MigState {
        MigState {
            mode: MigMode { current: self.flag(), pending: self.flag() },
            profiles: self.reading(|draw| {
                draw.many(|draw| MigProfile {
                    id: draw.small(),
                    name: draw.some(Self::text),
                    slices: draw.small(),
                    memory_bytes: draw.number(),
                    multiprocessors: draw.small(),
                    max_instances: draw.small(),
                    placements: draw.reading(|draw| draw.many(Self::placement)),
                })
            }),
            instances: self.reading(|draw| {
                draw.many(|draw| GpuInstance {
                    id: GpuInstanceId(draw.small()),
                    profile_id: draw.small(),
                    placement: draw.placement(),
                    compute_instances: draw.many(|draw| ComputeInstance {
                        id: ComputeInstanceId(draw.small()),
                        profile_id: draw.small(),
                        uuid: draw.some(Self::text),
                    }),
                })
            }),
        }
    }

    fn process(&mut self) -> GpuProcess {
        GpuProcess {
            pid: self.small(),
            kind: self.one_of(ProcessKind::ALL),
            memory_bytes: self.some(Self::number),
            gpu_instance: self.some(|draw| GpuInstanceId(draw.small())),
            compute_instance: self.some(|draw| ComputeInstanceId(draw.small())),
        }
    }

    fn clocks(&mut self) -> Clocks {
        Clocks {
            graphics: self.reading32(),
            sm: self.reading32(),
            memory: self.reading32(),
            video: self.reading32(),
            event_reasons: self.reading64(),
            held: ClocksHeld {
                power_cap: self.reading64(),
                sync_boost: self.reading64(),
                sw_thermal: self.reading64(),
                hw_thermal: self.reading64(),
                hw_power_brake: self.reading64(),
            },
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            utilization: Utilization {
                gpu: self.reading32(),
                memory: self.reading32(),
                encoder: self.reading32(),
                decoder: self.reading32(),
                jpeg: self.reading32(),
                ofa: self.reading32(),
            },
            memory: self.reading(|draw| Memory {
                total: draw.number(),
                used: draw.number(),
                free: draw.number(),
                reserved: draw.some(Self::number),
            }),
            bar1: self.reading(|draw| Bar1 { total: draw.number(), used: draw.number() }),
            power: Power {
                usage: self.reading32(),
                instant: self.reading32(),
                limit: self.reading32(),
                energy: self.reading64(),
            },
            temperature: Temperature { gpu: self.reading32(), memory: self.reading32() },
            clock: self.clocks(),
            pcie: Pcie {
                generation: self.reading32(),
                width: self.reading32(),
                replays: self.reading32(),
                transmitted_bytes: self.reading64(),
                received_bytes: self.reading64(),
            },
            nvlinks: self.reading(|draw| draw.many(Self::link)),
            ecc: Ecc {
                enabled: self.reading(Self::flag),
                volatile_corrected: self.reading64(),
                volatile_uncorrected: self.reading64(),
                aggregate_corrected: self.reading64(),
                aggregate_uncorrected: self.reading64(),
            },
            remapped_rows: self.reading(|draw| RemappedRows {
                correctable: draw.small(),
                uncorrectable: draw.small(),
                pending: draw.flag(),
                failed: draw.flag(),
            }),
            processes: self.reading(|draw| draw.many(Self::process)),
            mig: self.reading(Self::mig),
            performance_state: self.reading32(),
            recovery_action: self.reading32(),
            fabric: self.reading(|draw| Fabric {
                state: draw.small(),
                status: draw.small(),
                clique_id: draw.some(Self::small),
                cluster_uuid: draw.some(Self::text),
            }),
        }
    }

    fn state(&mut self, now: Instant) -> GpuState {
        let down = Condition::Down(self.down_reason());
        GpuState {
            gpu: Arc::new(self.gpu()),
            condition: self.one_of([Condition::Up, down]),
            sample: self.some(|draw| Arc::new(draw.sample())),
            sampled: now - Duration::from_nanos(self.below(1_000_000_000)),
            took: self.duration(),
            xids: self.reading(|draw| draw.many(|draw| (draw.small(), draw.number())).into_iter().collect()),
        }
    }

    fn driver(&mut self) -> Driver {
        if self.flag() {
            return Driver::Down(DriverDown {
                reason: self.one_of(REASONS),
                message: self.text(),
                remedy: self.text(),
            });
        }
        Driver::Up(DriverInfo {
            driver_version: self.text(),
            nvml_version: self.text(),
            cuda_version: self.some(Self::text),
            library: self.text(),
            epoch: self.number(),
        })
    }

    fn locality(&mut self) -> DriverLocality {
        let levels = [Level::Same, Level::Pix, Level::Pxb, Level::Phb, Level::Node, Level::Sys];
        let one = |draw: &mut Self| GpuLocality {
            uuid: draw.uuid(),
            cpu_affinity: draw.reading(|draw| draw.many(|draw| draw.small() % 8192).into_iter().collect()),
            memory_affinity: draw.reading(|draw| draw.many(|draw| draw.small() % 64).into_iter().collect()),
            own_numa_node: draw.reading32(),
            c2c_links: draw.reading32(),
            levels: draw.many(|draw| draw.reading(|draw| draw.one_of(levels))),
        };
        DriverLocality { gpus: self.many(one) }
    }

    fn record(&mut self, now: Instant) -> NodeRecord {
        let failed = self.many(|draw| {
            let reasons = draw.many(|draw| (draw.one_of(["TIMEOUT", "UNKNOWN"]), draw.number()));
            (draw.one_of(CALLS), reasons.into_iter().collect::<BTreeMap<_, _>>())
        });
        let gpus = NodeGpus {
            driver: self.driver(),
            gpus: self.many(|draw| draw.state(now)),
            unlisted: self.many(|draw| UnlistedGpu {
                index: draw.small(),
                pci: draw.some(Self::pci),
                reason: draw.down_reason(),
            }),
            calls: CallStats {
                made: self.number(),
                failed: failed.into_iter().collect(),
                unsupported: BTreeMap::from([(
                    "nvmlDeviceGetMigMode",
                    BTreeMap::from([("NOT_SUPPORTED", self.number())]),
                )]),
                stuck_threads: self.number(),
                opens: self.number(),
            },
        };
        NodeRecord { gpus, locality: self.locality() }
    }
}

/// Some instant: there is no other way to have one.
#[allow(clippy::disallowed_methods)]
fn some_instant() -> Instant {
    Instant::now() + Duration::from_secs(100)
}

proptest! {
    #[test]
    fn a_record_reads_back_as_it_was(numbers in proptest::collection::vec(any::<u64>(), 60..200)) {
        let recorded_at = some_instant();
        let record = Draw { numbers, at: 0 }.record(recorded_at);
        let text = serde_json::to_string(&record.clone().store(recorded_at)).unwrap();
        let stored: StoredRecord = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&stored.clone().at(recorded_at), &record);
        // Elsewhere the clock shows something else; the ages are the same.
        let later = recorded_at + Duration::from_secs(5000);
        for (was, is) in record.gpus.gpus.iter().zip(&stored.at(later).gpus.gpus) {
            prop_assert_eq!(recorded_at - was.sampled, later - is.sampled);
        }
    }

    #[test]
    fn a_record_that_someone_changed_is_read_or_refused(
        numbers in proptest::collection::vec(any::<u64>(), 60..200),
        at in any::<prop::sample::Index>(),
        with in "[0-9a-z\"{}\\[\\],:-]{0,3}",
    ) {
        let now = some_instant();
        let text = serde_json::to_string(&Draw { numbers, at: 0 }.record(now).store(now)).unwrap();
        let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let cut = boundaries[at.index(boundaries.len())];
        let changed = format!("{}{with}{}", &text[..cut], &text[cut..]);
        if let Ok(stored) = serde_json::from_str::<StoredRecord>(&changed) {
            let _ = stored.at(now);
        }
    }
}

#[test]
fn an_age_without_end_is_none() {
    let now = some_instant();
    let mut draw =
        Draw { numbers: (1..90).map(|n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect(), at: 0 };
    let mut record = draw.record(now + Duration::from_secs(2));
    record.gpus.gpus = vec![draw.state(now + Duration::from_secs(2))];
    let mut json = serde_json::to_value(record.store(now)).unwrap();
    json["gpus"][0]["age"] = serde_json::json!({"secs": u64::MAX, "nanos": 0});
    let stored: StoredRecord = serde_json::from_value(json).unwrap();
    assert_eq!(stored.at(now).gpus.gpus[0].sampled, now);
}

#[test]
fn a_word_of_another_version_is_kept() {
    let answer = Answer { call: "nvmlDeviceGetPowerUsage", cause: Cause::Code(3) };
    let text = serde_json::to_string(&answer).unwrap();
    let newer: Answer = serde_json::from_str(&text.replace("PowerUsage", "SomethingNew")).unwrap();
    assert_eq!(newer, Answer { call: "nvmlDeviceGetSomethingNew", cause: Cause::Code(3) });
    let hostile = text.replace("nvmlDeviceGetPowerUsage", &"x".repeat(10_000));
    assert!(serde_json::from_str::<Answer>(&hostile).unwrap_err().to_string().contains("longer than"));
}

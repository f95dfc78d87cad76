//! `gpulet apply`: brings the GPUs to what is wanted, once.

use std::fmt::Write;
use std::time::{Duration, Instant};

use gpulet_host::partition::aftercare::Finding;
use gpulet_host::partition::lock::Lock;
use gpulet_partition::apply::{Failure, Outcome as Ended, Policy};
use gpulet_partition::protocol::WhenBusy;
use gpulet_partition::reboot::Decision;
use gpulet_partition::refusal::Refusal;

use super::super::{CommandError, exit, print};
use super::{Asked, PartitionError, Planned, Site, ending};
use crate::cli::Global;
use crate::daemon::{self, DaemonError};
use crate::partition::{Cared, End, GpuOutcome, Layouts, NodeOutcome, Recovered};
use crate::supervise::shutdown::Shutdown;

/// How often it is looked again while it is waited for someone.
const LOOKS_EVERY: Duration = Duration::from_secs(2);

/// Does it, says how it ended on each GPU, and gives the exit code.
pub(crate) fn apply(global: &Global, asked: Asked<'_>) -> Result<u8, CommandError> {
    let site = Site::open(global, "apply")?;
    let (layouts, name) = site.layouts(asked)?;
    let lock = Lock::take(&site.partitioner.root).map_err(PartitionError::from)?;
    let runtime = daemon::runtime()?;
    // A file that was named is wanted, also where it does not take a name to say which layout of it.
    let is_wanted = name.is_some() || asked.file.is_some();
    let done = runtime.block_on(async {
        let end = ending::asked().map_err(DaemonError::set_up("the signals"))?;
        site.apply(&layouts, name.as_deref(), is_wanted, &end).await
    });
    // Threads may hang in the driver: not waited for.
    runtime.shutdown_background();
    drop(lock);
    let code = done?;
    Ok(code)
}

impl Site {
    async fn apply(
        &self,
        layouts: &Layouts,
        name: Option<&str>,
        is_wanted: bool,
        end: &Shutdown,
    ) -> Result<u8, CommandError> {
        if !is_wanted {
            let recovered = self.recover(Policy::default()).await?;
            print(b"No layout is declared or named with --mig-config: the GPUs are left as they are.\n")?;
            return Ok(if recovered.iter().all(Recovered::is_ended) { 0 } else { exit::FAILED });
        }
        // What was cut off may have been for something else, and what is wanted is known by a look only: a reboot is asked
        // for when that is known.
        let recovered = self.recover(Policy::default()).await?;
        let planned = self.planned(layouts, name, end).await?;
        let hash = planned.desired.hash.as_str();
        let decision = self.partitioner.reboot_decision(self.settings.partition.reboot, hash).await;
        let is_permitted = matches!(decision, Ok(Decision::Reboot(_) | Decision::Asked));
        let users = planned.looked.users().filter(|_| is_permitted);
        let may_reboot = is_permitted && users.is_none();
        let policy = Policy { reboot: may_reboot, ..Policy::default() };
        let outcome = self.carry_out(&planned, policy, end).await;
        print(told(&planned, &outcome).as_bytes())?;
        let cared = self.care(&outcome, &recovered).await;
        if outcome.is_success() {
            if let Err(failure) = self.partitioner.forget_reboot().await {
                eprintln!("gpulet: {failure}");
            }
            // What was cut off and cannot be ended may be persistence mode that is still off.
            let all = cared && recovered.iter().all(Recovered::is_ended);
            return Ok(if all { 0 } else { exit::FAILED });
        }
        let mut ends = outcome.gpus.iter().map(|gpu| &gpu.end).chain(recovered.iter().map(|gpu| &gpu.end));
        if ends.any(End::takes_reboot) {
            match users {
                Some(users) => {
                    eprintln!("gpulet: the machine is not to be rebooted while it is in use: {users}")
                }
                None => self.reboot(decision).await,
            }
        }
        Ok(code(&outcome))
    }

    async fn recover(&self, policy: Policy) -> Result<Vec<Recovered>, CommandError> {
        let recovered = self.partitioner.recover(policy).await.map_err(PartitionError::Failed)?;
        let mut text = String::new();
        for Recovered { gpu, end } in &recovered {
            let gpu = gpu.as_ref().map_or_else(String::new, |gpu| format!("{gpu}: "));
            let _ = writeln!(text, "{gpu}a change that had been cut off: {}", told_recovered(end));
        }
        print(text.as_bytes())?;
        Ok(recovered)
    }

    /// The plan, when no one is in its way any more or it has been waited long enough.
    async fn planned(
        &self,
        layouts: &Layouts,
        name: Option<&str>,
        end: &Shutdown,
    ) -> Result<Planned, CommandError> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let looked = self.partitioner.look().await.map_err(PartitionError::Failed)?;
            let planned = Planned::of(looked, layouts, name).map_err(PartitionError::from)?;
            let blocked: Vec<&Refusal> =
                planned.plan.refusals().filter(|refusal| refusal.is_blocked()).collect();
            let is_over = begun.elapsed() >= self.settings.partition.wait || end.is_requested();
            if blocked.is_empty() || self.when_busy() == WhenBusy::Refuse || is_over {
                return Ok(planned);
            }
            if !told {
                told = true;
                blocked.iter().for_each(|refusal| tracing::info!("waiting: {refusal}"));
            }
            tokio::select! {
                () = tokio::time::sleep(LOOKS_EVERY) => {}
                () = end.requested() => {}
            }
        }
    }

    /// Nobody is evicted from here: that takes the daemon, and an API server.
    fn when_busy(&self) -> WhenBusy {
        let declared = self.settings.labels.get(gpulet_partition::protocol::WHEN_BUSY);
        declared.and_then(|word| word.parse().ok()).unwrap_or(self.settings.partition.when_busy)
    }

    /// What cannot be had on one GPU is had on none: what is wanted of the node is wrong then.
    async fn carry_out(&self, planned: &Planned, policy: Policy, end: &Shutdown) -> NodeOutcome {
        let infeasible = planned.plan.refusals().any(|refusal| {
            let unread = planned.looked.unread.iter();
            let is_unread = |gpu| unread.clone().any(|unread| unread.uuid.as_ref() == Some(gpu));
            !refusal.is_blocked() && !matches!(refusal, Refusal::NoSuchGpu { gpu } if is_unread(gpu))
        });
        let go_on = || !infeasible && !end.is_requested();
        self.partitioner.carry_out(&planned.looked, &planned.plan, policy, go_on).await
    }

    /// Whether containers find what there is now. That is looked at also where nothing had to be changed: whoever changed it
    /// may have been killed before he came to this.
    async fn care(&self, outcome: &NodeOutcome, recovered: &[Recovered]) -> bool {
        let changed =
            outcome.gpus.iter().any(|gpu| matches!(gpu.end, End::Ended(_))) || !recovered.is_empty();
        if !changed && !outcome.gpus.iter().any(|gpu| gpu.end == End::AsWanted) {
            return true;
        }
        match self.partitioner.care().await {
            Ok(Cared { aftercare: cared, .. }) => {
                let is_news = |finding: &&Finding| changed || !matches!(finding, Finding::Right(_));
                cared.findings.iter().filter(is_news).for_each(|finding| eprintln!("gpulet: {finding}"));
                let is_right = cared.wrong().is_none();
                if is_right && let Err(failure) = self.partitioner.forget_aftercare().await {
                    eprintln!("gpulet: {failure}");
                }
                is_right
            }
            Err(failure) => {
                eprintln!("gpulet: device files and CDI specification were not looked at: {failure}");
                false
            }
        }
    }

    async fn reboot(&self, decision: Result<Decision, Failure>) {
        let rebooted = match decision {
            Ok(Decision::Reboot(marker)) => self.partitioner.reboot(marker).await,
            Ok(Decision::Asked) => {
                eprintln!("gpulet: a reboot of the machine was asked for, and has not come yet");
                return;
            }
            Ok(Decision::DidNotHelp) => {
                eprintln!("gpulet: the machine was rebooted for this layout before, and that did not help");
                return;
            }
            Ok(Decision::NotPermitted) => {
                eprintln!("gpulet: reboot the machine, or permit it with `partition.reboot: once`");
                return;
            }
            Err(failure) => Err(failure),
        };
        match rebooted {
            Ok(()) => eprintln!("gpulet: the machine reboots now; the change is finished at the next start"),
            Err(failure) => eprintln!("gpulet: {failure}"),
        }
    }
}

fn told_recovered(end: &End) -> String {
    match end {
        End::Ended(Ended::Reached) => "finished; read again, the GPU is as it was to be".to_owned(),
        end => end.to_string(),
    }
}

/// How it ended on each GPU.
fn told(planned: &Planned, outcome: &NodeOutcome) -> String {
    let mut text = String::new();
    for GpuOutcome { gpu, end } in &outcome.gpus {
        let index = gpu.as_ref().and_then(|gpu| planned.looked.gpu(gpu)).map(|looked| looked.gpu.index);
        let name = match (index, gpu) {
            (Some(index), Some(gpu)) => format!("GPU {index} ({gpu})"),
            (_, Some(gpu)) => gpu.to_string(),
            (_, None) => "A GPU".to_owned(),
        };
        let _ = writeln!(text, "{name}: {end}");
    }
    for warning in &planned.desired.warnings {
        let _ = writeln!(text, "Warning: {warning}");
    }
    text
}

/// What it comes to where it is no success.
fn code(outcome: &NodeOutcome) -> u8 {
    let ends = || outcome.gpus.iter().map(|gpu| &gpu.end).filter(|end| !end.is_success());
    if ends().any(End::is_infeasible) {
        exit::INFEASIBLE
    } else if ends().all(End::is_blocked) {
        exit::BLOCKED
    } else {
        exit::FAILED
    }
}

//! The reboot of the machine, where a change of mode can be had in no other way: once for each thing that is wanted.

use gpulet_host::partition::reboot as machine;
use gpulet_partition::apply::Failure;
use gpulet_partition::protocol::{NodeEntry, NodeJournal, RebootMarker};
use gpulet_partition::reboot::{Decision, Permission, decide};

use super::Partitioner;
use crate::report;

impl Partitioner {
    /// Whether the machine may be rebooted for what has this `hash`.
    ///
    /// # Errors
    /// If it is not known which boot this is, or whether it was rebooted for it.
    pub(crate) async fn reboot_decision(
        &self,
        permission: Permission,
        hash: &str,
    ) -> Result<Decision, Failure> {
        let entry = self.node_entry().await?;
        if permission == Permission::Never && entry.reboot.is_none() {
            return Ok(Decision::NotPermitted);
        }
        let boot = machine::boot_id(&self.root).map_err(|error| failure(error.reason(), &error))?;
        Ok(decide(permission, entry.reboot.as_ref(), &boot, hash))
    }

    /// Whether a reboot was asked for in this boot.
    pub(super) async fn is_reboot_asked(&self) -> bool {
        let marker = self.node_entry().await.ok().and_then(|entry| entry.reboot);
        marker.is_some_and(|marker| machine::boot_id(&self.root).is_ok_and(|boot| boot == marker.boot_id))
    }

    /// Reboots the machine: what keeps it from being done twice is on disk before.
    ///
    /// # Errors
    /// If that cannot be written, or the machine does not do it.
    pub(crate) async fn reboot(&self, marker: RebootMarker) -> Result<(), Failure> {
        let entry = NodeEntry { reboot: Some(marker), ..self.node_entry().await? };
        self.on_disk(move |store| store.write_node(&NodeJournal::from(entry))).await?;
        let root = self.root.clone();
        let rebooted = tokio::task::spawn_blocking(move || machine::reboot(&root)).await;
        match rebooted {
            Ok(rebooted) => rebooted.map_err(|error| failure(error.reason(), &error)),
            Err(error) => Err(super::execute::broken(&error)),
        }
    }

    /// What was wanted is there: it may be rebooted for it another time.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) async fn forget_reboot(&self) -> Result<(), Failure> {
        self.write_entry(|entry| entry.reboot = None).await
    }

    /// Device files and CDI specifications are as they should be.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(crate) async fn forget_aftercare(&self) -> Result<(), Failure> {
        self.write_entry(|entry| entry.aftercare = false).await
    }

    /// Changes what is on disk of the node, where that makes it another.
    pub(super) async fn write_entry(&self, change: impl FnOnce(&mut NodeEntry)) -> Result<(), Failure> {
        let before = self.node_entry().await?;
        let mut entry = before.clone();
        change(&mut entry);
        if entry == before {
            return Ok(());
        }
        self.on_disk(move |store| match entry == NodeEntry::default() {
            true => store.remove_node::<NodeJournal>(),
            false => store.write_node(&NodeJournal::from(entry)),
        })
        .await
    }

    /// What is on disk of the node.
    ///
    /// # Errors
    /// If that cannot be read.
    pub(crate) async fn node_entry(&self) -> Result<NodeEntry, Failure> {
        let journal = self.on_disk(|store| store.node::<NodeJournal>()).await?;
        Ok(journal.map(NodeEntry::from).unwrap_or_default())
    }
}

fn failure(reason: &str, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure { reason: reason.to_owned(), message: report::chain(error) }
}

//! What is seen to after a change: device files and CDI specifications.

use gpulet_partition::apply::Failure;

use super::edge::Edge;
use crate::partition::Cared;

impl Edge {
    /// Brings device files and CDI specifications to what there is, and says what was found.
    pub(super) async fn care(&self) -> Result<String, Failure> {
        let Cared { aftercare: cared, offered } = self.partitioner.care().await?;
        self.verify_advertised(offered);
        for finding in &cared.findings {
            tracing::info!("{finding}");
        }
        match cared.wrong() {
            Some((reason, message)) => {
                Err(Failure { reason: reason.to_owned(), message: message.to_owned() })
            }
            None => {
                let told: Vec<String> = cared.findings.iter().map(ToString::to_string).collect();
                Ok(told.join("; "))
            }
        }
    }
}

//! `gpulet plan`: what would change. It changes nothing.

use std::io::{self, IsTerminal};

use super::super::{CommandError, print};
use super::{Asked, PartitionError, Planned, Site, code};
use crate::cli::{Form, Global};
use crate::daemon;
use crate::partition::WantedError;
use crate::partition::report::{self, Report};

/// Prints the plan, and gives the exit code that says what it comes to.
pub(crate) fn plan(global: &Global, asked: Asked<'_>, form: Form) -> Result<u8, CommandError> {
    let site = Site::open(global, "plan")?;
    let (layouts, name) = site.layouts(asked)?;
    let runtime = daemon::runtime()?;
    let (looked, unfinished) = runtime.block_on(async {
        let looked = site.partitioner.look().await;
        (looked, site.partitioner.unfinished().await)
    });
    // Threads may hang in the driver: not waited for.
    runtime.shutdown_background();
    let looked = looked.map_err(PartitionError::Failed)?;
    let mut report = match Planned::of(looked.clone(), &layouts, name.as_deref()) {
        Ok(Planned { looked, desired, plan }) => Report::of(&layouts.from, &desired, &looked, &plan),
        Err(WantedError::Unresolved { from, name, problems }) if form == Form::Json => {
            Report::unresolved(&from, &name, &problems, &looked)
        }
        Err(error) => return Err(PartitionError::from(error).into()),
    };
    report.warnings.extend(unfinished);
    match form {
        Form::Json => print(report.json().as_bytes())?,
        Form::Text => print(report::text(&report, is_coloured()).as_bytes())?,
    }
    Ok(code(report.verdict))
}

fn is_coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

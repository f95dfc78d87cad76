//! The reasons for each figure, for people.

use std::fmt::Write;

use super::built::{Account, Built, Note, Share};
use crate::label;

/// How each `available` came about, Pod by Pod, ending with a line break.
///
/// ```text
/// node-1 nvidia.com/gpu: available 1 = 4 allocatable − 2 − 1
///   4  devices that the plugin has told the kubelet of
/// − 2  ml/train-0, container main: GPU-…, GPU-…
/// − 1  ml/train-1, container main: GPU-…
/// ```
pub fn why(built: &Built) -> String {
    let mut text = String::new();
    for of_zone in built.why.chunk_by(|one, next| one.zone == next.zone) {
        for account in of_zone {
            let title = format!("{} {}", account.zone, label::name(&account.resource));
            explain(&title, account, &mut text);
        }
        text.push('\n');
    }
    for account in &built.unplaced {
        let title = format!("in no zone, {}", label::name(&account.resource));
        explain(&title, account, &mut text);
        text.push('\n');
    }
    if built.why.is_empty() {
        text.push_str("No zone of type Node: no figures.\n\n");
    }
    notes(&built.notes, &mut text);
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn explain(title: &str, account: &Account, text: &mut String) {
    let amount = |amount: u64| amount_of(&account.resource, amount);
    let _ = write!(text, "{title}: available {}", amount(account.available));
    if account.capacity == 0 {
        text.push_str(", there is none\n");
        return;
    }
    if account.available != account.allocatable {
        let _ = write!(text, " = {} allocatable", amount(account.allocatable));
        for share in &account.taken {
            let _ = write!(text, " − {}", amount(share.amount));
        }
    }
    text.push('\n');
    let mut lines = vec![(' ', amount(account.capacity), account.source.to_owned())];
    lines.extend(account.kept.iter().map(|share| ('−', amount(share.amount), whose(share))));
    if !account.kept.is_empty() {
        lines.push(('=', amount(account.allocatable), "allocatable".to_owned()));
    }
    lines.extend(account.taken.iter().map(|share| ('−', amount(share.amount), whose(share))));
    let widest = lines.iter().map(|(_, amount, _)| amount.chars().count()).max().unwrap_or(0);
    for (sign, amount, reason) in lines {
        let _ = writeln!(text, "  {sign} {amount:>widest$}  {reason}");
    }
}

fn whose(share: &Share) -> String {
    let whose = label::visible(&share.whose);
    match share.which.as_slice() {
        [] => whose,
        which => {
            let which: Vec<String> = which.iter().map(|which| label::visible(which)).collect();
            format!("{whose}: {}", which.join(", "))
        }
    }
}

/// Bytes as people read them; CPUs and devices as they are.
fn amount_of(resource: &str, amount: u64) -> String {
    if resource != "memory" && !resource.starts_with("hugepages-") {
        return amount.to_string();
    }
    let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| amount >= *unit) {
        Some((unit, name)) if amount.is_multiple_of(*unit) => format!("{} {name}", amount / unit),
        Some((unit, name)) => format!("{:.2} {name}", amount as f64 / *unit as f64),
        None => format!("{amount} B"),
    }
}

fn notes(notes: &[Note], text: &mut String) {
    if notes.is_empty() {
        return;
    }
    text.push_str("Notes:\n\n");
    for note in notes {
        let _ = writeln!(text, "  {} ({}): {}", note.reason.as_str(), note.subject, note.message);
        let _ = writeln!(text, "    {}", note.remedy);
    }
}

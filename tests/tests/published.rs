//! `gpulet topo` on each simulated machine, cell by cell against the table that was published of the real one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;

/// Node and published table.
const MACHINES: [(&str, &str); 15] = [
    ("a100-cpuset-restricted", "a100-cpuset-restricted"),
    ("a100-pcie-nvlink-pairs", "a100-pcie-nvlink-pairs"),
    ("b200-gpu2-nvlink-down", "b200-gpu2-nvlink-down-partial"),
    ("consumer-numa-unknown", "consumer-2gpu-numa-unknown"),
    ("dgx-1v", "dgx-1v"),
    ("dgx-2", "dgx-2-partial"),
    ("dgx-a100", "dgx-a100"),
    ("dgx-h100", "dgx-h100"),
    ("gb200-tray", "gb200-nvl72-tray"),
    ("h100-reversed-nics", "h100-reversed-nics-partial"),
    ("hgx-a100-2numa", "hgx-a100-2numa"),
    ("hgx-a100-nps4", "hgx-a100-nps4"),
    ("hgx-h100", "hgx-h100"),
    ("l40s-4x", "l40s-4x"),
    ("pcie-8x4090", "pcie-8x4090"),
];

/// Columns behind the devices.
const TAIL: [&str; 3] = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];

/// Where gpulet deliberately says something else than `nvidia-smi` did, one a line, with the reasons.
const DIVERGENCES: &str = include_str!("published_divergences.txt");

/// A table of `nvidia-smi topo -m`, or ours: they are laid out alike.
struct Table {
    devices: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let devices = words(lines.next().unwrap()).into_iter().take_while(|word| word != "CPU").collect();
        let rows = lines.take_while(|line| !line.starts_with("Legend")).map(words).collect();
        Self { devices, rows }
    }

    /// The row of a device; a partial table lacks some.
    fn row(&self, position: usize) -> Option<&[String]> {
        let row = self.rows.iter().find(|row| row.first() == self.devices.get(position))?;
        row.get(1..)
    }

    fn column(&self, position: usize) -> &str {
        self.devices.get(position).map_or_else(|| TAIL[position - self.devices.len()], String::as_str)
    }
}

fn topo(node: &str) -> Table {
    let mut command = gpulet_tests::gpulet_sim();
    command.args(["exec", node, "--"]).arg(gpulet_tests::gpulet().get_program()).arg("topo");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{node}: {}", String::from_utf8_lossy(&output.stderr));
    Table::parse(&String::from_utf8_lossy(&output.stdout))
}

/// Every cell that differs, as a line of the list; and how many were compared.
fn differences(node: &str, published: &Table) -> (BTreeSet<String>, usize) {
    let ours = topo(node);
    assert_eq!(ours.devices.len(), published.devices.len(), "{node}: {:?}", ours.devices);
    let (mut different, mut compared) = (BTreeSet::new(), 0);
    for position in 0..published.devices.len() {
        let Some(row) = published.row(position) else { continue };
        let own = ours.row(position).unwrap();
        for (column, cell) in row.iter().enumerate() {
            compared += 1;
            if cell != &own[column] {
                let place = format!("{} {}", published.devices[position], published.column(column));
                different.insert(format!("{node}: {place}: {cell} -> {}", own[column]));
            }
        }
    }
    (different, compared)
}

#[test]
fn topo_says_what_was_published() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../simulator/tests/fixtures");
    let lines = DIVERGENCES.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let listed: BTreeSet<String> = lines.map(str::to_owned).collect();
    let (mut found, mut compared) = (BTreeSet::new(), 0);
    for (node, table) in MACHINES {
        let published = Table::parse(&std::fs::read_to_string(format!("{fixtures}/{table}.txt")).unwrap());
        let (different, cells) = differences(node, &published);
        assert!(cells > published.devices.len(), "{node}: too little was compared");
        found.extend(different);
        compared += cells;
    }
    assert!(compared > 2_500, "{compared} cells");
    let new: Vec<_> = found.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(new.is_empty() && gone.is_empty(), "not listed: {new:#?}\nlisted, but equal: {gone:#?}");
}

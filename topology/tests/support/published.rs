//! Reads a published `nvidia-smi topo -m` table.

/// One table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// Labels of the columns: GPUs, then NICs under whatever name.
    pub labels: Vec<String>,
    /// Cells by row; there are fewer rows than labels where the source left some out.
    pub rows: Vec<(String, Vec<String>)>,
    /// CPU affinity of each row that has one.
    pub cpu_affinity: Vec<String>,
    /// NUMA affinity of each row that has one.
    pub numa_affinity: Vec<String>,
    /// NUMA node of the GPU's own memory of each row that has one.
    pub gpu_numa_id: Vec<String>,
}

impl Published {
    /// Columns are split by tabs or blanks; lines that begin with `#` are no part of it.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let header = lines.next().expect("a header");
        let labels: Vec<String> =
            header.split_whitespace().take_while(|word| *word != "CPU").map(str::to_owned).collect();
        let mut table = Self {
            labels,
            rows: Vec::new(),
            cpu_affinity: Vec::new(),
            numa_affinity: Vec::new(),
            gpu_numa_id: Vec::new(),
        };
        for line in lines {
            let mut words = line.split_whitespace().map(str::to_owned);
            let label = words.next().expect("a label");
            let cells: Vec<String> = words.by_ref().take(table.labels.len()).collect();
            assert_eq!(cells.len(), table.labels.len(), "{line}");
            table.rows.push((label, cells));
            table.cpu_affinity.extend(words.next());
            table.numa_affinity.extend(words.next());
            table.gpu_numa_id.extend(words.next());
        }
        table
    }
}

/// A table that is kept with these tests.
pub fn kept(name: &str) -> Published {
    let (_, text) = KEPT.iter().find(|(known, _)| *known == name).expect("a kept table");
    Published::parse(text)
}

const KEPT: [(&str, &str); 8] = [
    ("a100-pcie-nvlink-pairs", include_str!("../tables/a100-pcie-nvlink-pairs.txt")),
    ("consumer-2gpu-numa-unknown", include_str!("../tables/consumer-2gpu-numa-unknown.txt")),
    ("dgx-1v", include_str!("../tables/dgx-1v.txt")),
    ("dgx-a100", include_str!("../tables/dgx-a100.txt")),
    ("dgx-h100", include_str!("../tables/dgx-h100.txt")),
    ("gb200-nvl72-tray", include_str!("../tables/gb200-nvl72-tray.txt")),
    ("l40s-4x", include_str!("../tables/l40s-4x.txt")),
    ("pcie-8x4090", include_str!("../tables/pcie-8x4090.txt")),
];

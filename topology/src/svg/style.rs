//! Colours and fonts. Plain rules without variables: viewers other than browsers know these.

/// The style sheet: light, and dark where the reader prefers it.
pub(super) const CSS: &str = "
text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;font-size:10px;fill:#1c2430}
.heading{font-size:17px;font-weight:600}
.title{font-size:13px;font-weight:600}
.name{font-size:13px;font-weight:600}
.half{font-size:11px;font-weight:600}
.small{font-size:9.5px}
.muted{fill:#5b6675}
.bad{fill:#c42020;font-weight:600}
.back{fill:#ffffff}
.area{fill:#f5f7fa;stroke:#c3ccd8}
.unknown{stroke-dasharray:6 4}
.root{fill:#e2e7ee;stroke:#a9b4c2}
.switch{fill:#dce8fc;stroke:#4f82dd}
.gpu{fill:#def3e3;stroke:#2b9249;stroke-width:1.5}
.nic{fill:#fdedd4;stroke:#cb8117}
.plain{fill:none}
.down{fill:#f7dcdc;stroke:#c42020;stroke-dasharray:4 3}
.undriven{fill:#eceff3;stroke:#7c8794;stroke-dasharray:4 3}
.edge{stroke:#8592a3;stroke-width:1.5;fill:none}
.edge-bad{stroke:#c42020;stroke-width:2;stroke-dasharray:4 3;fill:none}
.nvswitch{fill:#eae0fb;stroke:#7446cf}
.nvlink{stroke:#7446cf;stroke-linecap:round;fill:none}
.nvlink-bad{stroke:#c42020;stroke-width:2;stroke-dasharray:4 3;fill:none}
.pill{fill:#ffffff;stroke:#7446cf;stroke-width:.75}
.pill-bad{fill:#ffffff;stroke:#c42020;stroke-width:.75}
@media (prefers-color-scheme:dark){
text{fill:#e6ebf2}
.muted{fill:#9aa7b7}
.bad{fill:#ff7b7b}
.back{fill:#11151b}
.area{fill:#1a202a;stroke:#3c4858}
.root{fill:#2b3542;stroke:#566476}
.switch{fill:#1c2f50;stroke:#5d8fe8}
.gpu{fill:#163524;stroke:#45b96b}
.nic{fill:#3b2b13;stroke:#dd9f42}
.plain{fill:none}
.down{fill:#401d1f;stroke:#ff7b7b}
.undriven{fill:#252c36;stroke:#8591a0}
.edge{stroke:#69778a}
.edge-bad{stroke:#ff7b7b}
.nvswitch{fill:#2c2148;stroke:#a98bf0}
.nvlink{stroke:#a98bf0}
.nvlink-bad{stroke:#ff7b7b}
.pill{fill:#11151b;stroke:#a98bf0}
.pill-bad{fill:#11151b;stroke:#ff7b7b}
}
";

//! What NVIDIA's toolkit is told, so that it makes a specification like the one that there is.

use super::{Edits, Specification, Writer, is_uuid};

impl Specification {
    /// What NVIDIA's toolkit is to be told, so that it makes one like this.
    pub(in super::super) fn options(&self) -> Vec<String> {
        let (vendor, class) = self.vendor_and_class();
        let class = class.split('.').next().unwrap_or(class);
        let mut options = vec![format!("--vendor={vendor}"), format!("--class={class}")];
        match self.writer() {
            Writer::ToolkitForManagers => options.push("--mode=management".to_owned()),
            _ => {
                options.extend(self.strategies().map(|strategy| format!("--device-name-strategy={strategy}")))
            }
        }
        let driver_root = self.driver_root();
        if let Some(root) = &driver_root {
            options.push(format!("--driver-root={root}"));
            // Else the device files are taken from there too.
            if self.edits().flat_map(Edits::nodes).all(|node| !node.host().starts_with(root.as_str())) {
                options.push("--dev-root=/".to_owned());
            }
        }
        let hooks = self.edits().flat_map(|edits| edits.hooks.iter().flatten());
        // The older of the two names of that option, which the newer programs know too.
        options.extend(hooks.map(|hook| format!("--nvidia-ctk-path={}", hook.path)).next());
        options
    }

    fn strategies(&self) -> impl Iterator<Item = &'static str> {
        let is = |of: fn(&str) -> bool| self.single().any(|device| of(&device.name));
        let index = |name: &str| name.starts_with(|c: char| c.is_ascii_digit());
        let type_index = |name: &str| {
            ["gpu", "mig"].iter().any(|word| {
                name.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            })
        };
        [("index", is(index)), ("type-index", is(type_index)), ("uuid", is(is_uuid))]
            .into_iter()
            .filter_map(|(strategy, is)| is.then_some(strategy))
    }

    /// Where the driver's files lie on the host, if not where containers find them.
    fn driver_root(&self) -> Option<String> {
        let mut mounts = self.edits().flat_map(|edits| edits.mounts.iter().flatten());
        mounts.find_map(|mount| {
            let root = mount.host_path.strip_suffix(mount.container_path.as_str())?;
            (root.len() > 1).then(|| root.to_owned())
        })
    }
}

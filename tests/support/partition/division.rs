//! How a GPU is divided, as the hardware has it.

use std::fmt;

use serde_json::Value;

/// The division of one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// MIG mode now.
    pub mode: bool,
    /// MIG mode after the next reset.
    pub pending: bool,
    /// GPU instances by where they lie.
    pub instances: Vec<Instance>,
}

/// A GPU instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Name of its profile.
    pub profile: String,
    /// The driver's number.
    pub id: u32,
    /// First unit.
    pub start: u32,
    /// Its compute instances by where they lie: name of the profile, first slice, UUID, number.
    pub computes: Vec<(String, u32, String, u32)>,
}

impl Division {
    /// Of a GPU in the simulator's state; absent where it cannot be divided.
    pub(super) fn of(gpu: &Value) -> Option<Self> {
        let mig = gpu.get("mig").filter(|mig| !mig.is_null())?;
        let profiles = &mig["profiles"];
        let mut instances: Vec<Instance> =
            list(&mig["instances"]).iter().map(|one| Instance::of(one, profiles)).collect();
        instances.sort_by_key(|instance| instance.start);
        let mode = |at: usize| mig["mode"][at].as_bool().unwrap();
        Some(Self { mode: mode(0), pending: mode(1), instances })
    }

    /// Profiles and first units; compute instances where they are not one that is the whole.
    ///
    /// What stays the same when all is destroyed and created again in its place.
    pub fn layout(&self) -> Vec<String> {
        self.instances.iter().map(ToString::to_string).collect()
    }

    /// Profiles and how many of each, in whatever place.
    pub fn profiles(&self) -> Vec<String> {
        let name = |instance: &Instance| {
            let told = instance.to_string();
            told.replacen(&format!("@{}", instance.start), "", 1)
        };
        let mut names: Vec<String> = self.instances.iter().map(name).collect();
        names.sort();
        names
    }

    /// UUIDs of the MIG devices: those that are not created again keep theirs.
    pub fn uuids(&self) -> Vec<String> {
        let computes = self.instances.iter().flat_map(|instance| &instance.computes);
        computes.map(|(_, _, uuid, _)| uuid.clone()).collect()
    }

    /// The instance at this unit.
    pub fn at(&self, start: u32) -> &Instance {
        let found = self.instances.iter().find(|instance| instance.start == start);
        found.unwrap_or_else(|| panic!("nothing begins at unit {start} of {:?}", self.layout()))
    }

    /// Whether mode and pending mode are the same.
    pub fn is_settled(&self) -> bool {
        self.mode == self.pending
    }
}

impl Instance {
    fn of(instance: &Value, profiles: &Value) -> Self {
        let profile = &profiles[instance["profile"].to_string()];
        let mut computes: Vec<(String, u32, String, u32)> = list(&instance["compute"])
            .iter()
            .map(|compute| {
                let name = &profile["compute"][compute["profile"].to_string()]["name"];
                (text(name), number(&compute["placement"][0]), text(&compute["uuid"]), number(&compute["id"]))
            })
            .collect();
        computes.sort_by_key(|(_, start, ..)| *start);
        Self {
            profile: text(&profile["name"]),
            id: number(&instance["id"]),
            start: number(&instance["placement"][0]),
            computes,
        }
    }

    /// `GI/CI` of its first compute instance, as `gpulet-sim hold --instance` takes it.
    pub fn device(&self) -> String {
        let (.., compute) = self.computes.first().expect("an instance without compute instance is no device");
        format!("{}/{compute}", self.id)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.profile, self.start)?;
        match self.computes.as_slice() {
            [(name, ..)] if *name == self.profile => Ok(()),
            computes => {
                let told: Vec<String> =
                    computes.iter().map(|(name, start, ..)| format!("{name}@{start}")).collect();
                write!(f, " [{}]", told.join(", "))
            }
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u32 {
    value.as_u64().unwrap().try_into().unwrap()
}

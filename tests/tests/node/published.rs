//! The NodeResourceTopology object of the node, as the API server has it.

use std::collections::BTreeMap;

use gpulet_tests::{Answers, ControlPlane, RealNode};
use serde_json::Value;

use crate::watched::Machine;

/// Where the object is.
pub(crate) fn path() -> String {
    format!("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/{}", RealNode::NAME)
}

/// What a scheduler reads of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Published {
    /// `available` of each zone of type `Node`: NUMA node, then resource.
    pub(crate) available: BTreeMap<u64, BTreeMap<String, u64>>,
    /// The whole object.
    pub(crate) object: Value,
}

impl Published {
    /// The object as it is now; nothing when there is none.
    pub(crate) fn read(plane: &ControlPlane) -> Option<Self> {
        let answer = plane.admin().try_get(&path()).filter(gpulet_tests::Answer::is_ok)?;
        let zones = answer.body["zones"].as_array().unwrap().iter().filter(|zone| zone["type"] == "Node");
        let available = zones.map(|zone| {
            let name = zone["name"].as_str().unwrap();
            let node = name.strip_prefix("node-").unwrap().parse().unwrap();
            let resources = zone["resources"].as_array().unwrap().iter();
            let amounts = resources.map(|resource| {
                let amount = resource["available"].as_str().unwrap().parse().unwrap();
                (resource["name"].as_str().unwrap().to_owned(), amount)
            });
            (node, amounts.collect())
        });
        Some(Self { available: available.collect(), object: answer.body.clone() })
    }

    /// The value of a top attribute.
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let attributes = self.object["attributes"].as_array()?;
        attributes.iter().find(|attribute| attribute["name"] == name)?["value"].as_str()
    }

    /// Whether every `available` is what the kubelet can give and has not given, by its own `answers`.
    pub(crate) fn agrees_with(&self, answers: &Answers, machine: &Machine) -> bool {
        self.available == left(answers, machine)
    }
}

/// What the kubelet has left, by its own answers: NUMA node, then resource.
pub(crate) fn left(answers: &Answers, machine: &Machine) -> BTreeMap<u64, BTreeMap<String, u64>> {
    let given = answers.given();
    let node = |(node, cpus): (&u64, &_)| {
        let amounts = machine.resources.iter().map(|resource| {
            let of = |holding: &gpulet_tests::Holding| holding.amount(resource, *node, cpus);
            (resource.clone(), of(&answers.allocatable) - of(&given))
        });
        (*node, amounts.collect())
    };
    machine.cpus.iter().map(node).collect()
}

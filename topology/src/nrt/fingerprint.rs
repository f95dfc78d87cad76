//! Which Pods an object knows of, in 64 bits.
//!
//! A scheduler that has just bound a Pod needs to know whether an object was made with that Pod in mind. It hashes the
//! Pods that it knows of, and compares (project `podfingerprint`, version 1 of its scheme).

use xxhash_rust::xxh64::xxh64;

/// What the text begins with: prefix and version.
const HEAD: &str = "pfp0v001";

/// The fingerprint of a set of Pods, each by its namespace and name. Their order does not count; a Pod that is named twice
/// counts twice. The empty set has one, too.
pub fn fingerprint<'a>(pods: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let hash = |(namespace, name): (&str, &str)| xxh64(name.as_bytes(), xxh64(namespace.as_bytes(), 0));
    let mut hashes: Vec<u64> = pods.into_iter().map(hash).collect();
    hashes.sort_unstable();
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    format!("{HEAD}{:016x}", xxh64(&bytes, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        let five = [("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2")];
        assert_eq!(fingerprint(five), "pfp0v001b92008c14168b3a6");
        let mut turned = five;
        turned.reverse();
        assert_eq!(fingerprint(turned), "pfp0v001b92008c14168b3a6");
        assert_eq!(fingerprint([]), "pfp0v001ef46db3751d8e999");
        let ten = [
            ("analytics", "controller-69dkj"),
            ("kube-public", "subscriber-tq6v7"),
            ("kube-public", "transformer-hfbng"),
            ("kube-public", "validator-c6pn5"),
            ("kube-system", "proxy-wszrd"),
            ("middleware", "processor-jkrl4"),
            ("network", "gateway-vsll5"),
            ("network", "importer-kzdfr"),
            ("network", "importer-q5vt9"),
            ("staging", "prometheus-bwgbn"),
        ];
        assert_eq!(fingerprint(ten), "pfp0v001567144e4a561bb5a");
    }

    #[test]
    fn a_pod_that_is_named_twice_counts_twice() {
        assert_ne!(fingerprint([("a", "b")]), fingerprint([("a", "b"), ("a", "b")]));
        assert_ne!(fingerprint([("a", "b")]), fingerprint([("b", "a")]));
    }
}

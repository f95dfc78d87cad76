use super::*;

fn named(of: Vec<ComputeProfile>) -> Vec<(u32, String, u32)> {
    of.into_iter().map(|own| (own.id, own.name, own.max_instances)).collect()
}

/// As `nvidia-smi mig -lcip` prints them of instances that exist (NVIDIA's MIG user guide).
#[test]
fn what_follows_from_slices_is_what_drivers_tell() {
    let expect = |of: &[(u32, &str, u32)]| -> Vec<(u32, String, u32)> {
        of.iter().map(|(id, name, most)| (*id, (*name).to_owned(), *most)).collect()
    };
    assert_eq!(named(derived("1g.5gb", 1)), expect(&[(0, "1g.5gb", 1)]));
    assert_eq!(named(derived("2g.10gb", 2)), expect(&[(0, "1c.2g.10gb", 2), (1, "2g.10gb", 1)]));
    assert_eq!(
        named(derived("3g.20gb", 3)),
        expect(&[(0, "1c.3g.20gb", 3), (1, "2c.3g.20gb", 1), (2, "3g.20gb", 1)])
    );
    assert_eq!(
        named(derived("4g.20gb", 4)),
        expect(&[(0, "1c.4g.20gb", 4), (1, "2c.4g.20gb", 2), (3, "4g.20gb", 1)])
    );
    assert_eq!(
        named(derived("7g.40gb", 7)),
        expect(&[
            (0, "1c.7g.40gb", 7),
            (1, "2c.7g.40gb", 3),
            (2, "3c.7g.40gb", 2),
            (3, "4c.7g.40gb", 1),
            (4, "7g.40gb", 1)
        ])
    );
    assert!(derived("0g", 0).is_empty());
}

/// Some GPUs offer the whole of a GPU instance twice, with other engines: one who asks for it means the plain one.
#[test]
fn kinds_that_differ_by_engines_are_not_offered() {
    let kind = |number, slices| (Kind { number, id: number, slices, most: 1 }, None);
    let told = [kind(3, 4), kind(4, 7), kind(7, 1), kind(8, 7)];
    assert_eq!(
        named(offered(&told, "7g.141gb", 7)),
        [(3, "4c.7g.141gb".to_owned(), 1), (4, "7g.141gb".to_owned(), 1)]
    );
}

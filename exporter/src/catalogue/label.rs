//! Labels: their names, and their values where those are fixed.

/// A label of a family.
#[derive(Debug)]
pub(crate) struct LabelName {
    pub(crate) name: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test writes"))]
    pub(crate) values: Values,
}

/// What a label's values can be. Where they are listed, the empty one may come too: there is no word to tell.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(test), expect(dead_code, reason = "for the documentation, which a test writes"))]
pub(crate) enum Values {
    /// Not fixed by this program.
    Any,
    /// One of these.
    Words(&'static [&'static str]),
    /// One of these, which are made from what the sampler uses.
    Listed(fn() -> Vec<&'static str>),
}

impl LabelName {
    /// A label whose values this program does not fix.
    pub(crate) const fn any(name: &'static str) -> Self {
        Self { name, values: Values::Any }
    }

    /// A label with one of `words`.
    pub(crate) const fn words(name: &'static str, words: &'static [&'static str]) -> Self {
        Self { name, values: Values::Words(words) }
    }

    /// A label with one of the words that `list` makes.
    pub(crate) const fn listed(name: &'static str, list: fn() -> Vec<&'static str>) -> Self {
        Self { name, values: Values::Listed(list) }
    }
}

#[cfg(test)]
impl LabelName {
    /// The values; absent where they are not fixed.
    pub(crate) fn fixed(&self) -> Option<Vec<&'static str>> {
        match self.values {
            Values::Any => None,
            Values::Words(words) => Some(words.to_vec()),
            Values::Listed(list) => Some(list()),
        }
    }
}

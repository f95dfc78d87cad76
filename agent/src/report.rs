//! An error and everything that led to it, in one line for people.

use std::error::Error;

/// The error's own words, then those of its causes, each once.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.ends_with(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open the box")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("the day is lost: {0}")]
    struct Repeating(#[source] Outer);

    #[test]
    fn causes_follow_and_none_is_told_twice() {
        let outer = || Outer(std::io::Error::other("it is nailed shut"));
        assert_eq!(chain(&outer()), "cannot open the box: it is nailed shut");
        assert_eq!(chain(&Repeating(outer())), "the day is lost: cannot open the box: it is nailed shut");
    }
}

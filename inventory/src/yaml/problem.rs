//! What is wrong with a document.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its line, from 1; 0 where it has none.
    pub line: u64,
    /// What is wrong and what was expected.
    pub message: String,
}

/// How many of the things that are wrong are told; the rest is counted.
const TOLD: usize = 50;

/// Everything that is wrong with a document: the first of it in words, the rest as a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    /// The first in the order of the document.
    pub first: Vec<Problem>,
    /// How many there are besides.
    pub more: usize,
}

impl Problems {
    /// Adds one. Keeps little more than what is told, however many there are.
    pub fn add(&mut self, problem: Problem) {
        self.first.push(problem);
        if self.first.len() >= 2 * TOLD {
            self.settle();
        }
    }

    /// Puts them in the order of the document.
    pub fn settle(&mut self) {
        self.first.sort_by_key(|problem| problem.line);
        self.more += self.first.len().saturating_sub(TOLD);
        self.first.truncate(TOLD);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.first.len() + self.more
    }

    /// All of them for people, a line each that begins with where it is: `name:line: message`.
    pub fn listed<'a>(&'a self, name: impl fmt::Display + 'a) -> impl fmt::Display + 'a {
        Listed { name, problems: self }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self { first: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    /// All of them in one line, for a status: `line 3: message; line 7: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { line, message }) in self.first.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "; " })?;
            if *line > 0 {
                write!(f, "line {line}: ")?;
            }
            f.write_str(message)?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for Problems {}

struct Listed<'a, N> {
    name: N,
    problems: &'a Problems,
}

impl<N: fmt::Display> fmt::Display for Listed<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Problem { line, message }) in self.problems.first.iter().enumerate() {
            let separator = if at == 0 { "" } else { "\n" };
            write!(f, "{separator}  {}:{line}: {message}", self.name)?;
        }
        match self.problems.more {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

//! Names of operators and operands.

use std::collections::{HashMap, HashSet};

/// The most characters of a name. Functions and loops repeat names, so that long ones would need much memory.
const MOST_CHARS: usize = 1000;

/// The names that are taken. Operators and operands share them, so that an operator can be called like its output.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The last number that was given to each name that is taken.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// Keeps names for what gets them later.
    pub(super) fn reserve<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.taken.extend(names.map(writable));
    }

    /// A name that is free and can be written: `wanted`, or `wanted.1` and so on.
    pub(super) fn free(&mut self, wanted: &str) -> String {
        let wanted = writable(wanted);
        if self.taken.insert(wanted.clone()) {
            return wanted;
        }
        // Trying all numbers for each name that a loop repeats would take too long.
        let number = self.numbers.entry(wanted.clone()).or_insert(0);
        loop {
            *number += 1;
            let name = format!("{wanted}.{number}");
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Marks a name as taken that an operand gets from the file.
    pub(super) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }
}

/// A name as a `.param` text can have it.
pub(super) fn writable(name: &str) -> String {
    if name.is_empty() {
        return "_".to_owned();
    }
    let kept = name.chars().take(MOST_CHARS);
    kept.map(|c| if c.is_whitespace() || c.is_control() || c == '=' { '_' } else { c }).collect()
}

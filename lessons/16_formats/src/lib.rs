//! Lesson 16: formats, tactics and the plan file.
//!
//! The page of the book: `book/src/lessons/16_formats.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::course::conversion::Conversion;
use ixion::course::header::{
    ENTRY, HEADER, Kind, MAGIC, ORDER, PAGE, Section, VERSION, WRITTEN_BY, aligned, long, number,
};
use ixion::course::probe::Combination;
use ixion::engine::selection::SupportedFormats;
use ixion::engine::{PlanFileProblem, TimingCache};
use ixion::graph::OperandIndex;
use ixion::op::TensorFormat;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

// Task 1: position by position.

/// The maximum number of combinations of one operator; further ones are not tried.
pub const MAX_COMBINATIONS: usize = 64;

/// The maximum number of questions about one operator: for one with many inputs that takes these in all formats, but no output,
/// probing would practically never end.
pub const MAX_QUESTIONS: usize = 10_000;

/// The result of probing an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Probe {
    /// The number of questions.
    pub asked: usize,
    /// The combinations that it takes, in the order in which they were found.
    pub found: Vec<Combination>,
    /// The formats that it supports, by position.
    pub answers: Vec<SupportedFormats>,
}

impl Probe {
    /// An empty result, with one position for each list of options.
    pub fn of(options: &[Combination]) -> Self {
        Self { answers: vec![SupportedFormats::default(); options.len()], ..Self::default() }
    }
}

/// Asks about the first position that is not decided, and about all after it if the answer is yes.
///
/// `options` are the formats that each position may have, the most natural one first. `takes(p, formats)` is the layer's
/// answer: may position `p` have `formats[p]`, given those before it? `formats` holds no positions after `p`. Once every
/// position is decided, the combination is recorded. `decided` is unchanged on return.
pub fn ask(
    options: &[Combination],
    takes: &dyn Fn(usize, &[TensorFormat]) -> bool,
    decided: &mut Combination,
    probe: &mut Probe,
) {
    todo!(
        "lesson 16, task 1: try each option of the next position in turn; after a yes recurse, after a no don't (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 2: reformats, priced and placed.

/// The maximum number of formats of a tensor for which all sets are tried.
pub const FEW: usize = 4;

/// The sets of formats in which a tensor may be available: all that are not empty, in the order of binary numbers whose
/// lowest bit is the first format. Few tensors are needed in more than three formats at a time; if there are more than
/// [`FEW`] formats, only sets of one and of two are tried.
pub fn sets(formats: &[TensorFormat]) -> Vec<Vec<TensorFormat>> {
    todo!(
        "lesson 16, task 2: each format doubles the sets: without it, and with it; the empty set is removed in the end (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The price of a tensor in all formats of a set, if it is produced in `made`: it is converted once from `made` to each of the
/// others, for any number of readers. Infinite for a set without `made`. `price` is the price of one conversion, from and to.
pub fn price_of_set(
    set: &[TensorFormat],
    made: &TensorFormat,
    price: &dyn Fn(&TensorFormat, &TensorFormat) -> f64,
) -> f64 {
    todo!(
        "lesson 16, task 2: infinite without `made`, else the sum of one conversion for each other format (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Records that a reader needs an operand, which is produced in `from`, in the format `to`. The reader is `None` if the model
/// returns the operand: then the conversion's `is_output` is set.
///
/// An operand that already has the right format needs no conversion, and all readers that need the same format share one.
pub fn want(
    found: &mut Vec<Conversion>,
    operand: OperandIndex,
    (from, to): (TensorFormat, TensorFormat),
    reader: Option<(usize, usize)>,
) {
    todo!(
        "lesson 16, task 2: nothing for equal formats; else find the conversion or add it, and add the reader to it (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 3: the cheapest assignment.

/// A price for every combination of options of a few variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The variables that it depends on, in ascending order.
    pub scope: Vec<usize>,
    /// A price for each combination, in row-major order: the options of the last variable are adjacent.
    pub prices: Vec<f64>,
}

/// The position of an assignment's entry in a table over the variables of `scope`.
///
/// `options` holds the number of options of every variable, `assignment` an option for each. The table is row-major: the
/// options of the last variable of the scope are adjacent.
pub fn entry_of(scope: &[usize], options: &[usize], assignment: &[usize]) -> usize {
    todo!(
        "lesson 16, task 3: as with the strides of a row-major array: times the length, plus the index, axis by axis (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Writes the options of an entry of a table over `scope` into `assignment`; other variables are left unchanged.
pub fn spread(entry: usize, scope: &[usize], options: &[usize], assignment: &mut [usize]) {
    todo!(
        "lesson 16, task 3: the inverse: the last variable is the remainder, and the quotient goes on (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The best response of a variable to each combination of options of the variables in `scope`: the lowest total price of
/// `terms`, and the first option that has it. Both lists are tables over `scope`, which holds all variables of the terms but
/// this one.
pub fn best_responses(
    options: &[usize],
    terms: &[Term],
    variable: usize,
    scope: &[usize],
) -> (Vec<f64>, Vec<usize>) {
    todo!(
        "lesson 16, task 3: for each entry of the table try every option of the variable, and keep the cheapest (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// A variable that was eliminated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Its position.
    pub variable: usize,
    /// The variables that its best option depends on, in ascending order. All of them were eliminated later.
    pub scope: Vec<usize>,
    /// Its best option for each combination of their options: a table over the scope.
    pub best: Vec<usize>,
}

/// An option for each variable, which were decided in this order.
pub fn unwind(options: &[usize], decided: &[Decided]) -> Vec<usize> {
    todo!(
        "lesson 16, task 3: from the last to the first, look up the best option given those that are already assigned (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Given: variables and terms, and the order of elimination.

impl Term {
    /// The price of an assignment, which holds an option for every variable.
    pub fn price(&self, options: &[usize], assignment: &[usize]) -> f64 {
        self.prices[entry_of(&self.scope, options, assignment)]
    }
}

/// Variables, and the prices of combinations of their options.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// The number of options of each variable.
    pub options: Vec<usize>,
    /// The terms, whose prices are added up.
    pub terms: Vec<Term>,
}

impl Choices {
    /// Adds a variable with a price for each option, of which there must be at least one. Returns its position.
    pub fn add(&mut self, prices: Vec<f64>) -> usize {
        let variable = self.options.len();
        self.options.push(prices.len());
        self.alone(variable, prices);
        variable
    }

    /// Adds another term for the options of one variable.
    pub fn alone(&mut self, variable: usize, prices: Vec<f64>) {
        self.terms.push(Term { scope: vec![variable], prices });
    }

    /// Adds a term for the options of two different variables together.
    pub fn pair(&mut self, a: usize, b: usize, price: impl Fn(usize, usize) -> f64) {
        let (first, second) = (a.min(b), a.max(b));
        let mut prices = Vec::with_capacity(self.options[first] * self.options[second]);
        for i in 0..self.options[first] {
            for j in 0..self.options[second] {
                prices.push(if a < b { price(i, j) } else { price(j, i) });
            }
        }
        self.terms.push(Term { scope: vec![first, second], prices });
    }

    /// The total price of an assignment.
    pub fn price(&self, assignment: &[usize]) -> f64 {
        self.terms.iter().map(|term| term.price(&self.options, assignment)).sum()
    }

    /// The positions of the terms of each variable.
    pub fn by_variable(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); self.options.len()];
        for (position, term) in self.terms.iter().enumerate() {
            term.scope.iter().for_each(|&variable| found[variable].push(position));
        }
        found
    }
}

/// The cheapest assignment, or nearly so if too many variables depend on each other. Deterministic. If every assignment is
/// forbidden, returns some assignment.
pub fn solve(choices: &Choices) -> Vec<usize> {
    let incumbent = improved(choices, greedy(choices));
    let mut elimination = Elimination::new(choices, &incumbent);
    while elimination.step() {}
    let found = unwind(&choices.options, elimination.decided());
    if choices.price(&found) <= choices.price(&incumbent) { found } else { incumbent }
}

/// Assigns the variables in order, each to its cheapest option given those before it.
pub fn greedy(choices: &Choices) -> Vec<usize> {
    let terms = choices.by_variable();
    let mut assignment = vec![0; choices.options.len()];
    for (variable, terms) in terms.iter().enumerate() {
        let decided = |&&term: &&usize| choices.terms[term].scope.iter().all(|&v| v <= variable);
        let known: Vec<usize> = terms.iter().filter(decided).copied().collect();
        set_best(choices, &known, variable, &mut assignment);
    }
    assignment
}

/// Local search: changes one variable at a time for as long as that lowers the price.
fn improved(choices: &Choices, mut assignment: Vec<usize>) -> Vec<usize> {
    /// Enough for choices to propagate along a network's branches; exactness does not depend on it.
    const ROUNDS: usize = 8;
    let terms = choices.by_variable();
    for _ in 0..ROUNDS {
        let before = assignment.clone();
        for (variable, terms) in terms.iter().enumerate() {
            set_best(choices, terms, variable, &mut assignment);
        }
        if assignment == before {
            break;
        }
    }
    assignment
}

/// Sets a variable to its cheapest option in these terms; of equals, the current one or else the first.
fn set_best(choices: &Choices, terms: &[usize], variable: usize, assignment: &mut [usize]) {
    let price = |assignment: &[usize]| -> f64 {
        terms.iter().map(|&term| choices.terms[term].price(&choices.options, assignment)).sum()
    };
    let (mut best, mut least) = (assignment[variable], price(assignment));
    for option in 0..choices.options[variable] {
        assignment[variable] = option;
        let found = price(assignment);
        if found < least {
            (best, least) = (option, found);
        }
    }
    assignment[variable] = best;
}

/// The maximum number of entries of a table.
const MAX_TABLE_ENTRIES: usize = 1 << 13;

/// The variables that are left, and the decisions about the others.
#[derive(Debug)]
pub struct Elimination<'a> {
    options: Vec<usize>,
    incumbent: &'a [usize],
    /// The terms that are still in use, by position; others are `None`.
    terms: Vec<Option<Term>>,
    /// The positions of the terms of each variable.
    of_variable: Vec<Vec<usize>>,
    /// The variables that are left, each preceded by the size of the table that eliminating it takes.
    left: BTreeSet<(usize, usize)>,
    table_lens: Vec<usize>,
    /// In the order of elimination.
    decided: Vec<Decided>,
}

impl<'a> Elimination<'a> {
    /// Starts with all variables left, and with a known assignment, the incumbent.
    pub fn new(choices: &Choices, incumbent: &'a [usize]) -> Self {
        let count = choices.options.len();
        let mut elimination = Self {
            options: choices.options.clone(),
            incumbent,
            terms: choices.terms.iter().cloned().map(Some).collect(),
            of_variable: choices.by_variable(),
            left: (0..count).map(|variable| (0, variable)).collect(),
            table_lens: vec![0; count],
            decided: Vec::new(),
        };
        (0..count).for_each(|variable| elimination.measure(variable));
        elimination
    }

    /// The variables that are decided, in the order of elimination.
    pub fn decided(&self) -> &[Decided] {
        &self.decided
    }

    /// Decides one more variable. Returns false if none is left.
    pub fn step(&mut self) -> bool {
        let Some(&(entries, variable)) = self.left.first() else { return false };
        if entries <= MAX_TABLE_ENTRIES {
            self.eliminate(variable);
        } else {
            let count =
                |&(_, variable): &(usize, usize)| (self.neighbours(variable).len(), Reverse(variable));
            let busiest = self.left.iter().copied().max_by_key(count);
            self.fix(busiest.map_or(variable, |found| found.1));
        }
        true
    }

    /// Updates the size of the table that eliminating a variable takes.
    fn measure(&mut self, variable: usize) {
        let len = self.table_len(variable);
        let known = std::mem::replace(&mut self.table_lens[variable], len);
        if self.left.remove(&(known, variable)) {
            self.left.insert((len, variable));
        }
    }

    /// Records the decision about a variable, which depends on the options of those in the scope.
    fn decide(&mut self, variable: usize, scope: Vec<usize>, best: Vec<usize>) {
        self.left.remove(&(self.table_lens[variable], variable));
        self.decided.push(Decided { variable, scope, best });
    }

    /// The variables that share a term with this one.
    fn neighbours(&self, variable: usize) -> Vec<usize> {
        let terms = self.of_variable[variable].iter().filter_map(|&term| self.terms[term].as_ref());
        let mut found: Vec<usize> = terms.flat_map(|term| term.scope.iter().copied()).collect();
        found.sort_unstable();
        found.dedup();
        found.retain(|other| *other != variable);
        found
    }

    /// The number of prices that eliminating a variable looks at.
    fn table_len(&self, variable: usize) -> usize {
        let sizes = self.neighbours(variable).into_iter().chain([variable]).map(|v| self.options[v]);
        sizes.fold(1, usize::saturating_mul)
    }

    /// Replaces a variable by its best responses.
    fn eliminate(&mut self, variable: usize) {
        let scope = self.neighbours(variable);
        let terms = self.take_terms(variable);
        let (prices, best) = best_responses(&self.options, &terms, variable, &scope);
        if !scope.is_empty() {
            self.push_term(Term { scope: scope.clone(), prices });
        }
        scope.iter().for_each(|&other| self.measure(other));
        self.decide(variable, scope, best);
    }

    /// Fixes a variable to its option in the incumbent.
    fn fix(&mut self, variable: usize) {
        let (option, neighbours) = (self.incumbent[variable], self.neighbours(variable));
        for mut term in self.take_terms(variable) {
            let Some(axis) = term.scope.iter().position(|&v| v == variable) else { continue };
            let inner: usize = term.scope[axis + 1..].iter().map(|&v| self.options[v]).product();
            let len = self.options[variable];
            let rows = term.prices.chunks(inner * len);
            term.prices =
                rows.flat_map(|row| row[option * inner..(option + 1) * inner].iter().copied()).collect();
            term.scope.remove(axis);
            if !term.scope.is_empty() {
                self.push_term(term);
            }
        }
        neighbours.iter().for_each(|&other| self.measure(other));
        self.decide(variable, Vec::new(), vec![option]);
    }

    fn take_terms(&mut self, variable: usize) -> Vec<Term> {
        let positions = std::mem::take(&mut self.of_variable[variable]);
        let terms: Vec<Term> = positions.iter().filter_map(|&term| self.terms[term].take()).collect();
        for other in terms.iter().flat_map(|term| term.scope.iter().copied()) {
            self.of_variable[other].retain(|term| !positions.contains(term));
        }
        terms
    }

    fn push_term(&mut self, term: Term) {
        let position = self.terms.len();
        term.scope.iter().for_each(|&variable| self.of_variable[variable].push(position));
        self.terms.push(Some(term));
    }
}

// Task 4: a stopwatch with a memory.

/// The limits on the runs of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// No run starts once all runs together took longer than this; a slow candidate still gets its `least` runs.
    pub enough: Duration,
    /// The minimum number of runs.
    pub least: usize,
    /// The maximum number of runs.
    pub most: usize,
}

/// The budget of a layer. The first run warms up the caches, so there are at least two.
pub const OF_A_LAYER: Budget = Budget { enough: Duration::from_millis(8), least: 2, most: 100 };

/// The time of the fastest of several runs; [`Duration::MAX`] if there are no runs. `run` runs once and returns the time it
/// took.
///
/// # Errors
/// Returns the first error of a run. Nothing runs after it.
pub fn fastest<E>(budget: &Budget, run: &mut dyn FnMut() -> Result<Duration, E>) -> Result<Duration, E> {
    todo!(
        "lesson 16, task 4: run, add up, keep the smallest; stop at `most`, or with enough spent once `least` is reached (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Returns the cached nanoseconds of a key on a device, or else the result of `measure`, which is then cached unless it is
/// `None`. The cache is not locked while `measure` runs.
///
/// # Errors
/// Returns the error of `measure`.
pub fn known_or<E>(
    cache: &Mutex<TimingCache>,
    device: &str,
    key: &str,
    measure: &mut dyn FnMut() -> Result<Option<f64>, E>,
) -> Result<Option<f64>, E> {
    todo!(
        "lesson 16, task 4: look it up, release the lock, measure, and cache the result (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Nanoseconds, by the key of what was measured.
pub type Timings = BTreeMap<String, f64>;

/// The timings of each device, by its name.
pub type Devices = BTreeMap<String, Timings>;

/// The contents of the file.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingsFile {
    /// The version of keys and times.
    pub version: u32,
    /// The timings.
    pub devices: Devices,
}

/// The version of keys and times. Files with another version are ignored.
pub const CACHE_VERSION: u32 = 1;

/// Parses the text of a cache, and drops times that are negative, infinite or NaN.
///
/// # Errors
/// Returns the reason if the text is not a cache or has another [`CACHE_VERSION`]. The caller then measures everything again.
pub fn usable(text: &[u8]) -> Result<TimingsFile, String> {
    todo!(
        "lesson 16, task 4: parse the JSON, refuse another version, drop what cannot be a time (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 5: the first page of a plan.

/// The entry of a section in the index: [`ENTRY`] bytes, which are its kind and checksum, four bytes each, and its offset and
/// length, eight bytes each.
pub fn entry(section: &Section) -> Vec<u8> {
    todo!(
        "lesson 16, task 5: four numbers in little-endian order, one after the other (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The first page, for these sections in the order of the file: header, index, and zeros up to [`PAGE`]. `None` if they do not
/// fit.
pub fn encode(sections: &[Section], written_by: &str) -> Option<Vec<u8>> {
    todo!(
        "lesson 16, task 5: field by field as the table says, with a checksum of the index, and then one of the header (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 6: reading what may be damaged.

/// Verifies the checksum of bytes.
///
/// # Errors
/// [`PlanFileProblem::Checksum`] with `what` if it does not match.
pub fn checked(what: &str, bytes: &[u8], wanted: u32) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: the same number, or an error with both (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Checks the header of a file of `length` bytes; `page` is its first [`PAGE`] bytes, or the whole file if it is shorter.
///
/// # Errors
/// In this order: [`NotAPlan`](PlanFileProblem::NotAPlan), [`Version`](PlanFileProblem::Version), a file without a complete
/// header ([`Length`](PlanFileProblem::Length), with a page as the wanted length), [`Checksum`](PlanFileProblem::Checksum) of
/// "the header", [`Flags`](PlanFileProblem::Flags) that are not 0, [`ByteOrder`](PlanFileProblem::ByteOrder), and a length
/// other than the one in the header ([`Length`](PlanFileProblem::Length)).
pub fn check_header(page: &[u8], length: u64) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: check what it is before what it says, and trust nothing before its checksum (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Checks the places of sections in a file of `length` bytes.
///
/// # Errors
/// [`PlanFileProblem::Index`] if a kind occurs twice, if a section does not begin at the first multiple of [`PAGE`] after the
/// previous one (the first one at [`PAGE`]), if the last one does not end the file, or if a required kind is missing.
pub fn check_places(sections: &[Section], length: u64) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: go through the sections, and track where the next one must begin (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Given: the whole page.

/// The contents of the first page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of the program that wrote the file.
    pub written_by: String,
    /// The sections, in the order of the file.
    pub sections: Vec<Section>,
}

/// Decodes the first page of a file of `length` bytes; `page` is shorter if the file is.
///
/// # Errors
/// As [`check_header`] and [`check_places`]. Also returns an error if the index is damaged.
pub fn decode(page: &[u8], length: u64) -> Result<Header, PlanFileProblem> {
    check_header(page, length)?;
    let sections: Result<Vec<Section>, PlanFileProblem> =
        index(page)?.chunks_exact(ENTRY).map(section).collect();
    let sections = sections?;
    check_places(&sections, length)?;
    let written_by = page.get(32..32 + WRITTEN_BY).unwrap_or_default();
    let written_by = String::from_utf8_lossy(written_by).trim_end_matches('\0').to_owned();
    Ok(Header { written_by, sections })
}

/// The index of a page with a valid header, followed by nothing but zeros.
fn index(page: &[u8]) -> Result<&[u8], PlanFileProblem> {
    let field = |at| number(page, at).unwrap_or_default();
    let bytes = usize::try_from(field(20)).ok().and_then(|count| count.checked_mul(ENTRY));
    let rest = page.get(HEADER..).unwrap_or_default();
    let (index, zeros) = bytes
        .and_then(|bytes| rest.split_at_checked(bytes))
        .ok_or_else(|| PlanFileProblem::Index(format!("{} sections do not fit in it", field(20))))?;
    checked("the index", index, field(56))?;
    match zeros.iter().all(|&byte| byte == 0) {
        true => Ok(index),
        false => Err(PlanFileProblem::Index("unexpected data after it".to_owned())),
    }
}

/// The section of an entry.
fn section(entry: &[u8]) -> Result<Section, PlanFileProblem> {
    let (field, long) =
        (|at| number(entry, at).unwrap_or_default(), |at| long(entry, at).unwrap_or_default());
    let unknown = || PlanFileProblem::Index(format!("unknown section kind {}", field(0)));
    let kind = Kind::of(field(0)).ok_or_else(unknown)?;
    Ok(Section { kind, crc32: field(4), offset: long(8), length: long(16) })
}

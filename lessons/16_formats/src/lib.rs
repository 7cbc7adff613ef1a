//! Lesson 16: formats, tactics and the plan file.
//!
//! The page of the book: `book/src/lessons/16_formats.md`. Replace each `todo!` by code. This is the only file to edit.

use ixion::engine::file::header::{
    ENTRY, HEADER, Kind, MAGIC, ORDER, PAGE, Section, VERSION, WRITTEN_BY, aligned, long, number,
};
use ixion::engine::formats::Answers;
use ixion::engine::formats::conversion::Conversion;
use ixion::engine::formats::survey::Combination;
use ixion::engine::{PlanFileProblem, TimingCache};
use ixion::graph::OperandIndex;
use ixion::op::TensorFormat;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

// Task 1: position by position.

/// The most combinations of one operator; those that follow are not looked at.
pub const MOST: usize = 64;

/// The most questions about one operator: one with many inputs that takes all of them in every way, but not its outputs, would
/// be asked for ever.
pub const MOST_QUESTIONS: usize = 10_000;

/// What came out of asking an operator.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// How many questions there were.
    pub asked: usize,
    /// The combinations that it takes, in the order in which they were found.
    pub found: Vec<Combination>,
    /// What it answered, by position.
    pub answers: Vec<Answers>,
}

impl Survey {
    /// One in which nothing was asked yet, about as many positions as there are lists of options.
    pub fn of(options: &[Combination]) -> Self {
        Self { answers: vec![Answers::default(); options.len()], ..Self::default() }
    }
}

/// Asks about the position behind those that are decided, and about all that follow where the answer is yes.
///
/// `options` are the formats that each position may have, the most natural one first. `takes(p, formats)` is the layer's answer:
/// may position `p` have `formats[p]`, given those before it? `formats` never holds more than that. Where every position is decided,
/// the combination is noted. `decided` is in the end as it was.
pub fn ask(
    options: &[Combination],
    takes: &dyn Fn(usize, &[TensorFormat]) -> bool,
    decided: &mut Combination,
    survey: &mut Survey,
) {
    todo!(
        "lesson 16, task 1: each option of the next position in turn; beyond a yes ask on, beyond a no don't (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 2: reformats, priced and placed.

/// The most formats of a tensor of which all sets are tried.
pub const FEW: usize = 4;

/// The sets of formats in which a tensor may be there: every one that is not empty, in the order of binary numbers, where the first
/// format is the lowest bit. Few tensors are wanted in more than three formats at a time; where there are more than [`FEW`]
/// formats, sets of one and of two are all that is tried.
pub fn sets(formats: &[TensorFormat]) -> Vec<Vec<TensorFormat>> {
    todo!(
        "lesson 16, task 2: each format doubles what there is: without it, and with it; the empty set goes in the end (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// What it costs to have a tensor in all formats of a set, if it is made in `made`: each of the others is brought from that one,
/// once, for as many readers as there are. A set without `made` cannot be: ∞. `price` is that of one conversion, from and to.
pub fn price_of_set(
    set: &[TensorFormat],
    made: &TensorFormat,
    price: &dyn Fn(&TensorFormat, &TensorFormat) -> f64,
) -> f64 {
    todo!(
        "lesson 16, task 2: infinite without `made`, else the sum of one conversion for each other format (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Notes that a reader wants an operand, which is made in `from`, in the format `to`. The reader is `None` where the
/// model returns it: then the conversion's `is_output` is set.
///
/// What is there already in the right format needs no conversion, and a conversion that another reader asked for serves this one as
/// well.
pub fn want(
    found: &mut Vec<Conversion>,
    operand: OperandIndex,
    (from, to): (TensorFormat, TensorFormat),
    reader: Option<(usize, usize)>,
) {
    todo!(
        "lesson 16, task 2: nothing for equal formats; else find the conversion or add it, and put the reader down (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 3: the cheapest agreement.

/// A price for every combination of options of a few variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The variables that it depends on, in ascending order.
    pub scope: Vec<usize>,
    /// A price for each combination, in row-major order: the options of the last variable follow each other.
    pub prices: Vec<f64>,
}

/// Where in a table over the variables of `scope` the entry of an assignment stands.
///
/// `options` holds the number of options of each variable there is, `assignment` an option for each. The table is row-major: the
/// options of the last variable of the scope follow each other.
pub fn entry_of(scope: &[usize], options: &[usize], assignment: &[usize]) -> usize {
    todo!(
        "lesson 16, task 3: as with the strides of a row-major array: times the length, plus the place, axis by axis (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Writes into `assignment` the options that an entry of a table over `scope` stands for; it leaves other variables alone.
pub fn spread(entry: usize, scope: &[usize], options: &[usize], assignment: &mut [usize]) {
    todo!(
        "lesson 16, task 3: the way back: the last variable is the remainder, and the quotient goes on (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The best that a variable can do for each combination of options of the variables in `scope`: the least price of all `terms`
/// together, and the option that has it, of equals the first. Both lists are tables over `scope`, which holds all variables of
/// the terms but this one.
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
    /// Its number.
    pub variable: usize,
    /// Whose options decide, in ascending order. All of them were eliminated later.
    pub scope: Vec<usize>,
    /// Its best option for each combination of theirs: a table over the scope.
    pub best: Vec<usize>,
}

/// An option for each variable, of those that were decided in this order.
pub fn unwind(options: &[usize], decided: &[Decided]) -> Vec<usize> {
    todo!(
        "lesson 16, task 3: from the last to the first, each looks up its best option for what others have (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Given: variables and terms, and who is eliminated when.

impl Term {
    /// The price of this combination; `assignment` holds an option for each variable there is.
    pub fn price(&self, options: &[usize], assignment: &[usize]) -> f64 {
        self.prices[entry_of(&self.scope, options, assignment)]
    }
}

/// Variables, and what combinations of their options cost.
#[derive(Debug, Clone, Default)]
pub struct Choices {
    /// How many options each variable has.
    pub options: Vec<usize>,
    /// What is added up.
    pub terms: Vec<Term>,
}

impl Choices {
    /// Adds a variable with a price for each option; there must be at least one. Returns its number.
    pub fn add(&mut self, prices: Vec<f64>) -> usize {
        let variable = self.options.len();
        self.options.push(prices.len());
        self.alone(variable, prices);
        variable
    }

    /// Prices the options of a variable once more.
    pub fn alone(&mut self, variable: usize, prices: Vec<f64>) {
        self.terms.push(Term { scope: vec![variable], prices });
    }

    /// Prices the options of two different variables together.
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

    /// What an assignment costs.
    pub fn price(&self, assignment: &[usize]) -> f64 {
        self.terms.iter().map(|term| term.price(&self.options, assignment)).sum()
    }

    /// The terms of each variable, by their positions.
    pub fn by_variable(&self) -> Vec<Vec<usize>> {
        let mut found = vec![Vec::new(); self.options.len()];
        for (position, term) in self.terms.iter().enumerate() {
            term.scope.iter().for_each(|&variable| found[variable].push(position));
        }
        found
    }
}

/// The cheapest assignment, or nearly so where too much depends on too much; the same for the same choices. Where every
/// assignment is forbidden, some assignment.
pub fn solve(choices: &Choices) -> Vec<usize> {
    let incumbent = improved(choices, greedy(choices));
    let mut elimination = Elimination::new(choices, &incumbent);
    while elimination.step() {}
    let found = unwind(&choices.options, elimination.decided());
    if choices.price(&found) <= choices.price(&incumbent) { found } else { incumbent }
}

/// One variable after the other takes what is cheapest given those before it.
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

/// Local search: changes one variable at a time for as long as that helps.
fn improved(choices: &Choices, mut assignment: Vec<usize>) -> Vec<usize> {
    /// Enough for choices to travel along a network's branches; exactness does not depend on it.
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

/// Gives a variable its cheapest option in these terms; of equals what it has, else the first.
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

/// The most entries that a table may have.
const MOST_ENTRIES: usize = 1 << 13;

/// The variables that are left, and what was decided of the others.
#[derive(Debug)]
pub struct Elimination<'a> {
    options: Vec<usize>,
    incumbent: &'a [usize],
    /// Terms that are still in use, by position; others are empty.
    terms: Vec<Option<Term>>,
    /// Positions of terms by variable.
    of_variable: Vec<Vec<usize>>,
    /// The variables that are left, each behind the size of the table that eliminating it takes.
    left: BTreeSet<(usize, usize)>,
    table_lens: Vec<usize>,
    /// In the order of elimination.
    decided: Vec<Decided>,
}

impl<'a> Elimination<'a> {
    /// With all variables left, and what each has in an assignment that is known.
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

    /// The variables that are decided, in their order.
    pub fn decided(&self) -> &[Decided] {
        &self.decided
    }

    /// Decides one more variable. False when none is left.
    pub fn step(&mut self) -> bool {
        let Some(&(entries, variable)) = self.left.first() else { return false };
        if entries <= MOST_ENTRIES {
            self.eliminate(variable);
        } else {
            let count =
                |&(_, variable): &(usize, usize)| (self.neighbours(variable).len(), Reverse(variable));
            let busiest = self.left.iter().copied().max_by_key(count);
            self.fix(busiest.map_or(variable, |found| found.1));
        }
        true
    }

    /// Notes how large a table eliminating a variable would take.
    fn measure(&mut self, variable: usize) {
        let len = self.table_len(variable);
        let known = std::mem::replace(&mut self.table_lens[variable], len);
        if self.left.remove(&(known, variable)) {
            self.left.insert((len, variable));
        }
    }

    /// Notes that a variable is decided, by the choices of those in the scope.
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

    /// How many prices have to be looked at to eliminate a variable.
    fn table_len(&self, variable: usize) -> usize {
        let sizes = self.neighbours(variable).into_iter().chain([variable]).map(|v| self.options[v]);
        sizes.fold(1, usize::saturating_mul)
    }

    /// Replaces a variable by the best that it can do.
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

    /// Gives a variable the option of the incumbent.
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

/// How often a candidate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// No run begins when all runs together took longer than this; but a slow candidate has its `least` all the same.
    pub enough: Duration,
    /// So many runs at least.
    pub least: usize,
    /// So many runs at most.
    pub most: usize,
}

/// What a layer gets. The first run warms the caches up; so a second one is the least.
pub const OF_A_LAYER: Budget = Budget { enough: Duration::from_millis(8), least: 2, most: 100 };

/// The time of the fastest of several runs; [`Duration::MAX`] where there is none at all. `run` runs once and says how long that
/// took.
///
/// # Errors
/// The first error of a run. Nothing runs after it.
pub fn fastest<E>(budget: &Budget, run: &mut dyn FnMut() -> Result<Duration, E>) -> Result<Duration, E> {
    todo!(
        "lesson 16, task 4: run, add up, keep the smallest; stop at `most`, or with enough spent once `least` is reached (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The nanoseconds that are kept under this key for this device; else what `measure` finds, which is then kept. None is no time, and
/// nothing to keep. The cache isn't locked while something is measured.
///
/// # Errors
/// That of `measure`.
pub fn known_or<E>(
    cache: &Mutex<TimingCache>,
    device: &str,
    key: &str,
    measure: &mut dyn FnMut() -> Result<Option<f64>, E>,
) -> Result<Option<f64>, E> {
    todo!(
        "lesson 16, task 4: look it up, let go of the lock, measure, and keep what was found (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Nanoseconds by what was measured.
pub type Timings = BTreeMap<String, f64>;

/// What was measured, by the device.
pub type Devices = BTreeMap<String, Timings>;

/// The file.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The version of keys and times.
    pub version: u32,
    /// What was measured.
    pub devices: Devices,
}

/// The version of keys and times: of others nothing is used.
pub const CACHE_VERSION: u32 = 1;

/// What the text of a cache holds, without times that nobody can have measured: negative ones, and those that are no numbers.
///
/// # Errors
/// A text that is no cache, or one of another [`CACHE_VERSION`], with the reason. Whoever asked measures anew.
pub fn usable(text: &[u8]) -> Result<Stored, String> {
    todo!(
        "lesson 16, task 4: parse the JSON, refuse another version, drop what cannot be a time (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 5: the first page of a plan.

/// The entry of a section in the index: [`ENTRY`] bytes, which are its kind and checksum, four bytes each, and its offset and length,
/// eight bytes each.
pub fn entry(section: &Section) -> Vec<u8> {
    todo!(
        "lesson 16, task 5: four numbers in little-endian order, one behind the other (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// The first page, for these sections in the order of the file: header, index, and zeros up to [`PAGE`]. None when they do not fit.
pub fn encode(sections: &[Section], written_by: &str) -> Option<Vec<u8>> {
    todo!(
        "lesson 16, task 5: field by field as the table says, with a checksum of the index, and then one of the header (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Task 6: reading what may be damaged.

/// Compares bytes with their checksum.
///
/// # Errors
/// [`PlanFileProblem::Checksum`] with `what`.
pub fn checked(what: &str, bytes: &[u8], wanted: u32) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: the same number, or an error with both (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Checks the header of a file of `length` bytes; `page` is its first [`PAGE`] bytes, or all that there are.
///
/// # Errors
/// In this order: [`NotAPlan`](PlanFileProblem::NotAPlan), [`Version`](PlanFileProblem::Version), a file without a whole header
/// ([`Length`](PlanFileProblem::Length), where a page is wanted), [`Checksum`](PlanFileProblem::Checksum) of "the header",
/// [`Flags`](PlanFileProblem::Flags) that are not 0, [`ByteOrder`](PlanFileProblem::ByteOrder), and a length that is not the one
/// that the header names ([`Length`](PlanFileProblem::Length)).
pub fn check_header(page: &[u8], length: u64) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: what it is before what it says, and nothing is believed before its checksum (book chapter 16; stuck? cargo learn hint 16)"
    )
}

/// Checks that sections are where they must be, in a file of `length` bytes.
///
/// # Errors
/// [`PlanFileProblem::Index`]: a kind that is there twice; a section that does not begin at the first multiple of [`PAGE`] behind the one
/// before (the first one at [`PAGE`]); a last one that does not end the file; a kind that is required and missing.
pub fn check_places(sections: &[Section], length: u64) -> Result<(), PlanFileProblem> {
    todo!(
        "lesson 16, task 6: go along the sections, and know where the next one must begin (book chapter 16; stuck? cargo learn hint 16)"
    )
}

// Given: the whole page.

/// What the first page says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The version of the program that wrote the file.
    pub written_by: String,
    /// The sections, in the order of the file.
    pub sections: Vec<Section>,
}

/// Reads the first page of a file of `length` bytes; `page` is shorter where the file is.
///
/// # Errors
/// As [`check_header`]; an index that is damaged, or that lists what cannot be, as [`check_places`] finds.
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

/// The index of a page whose header is sound, with nothing but zeros behind it.
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
        false => Err(PlanFileProblem::Index("something stands behind it".to_owned())),
    }
}

/// The section of an entry.
fn section(entry: &[u8]) -> Result<Section, PlanFileProblem> {
    let (field, long) =
        (|at| number(entry, at).unwrap_or_default(), |at| long(entry, at).unwrap_or_default());
    let unknown =
        || PlanFileProblem::Index(format!("there is a section of kind {}, which nobody knows", field(0)));
    let kind = Kind::of(field(0)).ok_or_else(unknown)?;
    Ok(Section { kind, crc32: field(4), offset: long(8), length: long(16) })
}

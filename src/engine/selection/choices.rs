//! Variables with a few options each, and the prices of combinations of their options.

// ANCHOR: tables
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
    // ANCHOR: entry_of_todo -- task 3: as with the strides of a row-major array: times the length, plus the index, axis by axis
    scope.iter().fold(0, |entry, &variable| entry * options[variable] + assignment[variable])
    // ANCHOR_END: entry_of_todo
}

/// Writes the options of an entry of a table over `scope` into `assignment`; other variables are left unchanged.
pub fn spread(entry: usize, scope: &[usize], options: &[usize], assignment: &mut [usize]) {
    // ANCHOR: spread_todo -- task 3: the inverse: the last variable is the remainder, and the quotient goes on
    let mut rest = entry;
    for &variable in scope.iter().rev() {
        assignment[variable] = rest % options[variable];
        rest /= options[variable];
    }
    // ANCHOR_END: spread_todo
}
// ANCHOR_END: tables

// ANCHOR: choices
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
// ANCHOR_END: choices

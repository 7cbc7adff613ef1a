//! The requirements of each task of lesson 16.

mod page;
mod real;
mod times;

use super::subject::{
    Choices, Decided, MAX_COMBINATIONS, MAX_QUESTIONS, Probe, Term, ask, best_responses, entry_of, greedy,
    price_of_set, sets, solve, spread, unwind, want,
};
use ixion::course::conversion::Conversion;
use ixion::course::probe::Combination;
use ixion::graph::OperandIndex;
use ixion::op::TensorFormat;
use ixion::tensor::DType;
use std::cell::RefCell;

/// Row-major f32.
fn plain() -> TensorFormat {
    TensorFormat::plain(DType::F32)
}

/// f32 with channels in blocks of 16, and of 8.
fn by16() -> TensorFormat {
    plain().blocked(1, 16)
}

fn by8() -> TensorFormat {
    plain().blocked(1, 8)
}

fn list(formats: &[TensorFormat]) -> Combination {
    formats.iter().copied().collect()
}

/// Probes positions that may all have these formats.
fn probed(
    positions: usize,
    formats: &[TensorFormat],
    takes: &dyn Fn(usize, &[TensorFormat]) -> bool,
) -> Probe {
    let options = vec![list(formats); positions];
    let mut probe = Probe::of(&options);
    let mut decided = Combination::new();
    ask(&options, takes, &mut decided, &mut probe);
    assert!(
        decided.is_empty(),
        "`decided` must be the same at the end as at the beginning: remove what you try"
    );
    probe
}

#[test]
fn task1_nothing_is_asked_after_a_no() {
    let questions = RefCell::new(Vec::new());
    let takes = |position: usize, formats: &[TensorFormat]| {
        questions.borrow_mut().push((position, formats.to_vec()));
        formats[0] == plain()
    };
    let probe = probed(2, &[plain(), by16()], &takes);
    let want =
        vec![(0, vec![plain()]), (1, vec![plain(), plain()]), (1, vec![plain(), by16()]), (0, vec![by16()])];
    let hint = "position 0 rejects `f32 16c`, so there is no need to ask about position 1 with it";
    assert_eq!(questions.into_inner(), want, "{hint}");
    assert_eq!(probe.asked, 4, "each question counts");
    assert_eq!(
        probe.found,
        [list(&[plain(), plain()]), list(&[plain(), by16()])],
        "two combinations are taken"
    );
}

#[test]
fn task1_an_answer_depends_on_the_positions_before() {
    let takes = |position: usize, formats: &[TensorFormat]| {
        assert_eq!(formats.len(), position + 1, "a layer sees the position in question, and those before");
        formats[position] == formats[0]
    };
    let probe = probed(3, &[plain(), by16(), by8()], &takes);
    let all = |format| list(&[format; 3]);
    let hint =
        "a layer that requires one format everywhere has a combination for each, in the order of the options";
    assert_eq!(probe.found, [all(plain()), all(by16()), all(by8())], "{hint}");
}

#[test]
fn task1_answers_are_noted_by_position() {
    let takes = |position: usize, formats: &[TensorFormat]| match position {
        0 => formats[0] != by8(),
        _ => formats[0] == by16() && formats[1] == by16(),
    };
    let probe = probed(2, &[plain(), by16(), by8()], &takes);
    let [first, second] = &probe.answers[..] else { panic!("there is a list of answers for each position") };
    assert_eq!((&first.taken[..], &first.refused[..]), (&[plain(), by16()][..], &[by8()][..]), "position 0");
    let hint = "position 1 took `f32 16c` once, although it had rejected it before: taken once is taken";
    assert_eq!((&second.taken[..], &second.refused[..]), (&[by16()][..], &[plain(), by8()][..]), "{hint}");
}

#[test]
fn task1_a_layer_without_tensors_has_one_combination() {
    let probe = probed(0, &[plain()], &|_, _| panic!("there is nothing to ask about"));
    assert_eq!(probe.found, [Combination::new()], "with no positions, everything is decided from the start");
}

#[test]
fn task1_the_walk_ends() {
    let probe = probed(10, &[plain(), by16(), by8()], &|_, _| true);
    assert_eq!(
        probe.found.len(),
        MAX_COMBINATIONS,
        "3¹⁰ combinations are too many: stop at `MAX_COMBINATIONS`"
    );
    let probe = probed(10, &[plain(), by16(), by8()], &|position, _| position < 9);
    assert_eq!(probe.asked, MAX_QUESTIONS, "nothing was found, but the questions must end nevertheless");
    assert!(probe.found.is_empty(), "the last position took nothing");
}

#[test]
fn task2_sets_are_binary_numbers() {
    let (a, b, c) = (plain(), by16(), by8());
    let want = vec![vec![a], vec![b], vec![a, b], vec![c], vec![a, c], vec![b, c], vec![a, b, c]];
    assert_eq!(
        sets(&[a, b, c]),
        want,
        "a is 1, b is 2, c is 4; 0, the empty set, is not a valid set of a tensor"
    );
    assert_eq!(sets(&[a]), [vec![a]], "one format, one set");
    assert_eq!(sets(&[a, b, c, a.blocked(1, 4)]).len(), 15, "of four formats all sets are tried");
}

#[test]
fn task2_many_formats_come_in_pairs_at_most() {
    let formats: Vec<TensorFormat> = (1..=6).map(|block| plain().blocked(1, block)).collect();
    let sets = sets(&formats);
    assert_eq!(
        sets.len(),
        6 + 15,
        "six formats give 6 single ones and 15 pairs; all 63 sets would be too many"
    );
    assert!(sets.iter().all(|set| set.len() <= 2), "no more than two at a time");
}

#[test]
fn task2_a_set_costs_a_conversion_for_each_other_format() {
    let price = |from: &TensorFormat, to: &TensorFormat| match (*from == plain(), *to == by16()) {
        (true, true) => 10.0,
        (true, false) => 100.0,
        (false, _) => 1000.0,
    };
    let of = |set: &[TensorFormat]| price_of_set(set, &plain(), &price);
    assert_eq!(of(&[plain()]), 0.0, "the format in which it is produced costs nothing");
    assert_eq!(of(&[plain(), by16()]), 10.0, "one conversion, from the format in which it is produced");
    assert_eq!(of(&[by8(), plain(), by16()]), 110.0, "two conversions, both from `f32`, and none to `f32`");
    assert_eq!(of(&[by16()]), f64::INFINITY, "it is produced in `f32`, so every valid set contains `f32`");
}

#[test]
fn task2_equal_formats_need_no_reformat() {
    let mut found = Vec::new();
    want(&mut found, OperandIndex::new(3), (by16(), by16()), Some((0, 0)));
    want(&mut found, OperandIndex::new(4), (plain(), plain()), None);
    assert!(found.is_empty(), "a tensor in the right format is read as it is");
}

#[test]
fn task2_readers_share_a_reformat() {
    let (mut found, operand) = (Vec::new(), OperandIndex::new(3));
    want(&mut found, operand, (by16(), plain()), Some((5, 0)));
    want(&mut found, operand, (by16(), plain()), Some((7, 1)));
    want(&mut found, operand, (by16(), plain()), None);
    let readers = vec![(5, 0), (7, 1)];
    let shared = Conversion { operand, from: by16(), to: plain(), readers, is_output: true };
    assert_eq!(
        found,
        [shared],
        "two readers and an output need the same format: one conversion serves all three"
    );
}

#[test]
fn task2_one_reformat_for_each_operand_and_format() {
    let mut found = Vec::new();
    let (x, y) = (OperandIndex::new(0), OperandIndex::new(1));
    want(&mut found, x, (plain(), by16()), Some((0, 0)));
    want(&mut found, x, (plain(), by8()), Some((1, 0)));
    want(&mut found, y, (plain(), by16()), Some((1, 1)));
    let got: Vec<_> = found.iter().map(|it| (it.operand, it.to, it.is_output)).collect();
    let hint = "another operand or another format is another conversion";
    assert_eq!(got, [(x, by16(), false), (x, by8(), false), (y, by16(), false)], "{hint}");
}

#[test]
fn task3_a_table_is_row_major() {
    // Variables 1 and 2 have 3 and 4 options; variable 0 is not involved.
    let options = [2, 3, 4];
    assert_eq!(entry_of(&[1, 2], &options, &[1, 0, 3]), 3, "the options of the last variable are adjacent");
    assert_eq!(entry_of(&[1, 2], &options, &[1, 2, 1]), 9, "2 · 4 + 1: did you get 1 · 3 + 2 = 5?");
    assert_eq!(entry_of(&[], &options, &[1, 2, 3]), 0, "a table over no variable has one entry");
}

#[test]
fn task3_an_entry_is_spread_over_its_variables() {
    let mut assignment = [1, 0, 0];
    spread(9, &[1, 2], &[2, 3, 4], &mut assignment);
    assert_eq!(assignment, [1, 2, 1], "9 = 2 · 4 + 1; variable 0 is not in this table and stays unchanged");
    for entry in 0..24 {
        let mut assignment = [0; 3];
        spread(entry, &[0, 1, 2], &[2, 3, 4], &mut assignment);
        assert_eq!(entry_of(&[0, 1, 2], &[2, 3, 4], &assignment), entry, "one is the inverse of the other");
    }
}

#[test]
fn task3_a_variable_answers_each_choice_of_its_neighbour() {
    // Variable 0 has two options, at prices 3 and 5; with a different option than variable 1 it costs 4 more.
    let own = Term { scope: vec![0], prices: vec![3.0, 5.0] };
    let both = Term { scope: vec![0, 1], prices: vec![0.0, 4.0, 4.0, 0.0] };
    let (prices, best) = best_responses(&[2, 2], &[own, both], 0, &[1]);
    assert_eq!(best, [0, 1], "to option 0 it answers with 0 (3 < 5 + 4), to option 1 with 1 (5 < 3 + 4)");
    assert_eq!(prices, [3.0, 5.0], "and these are the total prices: do all terms count?");
}

#[test]
fn task3_of_equal_options_the_first() {
    let own = Term { scope: vec![0], prices: vec![7.0, 2.0, 2.0] };
    assert_eq!(
        best_responses(&[3], &[own], 0, &[]),
        (vec![2.0], vec![1]),
        "so that plans are always the same"
    );
    let never = Term { scope: vec![0], prices: vec![f64::INFINITY; 2] };
    assert_eq!(
        best_responses(&[2], &[never], 0, &[]),
        (vec![f64::INFINITY], vec![0]),
        "∞ forbids, and is still a price"
    );
}

#[test]
fn task3_the_way_back_looks_answers_up() {
    // 0 was eliminated first and depends on 1 and 2; then 2, which depends on 1; then 1.
    let decided = [
        Decided { variable: 0, scope: vec![1, 2], best: vec![0, 0, 0, 0, 3, 0] },
        Decided { variable: 2, scope: vec![1], best: vec![0, 1, 2] },
        Decided { variable: 1, scope: vec![], best: vec![2] },
    ];
    let hint =
        "1 takes 2; so 2 takes its best[2] = 2 … of a table with 3 · 2 entries, 0 takes the one of both";
    assert_eq!(unwind(&[4, 3, 2], &decided[1..]), [0, 2, 2], "{hint}");
    let decided = [
        decided[0].clone(),
        Decided { variable: 2, scope: vec![1], best: vec![1, 1, 0] },
        decided[2].clone(),
    ];
    assert_eq!(unwind(&[4, 3, 2], &decided), [3, 2, 0], "entry 2 · 2 + 0 of the first table is 3");
}

/// Three operators in a row with two formats each, and a price of 5 for changing between them.
fn chain() -> Choices {
    let mut choices = Choices::default();
    let prices = [vec![1.0, 2.0], vec![0.0, 0.0], vec![9.0, 0.0]];
    let chain = prices.map(|prices| choices.add(prices));
    for pair in chain.windows(2) {
        choices.pair(pair[0], pair[1], |a, b| if a == b { 0.0 } else { 5.0 });
    }
    choices
}

#[test]
fn task3_a_chain_looks_ahead() {
    let choices = chain();
    assert_eq!((greedy(&choices), choices.price(&[0, 0, 1])), (vec![0, 0, 1], 6.0), "greedily, in order: 6");
    assert_eq!(solve(&choices), [1, 1, 1], "paying 1 more at first avoids the conversion: 2");
}

#[test]
fn task3_nothing_is_cheaper_than_what_is_found() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    for round in 0..200 {
        let mut choices = Choices::default();
        let count = 2 + random(4) as usize;
        for _ in 0..count {
            let options = 1 + random(3);
            choices.add((0..options).map(|_| random(50) as f64).collect());
        }
        for _ in 0..random(8) {
            let (a, b) = (random(count as u64) as usize, random(count as u64) as usize);
            let table: Vec<f64> = (0..9).map(|_| random(50) as f64).collect();
            if a != b {
                choices.pair(
                    a,
                    b,
                    |i, j| if table[i * 3 + j] > 44.0 { f64::INFINITY } else { table[i * 3 + j] },
                );
            }
        }
        let (found, least) = (solve(&choices), cheapest(&choices));
        assert_eq!(choices.price(&found), least, "graph {round}: brute force finds a cheaper assignment");
    }
}

/// Tries every assignment, like an odometer.
fn cheapest(choices: &Choices) -> f64 {
    let mut least = f64::INFINITY;
    let mut assignment = vec![0; choices.options.len()];
    loop {
        least = least.min(price(choices, &assignment));
        let Some(wheel) = (0..assignment.len()).find(|&at| assignment[at] + 1 < choices.options[at]) else {
            return least;
        };
        assignment[..wheel].fill(0);
        assignment[wheel] += 1;
    }
}

/// The sum of all terms, which have one or two variables here.
fn price(choices: &Choices, assignment: &[usize]) -> f64 {
    let prices = choices.terms.iter().map(|term| match term.scope[..] {
        [a] => term.prices[assignment[a]],
        [a, b] => term.prices[assignment[a] * choices.options[b] + assignment[b]],
        _ => panic!("a term with {} variables", term.scope.len()),
    });
    prices.sum()
}

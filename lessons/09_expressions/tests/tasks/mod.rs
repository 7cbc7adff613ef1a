//! The tests of each task of lesson 09.

use super::subject::{Step, TokenKind, Tokens, calculate, parse, postfix};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::pnnx::{Expr, ExpressionProblem, Function, Graph};
use ixion::tensor::Tensor;
use ndarray::{ArrayD, IxDyn, arr0, arr1, arr2};

/// The kinds of a text's tokens. `take` bounds an iterator that never ends.
fn kinds(text: &str) -> Vec<TokenKind<'_>> {
    Tokens::of(text).take(100).map(|token| token.kind).collect()
}

fn columns(text: &str) -> Vec<usize> {
    Tokens::of(text).take(100).map(|token| token.column).collect()
}

#[test]
fn task1_words_and_punctuation() {
    use TokenKind::{Close, Comma, ListClose, ListOpen, Open, Word};
    let want = [Word("add"), Open, Word("@0"), Comma, Word("2.5"), Close];
    assert_eq!(
        kinds("add(@0,2.5)"),
        want,
        "a word extends to the next punctuation mark, which is a separate token"
    );
    assert_eq!(kinds("[1,]"), [ListOpen, Word("1"), Comma, ListClose], "square brackets are separate tokens");
    assert_eq!(kinds(",,"), [Comma, Comma], "two commas are two tokens, without a word between them");
}

#[test]
fn task1_the_last_word_is_kept() {
    assert_eq!(
        kinds("log1p,@0"),
        [TokenKind::Word("log1p"), TokenKind::Comma, TokenKind::Word("@0")],
        "the last word has no mark after it: does it extend to the end?"
    );
    assert_eq!(kinds("7"), [TokenKind::Word("7")], "a word may extend to the end of the text");
}

#[test]
fn task1_blanks_are_dropped() {
    assert_eq!(kinds(" add  @0 "), [TokenKind::Word("add"), TokenKind::Word("@0")], "blanks separate words");
    assert_eq!(
        kinds("add\t@0\n@1"),
        [TokenKind::Word("add"), TokenKind::Word("@0"), TokenKind::Word("@1")],
        "a tab or a line break is a blank as well: `char::is_whitespace` covers them all"
    );
    assert!(kinds("").is_empty(), "no text, no tokens");
    assert!(kinds(" \t ").is_empty(), "blanks alone are not a token: does `next` return `None` at the end?");
}

#[test]
fn task1_columns_are_for_people() {
    assert_eq!(
        columns("add(@0, 1)"),
        [1, 4, 5, 7, 9, 10],
        "the column of a token's own first character, from 1"
    );
    assert_eq!(columns("é,ß"), [1, 2, 3], "columns count characters, and é has two bytes");
}

/// The tree of a valid text.
#[track_caller]
fn tree(text: &str) -> Expr {
    parse(text).unwrap_or_else(|error| panic!("`{text}` is an expression, but: {error}"))
}

/// Column and problem of an invalid text.
#[track_caller]
fn problem(text: &str) -> (usize, ExpressionProblem) {
    match parse(text) {
        Ok(tree) => panic!("`{text}` is not an expression, but was parsed as {tree}"),
        Err(error) => (error.column, error.problem),
    }
}

#[test]
fn task2_a_leaf_is_a_tree() {
    assert_eq!(tree("@12"), Expr::Input(12), "`literal` parses inputs and numbers");
    assert_eq!(tree("1"), Expr::Int(1));
    assert_eq!(tree("1.0"), Expr::Float(1.0), "1 and 1.0 differ");
    assert_eq!(tree("None"), Expr::None);
    assert_eq!(
        tree("bilinear"),
        Expr::Word("bilinear".to_owned()),
        "a word that is not a function stays a word"
    );
}

#[test]
fn task2_lists_hold_values_and_lists() {
    let int = |number| Expr::Int(number);
    assert_eq!(tree("[1,2,3]"), Expr::List(vec![int(1), int(2), int(3)]));
    assert_eq!(tree("[]"), Expr::List(vec![]), "a list may be empty");
    let hint = "separators mean nothing, even after the last value: `peek` skips them, `next_is` does not";
    assert_eq!(parse("[1,,(2),]"), Ok(Expr::List(vec![int(1), int(2)])), "{hint}");
    let inner = Expr::List(vec![int(1), int(0)]);
    let hint = "a list inside a list ends at its own `]`: is it consumed?";
    assert_eq!(tree("[None,[1,0],4]"), Expr::List(vec![Expr::None, inner, int(4)]), "{hint}");
}

#[test]
fn task2_every_error_has_a_column() {
    assert_eq!(problem(""), (1, ExpressionProblem::Empty), "no token at all: `self.error(None, …)`");
    assert_eq!(problem("(,)"), (4, ExpressionProblem::Empty), "separators alone are not an expression");
    assert_eq!(problem("[1,[2]"), (1, ExpressionProblem::UnclosedList), "the `[` in column 1 has no `]`");
    assert_eq!(problem("]"), (1, ExpressionProblem::UnexpectedBracket), "a value cannot begin with a `]`");
    let hint = "the list is complete in column 3: does it consume exactly one `]`?";
    assert_eq!(problem("[1]]"), (4, ExpressionProblem::UnexpectedBracket), "{hint}");
    let hint = "`literal` returns `None` here: return `self.bad_input`";
    assert_eq!(problem("@x"), (1, ExpressionProblem::BadInput { found: "@x".to_owned() }), "{hint}");
    let hint = "`expr` reads one value, and leaves the 2 to `parse`";
    assert_eq!(problem("1,2"), (3, ExpressionProblem::Trailing { found: "2".to_owned() }), "{hint}");
}

#[test]
fn task2_nesting_is_bounded() {
    let max = Expr::MAX_DEPTH;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(max)).is_ok(), "{max} levels are allowed");
    let hint = "recursion must be bounded, or a file can overflow the stack: go deeper only with `nested`";
    assert_eq!(problem(&nested(max + 1)).1, ExpressionProblem::TooDeep { max }, "{hint}");
}

/// The canonical form of a text, as the framework prints its tree.
#[track_caller]
fn tidy(text: &str) -> String {
    tree(text).to_string()
}

#[test]
fn task3_arguments_are_trees() {
    let args = vec![
        Expr::Call { function: Function::Mul, args: vec![Expr::Input(0), Expr::Int(2)] },
        Expr::Input(1),
    ];
    assert_eq!(tree("add(mul(@0,2),@1)"), Expr::Call { function: Function::Add, args });
    assert_eq!(tidy("sub(@1,@0)"), "sub(@1,@0)", "arguments keep their order");
    assert_eq!(tidy("[neg(@0),exp(1)]"), "[neg(@0),exp(1)]", "lists may contain calls");
}

#[test]
fn task3_missing_brackets_do_not_matter() {
    let hint =
        "PNNX writes `log1p` and `expm1` without brackets: count arguments instead of looking for them";
    assert_eq!(tidy("log1p,@0"), "log1p(@0)", "{hint}");
    assert_eq!(tidy("mul(expm1,@0),log1p,@1"), "mul(expm1(@0),log1p(@1))", "{hint}");
    assert_eq!(tidy("add(mul(log1p,exp(@0)),2),@1"), "add(mul(log1p(exp(@0)),2),@1)", "{hint}");
    assert_eq!(tidy("add @0 @1"), "add(@0,@1)", "{hint}");
}

#[test]
fn task3_doubled_commas_and_open_ends_do_not_matter() {
    assert_eq!(tidy("add(@0,,mul(@1,2))"), "add(@0,mul(@1,2))", "PNNX doubles some commas");
    assert_eq!(tidy("add(@0,mul(@1,2"), "add(@0,mul(@1,2))", "and round brackets are never required");
}

#[test]
fn task3_size_has_one_argument_or_two() {
    assert_eq!(
        tidy("size(@0,2)"),
        "size(@0,2)",
        "`size(x,d)` is the size of axis d: is the second argument read?"
    );
    assert_eq!(tidy("size(@0)"), "size(@0)", "`size(x)` is a list of all sizes");
    let hint = "the `)` right after @0 ends `size`, so the 1 belongs to the list";
    assert_eq!(tidy("[size(@0),1]"), "[size(@0),1]", "{hint}");
    assert_eq!(tidy("[size @0]"), "[size(@0)]", "without a bracket, the list's `]` ends `size`");
    let hint = "the first `)` closes `exp`, which must consume it: otherwise `size` takes it for its own";
    assert_eq!(tidy("[size(exp(@0),1),3]"), "[size(exp(@0),1),3]", "{hint}");
}

#[test]
fn task3_missing_arguments_are_counted() {
    let missing = |function, wanted, found| ExpressionProblem::MissingArgument { function, wanted, found };
    assert_eq!(problem("add(@0)"), (1, missing("add", 2, 1)), "`add` in column 1 has one of two arguments");
    assert_eq!(problem("[mul(@0,neg)]"), (9, missing("neg", 1, 0)), "a `]` is not an argument");
    let hint = "`neg` takes one argument, so the expression is complete before the 1";
    assert_eq!(problem("neg(@0,1)"), (8, ExpressionProblem::Trailing { found: "1".to_owned() }), "{hint}");
}

#[test]
fn task4_functions_after_their_arguments() {
    use Step::{Call, Input, Number};
    let expr: Expr = "add(mul(@0,2.5),@1)".parse().unwrap();
    let want = [Input(0), Number(2.5), Call(Function::Mul, 2), Input(1), Call(Function::Add, 2)];
    assert_eq!(
        postfix(&expr).unwrap(),
        want,
        "@0 2.5 mul @1 add: arguments from left to right, then the function"
    );
    let expr: Expr = "sub(7,exp(@0))".parse().unwrap();
    let want = [Number(7.0), Input(0), Call(Function::Exp, 1), Call(Function::Sub, 2)];
    assert_eq!(postfix(&expr).unwrap(), want, "`exp` has one argument; an int such as 7 is a number too");
}

#[test]
fn task4_only_arithmetic_has_this_form() {
    for text in ["[1,2]", "None", "True", "bilinear", "neg([1])", "add(@0,nearest)"] {
        assert_eq!(
            postfix(&text.parse().unwrap()),
            None,
            "`{text}` has parts that are not numbers: do not leave them out"
        );
    }
}

#[test]
fn task4_a_long_chain() {
    let expr: Expr = format!("{}@0", "neg(".repeat(Expr::MAX_DEPTH)).parse().unwrap();
    let steps = postfix(&expr).unwrap();
    assert_eq!(steps.len(), Expr::MAX_DEPTH + 1);
    assert_eq!(steps[0], Step::Input(0), "the innermost argument comes first");
}

/// Compares shapes first, then elements.
#[track_caller]
fn check(got: Option<ArrayD<f64>>, want: &ArrayD<f64>, hint: &str) {
    let got = got.unwrap_or_else(|| panic!("there is no result. {hint}"));
    assert_eq!(got.shape(), want.shape(), "the shape is wrong. {hint}");
    for ((at, got), want) in got.indexed_iter().zip(want) {
        let close = (got - want).abs() <= 1e-12 * want.abs().max(1.0);
        assert!(close, "at {at:?}: got {got}, expected {want}. {hint}");
    }
}

#[test]
fn task5_a_stack_of_arrays() {
    use Step::{Call, Input, Number};
    let (x, y) = (arr1(&[1.0, 2.0, 3.0]).into_dyn(), arr1(&[10.0, 20.0, 30.0]).into_dyn());
    let steps = [Input(0), Number(2.0), Call(Function::Mul, 2), Input(1), Call(Function::Add, 2)];
    let value = calculate(&steps, &[x.view(), y.view()]);
    check(value, &arr1(&[12.0, 24.0, 36.0]).into_dyn(), "1·2 + 10, 2·2 + 20, 3·2 + 30");
    let steps = [Input(1), Input(0), Call(Function::Sub, 2), Call(Function::Neg, 1)];
    let value = calculate(&steps, &[x.view(), y.view()]);
    check(value, &arr1(&[-9.0, -18.0, -27.0]).into_dyn(), "-(10 - 1): which of the two was pushed first?");
}

#[test]
fn task5_shapes_are_broadcast() {
    let (row, column) = (arr1(&[1.0, 2.0, 3.0]).into_dyn(), arr2(&[[10.0], [20.0]]).into_dyn());
    let steps = [Step::Input(0), Step::Input(1), Step::Call(Function::Add, 2)];
    let want = arr2(&[[11.0, 12.0, 13.0], [21.0, 22.0, 23.0]]).into_dyn();
    check(
        calculate(&steps, &[row.view(), column.view()]),
        &want,
        "3 with 2×1 is 2×3: both arrays are stretched.",
    );
    check(
        calculate(&steps, &[column.view(), row.view()]),
        &want,
        "2×1 with 3 is 2×3: both arrays are stretched.",
    );
    let steps = [Step::Number(1.5), Step::Number(2.0), Step::Call(Function::Pow, 2)];
    check(calculate(&steps, &[]), &arr0(2.25).into_dyn(), "A number is an array without axes.");
}

#[test]
fn task5_steps_without_a_result() {
    use Step::{Call, Input, Number};
    let (two, three) = (arr1(&[1.0, 2.0]).into_dyn(), arr1(&[1.0, 2.0, 3.0]).into_dyn());
    let value = |steps: &[Step]| calculate(steps, &[two.view(), three.view()]);
    assert_eq!(value(&[Input(2)]), None, "there is no third input");
    assert_eq!(
        value(&[Number(1.0), Call(Function::Add, 2)]),
        None,
        "`add` finds only one value on the stack"
    );
    assert_eq!(value(&[Number(1.0), Number(2.0)]), None, "one value must be left, not two");
    assert_eq!(value(&[]), None, "one value must be left, not none");
    assert_eq!(
        value(&[Input(0), Input(1), Call(Function::Add, 2)]),
        None,
        "2 and 3 elements cannot be broadcast"
    );
    assert_eq!(value(&[Input(0), Call(Function::Size, 1)]), None, "`size` is not a function of numbers");
}

/// Deterministic pseudo-random numbers from -2 to 2.
fn noise(shape: &[usize], seed: usize) -> ArrayD<f64> {
    let mut numbers = (0..).map(|i| ((i * 37 + seed * 11) % 17) as f64 / 4.0 - 2.0);
    ArrayD::from_shape_simple_fn(IxDyn(shape), || numbers.next().unwrap())
}

/// All five tasks against the framework's own operator, with expressions as PNNX writes them.
#[test]
fn task5_from_text_to_values() {
    let texts = [
        "add(mul(@0,2.0),@1)",
        "mul(expm1,@0),log1p,square(@1)",
        "div(1,add(1,exp(neg(@0))))",
        "add(@0,,mul(@1,2))",
        "mul(mul(@0,0.5),add(erf(div(@0,1.414214e+00)),1.0))",
        "sqrt(add(square(sub(@0,@1)),1.000000e-05))",
        "atan2(max(@0,@1),min(@0,@1))",
    ];
    let inputs = [noise(&[2, 3, 4], 1), noise(&[3, 1], 2)];
    for text in texts {
        let want = framework(text, &inputs);
        let steps = postfix(&tree(text)).unwrap();
        let value = calculate(&steps, &[inputs[0].view(), inputs[1].view()]);
        check(value, &want, text);
    }
}

/// The framework's result for an expression.
fn framework(text: &str, inputs: &[ArrayD<f64>]) -> ArrayD<f64> {
    let lines = format!(
        "7767517\n4 3\npnnx.Input a 0 1 x #x=(2,3,4)f64\npnnx.Input b 0 1 y #y=(3,1)f64\n\
         pnnx.Expression expression 2 1 x y z expr={text}\npnnx.Output out 1 0 z\n"
    );
    let mut graph = RuntimeGraph::from_pnnx(Graph::parse(&lines, &Limits::default()).unwrap());
    graph.build().unwrap();
    let tensors =
        inputs.iter().map(|input| Tensor::from_vec(input.iter().copied().collect(), input.shape()).unwrap());
    let output = graph.run_with(tensors.collect()).unwrap().remove(0);
    output.array::<f64>().unwrap().to_owned()
}

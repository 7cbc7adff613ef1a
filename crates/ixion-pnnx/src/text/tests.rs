use super::*;

fn line(text: &str) -> Line<'_> {
    operator_line(text).unwrap()
}

/// The column, counted from 0, and the expected item there.
fn stop(text: &str) -> (usize, &'static str) {
    let stop = operator_line(text).unwrap_err();
    (text.len() - stop.at.trim_start().len(), stop.wanted)
}

#[test]
fn a_line_is_split_into_its_parts() {
    let text = "nn.Linear  fc  1 1 0 3 bias=True @weight=(16,64)f32 $input=0 #0=(1,64)f32 #3=(?,%w)null";
    let wanted = Line {
        op_type: "nn.Linear",
        name: "fc",
        inputs: vec!["0"],
        outputs: vec!["3"],
        fields: vec![
            Field::Param { key: "bias", value: "True" },
            Field::Attr { key: "weight", shape: vec![16, 64], dtype: DType::F32 },
            Field::InputName { key: "input", operand: "0" },
            Field::Shape {
                operand: "0",
                shape: vec![Dim::Fixed(1), Dim::Fixed(64)],
                dtype: Some(DType::F32),
            },
            Field::Shape { operand: "3", shape: vec![Dim::Unknown, Dim::Named("w".into())], dtype: None },
        ],
    };
    assert_eq!(line(text), wanted);
}

#[test]
fn all_kinds_of_blanks_separate_words_and_trailing_blanks_are_ignored() {
    let wanted = line("T n 1 1 a b k=v");
    for text in ["T n 1 1 a b k=v ", "T n 1 1 a b k=v\r", "\tT\x0bn 1  1 a b\x0ck=v \t \r"] {
        assert_eq!(line(text), wanted, "{text:?}");
    }
}

#[test]
fn a_value_holds_everything_but_blanks() {
    let values = ["a=b", "add(@0,mul(@1,2))", "ij,jk->ik", "", "=", "%*", "[[2,1],[0,1]]", "é"];
    for value in values {
        let text = format!("T n 0 0 k={value}");
        assert_eq!(line(&text).fields, [Field::Param { key: "k", value }]);
    }
}

#[test]
fn scalars_and_empty_tensors_are_legal_attributes() {
    let attr = |shape: Vec<usize>| vec![Field::Attr { key: "data", shape, dtype: DType::F32 }];
    assert_eq!(line("T n 0 0 @data=()f32").fields, attr(vec![]));
    assert_eq!(line("T n 0 0 @data=(0,3)f32").fields, attr(vec![0, 3]));
}

#[test]
fn too_few_operands_are_reported_at_their_end() {
    assert_eq!(stop("T n 2 1 a"), (9, "an input (or a smaller first count)"));
    assert_eq!(stop("T n 1 1 a k=v"), (10, "an output (or a smaller second count)"));
    assert_eq!(stop("T n 18446744073709551615 0 a"), (28, "an input (or a smaller first count)"));
}

#[test]
fn too_many_operands_look_like_fields_without_a_value() {
    assert_eq!(stop("T n 1 0 a b").0, 10);
    assert!(stop("T n 1 0 a b").1.contains("or a larger count"));
}

#[test]
fn every_field_has_a_key() {
    assert!(stop("T n 0 0 =1").1.starts_with("`key=value`"));
    assert_eq!(stop("T n 0 0 @=(1)f32"), (9, "an attribute key"));
    assert_eq!(stop("T n 0 0 $=x"), (9, "an argument name"));
    assert_eq!(stop("T n 0 0 #=(1)f32"), (9, "an operand"));
    assert_eq!(stop("T n 1 0 a $k="), (13, "an operand"));
}

#[test]
fn only_constants_may_have_blanks_in_their_values() {
    let value = |text: &'static str| {
        let fields = text_constant(text)?.fields;
        let value = |field: &Field<'static>| match field {
            Field::Param { key: "value", value } => Some(*value),
            _ => None,
        };
        fields.iter().find_map(value)
    };
    assert_eq!(value("prim::Constant c 0 1 x value=a b = c \r"), Some("a b = c"));
    assert_eq!(value("prim::Constant c 0 1 x value= a"), Some(" a"));
    assert_eq!(value("prim::Constant c 0 1 x value=a #b"), Some("a #b"));
    assert_eq!(value("prim::Constant c 0 1 x value=3 #x=(1)i64"), None);
    assert_eq!(value("prim::Constant c 0 1 x k=1 value=a b  #x=(1)i64"), Some("a b"));
    let shape = text_constant("prim::Constant c 0 1 x value=a b #x=(?)i64").unwrap().fields.pop();
    assert!(matches!(shape, Some(Field::Shape { operand: "x", .. })), "{shape:?}");
    assert_eq!(value("prim::Constant c 0 1 x value=3 "), None);
    assert_eq!(value("prim::Constant c 0 x value=a b"), None);
    assert_eq!(value("prim::Constants c 0 1 x value=a b"), None);
    assert_eq!(value("F.pad c 1 1 x y value=a b"), None);
}

#[test]
fn counts_are_numbers() {
    assert_eq!(stop("T n x 1"), (4, "the number of inputs"));
    assert_eq!(stop("T n 1x 1"), (4, "the number of inputs"));
    assert_eq!(stop("T n 1 -1"), (6, "the number of outputs"));
    assert_eq!(stop("T n 1 99999999999999999999"), (6, "the number of outputs"));
    assert_eq!(stop("T n"), (3, "the number of inputs"));
    assert_eq!(stop("T"), (1, "an operator name"));
}

#[test]
fn shapes_are_checked_size_by_size() {
    assert_eq!(stop("T n 0 0 @w=(1,-2)f32"), (14, "a size below 2^64"));
    assert_eq!(stop("T n 0 0 @w=(1,?)f32"), (14, "a size below 2^64"));
    assert_eq!(stop("T n 0 0 @w=(99999999999999999999)f32"), (12, "a size below 2^64"));
    assert_eq!(stop("T n 0 0 @w=(1,)f32"), (14, "a size below 2^64"));
    assert_eq!(stop("T n 0 0 @w=(1;2)f32"), (13, "`,` or `)`"));
    assert_eq!(stop("T n 0 0 @w=(1"), (13, "`,` or `)`"));
    assert_eq!(stop("T n 0 0 @w=1"), (11, "`(`"));
    assert_eq!(stop("T n 0 0 @w"), (10, "`=`"));
    assert_eq!(stop("T n 0 0 @w=(1)f23").1, DTYPE);
    assert_eq!(stop("T n 0 0 @w=(1)").1, DTYPE);
    assert_eq!(stop("T n 0 0 @w=(1)null").1, DTYPE);
    assert_eq!(stop("T n 1 0 a #a=(1,-1)f32"), (16, "a size below 2^64"));
    assert_eq!(stop("T n 1 0 a #a=(%)f32").0, 14);
}

#[test]
fn the_second_line_has_two_numbers() {
    assert_eq!(counts("12 3"), Ok((12, 3)));
    assert_eq!(counts(" 12\t3 \r"), Ok((12, 3)));
    assert_eq!(counts("12"), Err(Stop { at: "", wanted: "the number of operands" }));
    assert_eq!(counts("12 3 4"), Err(Stop { at: "4", wanted: "the end of the line" }));
    assert_eq!(counts("-12 3"), Err(Stop { at: "-12 3", wanted: "the number of operators" }));
}

//! The header of an `.npy` file: magic, version, and a Python dictionary as text.

use crate::file::io_error;
use crate::{DType, Order, Result, Shape, TensorError};
use nom::branch::alt;
use nom::bytes::complete::{tag, take_till};
use nom::character::complete::{char, digit1, multispace0};
use nom::combinator::{all_consuming, map, map_res, opt, rest, value};
use nom::multi::separated_list0;
use nom::sequence::{delimited, preceded, separated_pair, terminated};
use nom::{IResult, Parser};
use std::io::{self, Read};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Larger than the header of any supported type; NumPy itself rejects more than 10,000 bytes.
const MAX_HEADER: u32 = 1 << 16;

/// Alignment of the start of the elements, in bytes.
const ALIGNMENT: usize = 64;

/// A header, which describes the bytes that follow it.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    pub(super) big_endian: bool,
    pub(super) order: Order,
    pub(super) shape: Shape,
}

/// Reads a header. Returns its size in bytes as well.
pub(super) fn read(reader: &mut dyn Read) -> Result<(Header, u64)> {
    let mut start = [0; 8];
    fill(reader, &mut start)?;
    let [magic @ .., major, minor] = start;
    if magic != *MAGIC {
        return Err(malformed("it does not begin with the magic string \\x93NUMPY"));
    }
    let (len, prefix) = match (major, minor) {
        (1, 0) => {
            let mut len = [0; 2];
            fill(reader, &mut len)?;
            (u16::from_le_bytes(len).into(), 10)
        }
        (2 | 3, 0) => {
            let mut len = [0; 4];
            fill(reader, &mut len)?;
            (u32::from_le_bytes(len), 12)
        }
        _ => {
            return Err(malformed(format!("expected version 1.0, 2.0 or 3.0, got {major}.{minor}")));
        }
    };
    if len > MAX_HEADER {
        return Err(malformed(format!("expected a header of at most {MAX_HEADER} bytes, got {len}")));
    }
    let mut text = vec![0; len as usize];
    fill(reader, &mut text)?;
    let header = parse(&String::from_utf8_lossy(&text))?;
    Ok((header, prefix + u64::from(len)))
}

/// The bytes of a version 1.0 header for elements in row-major order.
pub(super) fn write(dtype: DType, shape: &Shape) -> Result<Vec<u8>> {
    let descr = descr(dtype)?;
    let dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    let dims = if shape.rank() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(' ', unpadded.next_multiple_of(ALIGNMENT) - unpadded));
    text.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    // At most eight axes of 20 digits: far below the limit of 65,535 bytes.
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.into_bytes());
    Ok(bytes)
}

/// NumPy's name of an element type.
fn descr(dtype: DType) -> Result<&'static str> {
    match dtype {
        DType::F32 => Ok("<f4"),
        DType::F64 => Ok("<f8"),
        DType::F16 => Ok("<f2"),
        DType::I64 => Ok("<i8"),
        DType::I32 => Ok("<i4"),
        DType::I16 => Ok("<i2"),
        DType::I8 => Ok("|i1"),
        DType::U8 => Ok("|u1"),
        DType::Bool => Ok("|b1"),
        DType::C64 => Ok("<c8"),
        DType::C128 => Ok("<c16"),
        DType::Bf16 => Err(no_such_type(dtype, DType::F32)),
        DType::C32 => Err(no_such_type(dtype, DType::C64)),
    }
}

fn no_such_type(dtype: DType, instead: DType) -> TensorError {
    TensorError::Unsupported {
        found: format!("{dtype} in an .npy file"),
        advice: format!("NumPy has no such type: `cast` to {instead} first"),
    }
}

/// The element type with NumPy's name `descr`, and whether its bytes are big-endian.
fn parse_descr(descr: &str) -> Result<(DType, bool)> {
    let (code, big_endian) = match descr.strip_prefix(['<', '|', '>', '=']) {
        Some(code) => {
            (code, descr.starts_with('>') || (descr.starts_with('=') && cfg!(target_endian = "big")))
        }
        None => (descr, cfg!(target_endian = "big")),
    };
    let dtype = match code {
        "f4" => DType::F32,
        "f8" => DType::F64,
        "f2" => DType::F16,
        "i8" => DType::I64,
        "i4" => DType::I32,
        "i2" => DType::I16,
        "i1" => DType::I8,
        "u1" => DType::U8,
        "b1" => DType::Bool,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => {
            let instead = match code {
                "u2" => "np.int32",
                "u4" | "u8" => "np.int64",
                "f16" => "np.float64",
                "c32" => "np.complex128",
                // Includes `V2`, as which NumPy saves ml_dtypes' bfloat16.
                _ => "np.float32",
            };
            return Err(TensorError::Unsupported {
                found: format!("NumPy type '{descr}'"),
                advice: format!("save the array after .astype({instead})"),
            });
        }
    };
    Ok((dtype, big_endian))
}

/// The value of a key in the header's dictionary.
#[derive(Debug, Clone)]
enum Value<'a> {
    Text(&'a str),
    Flag(bool),
    Numbers(Vec<usize>),
    /// A list of fields, which is not parsed.
    Records,
}

fn parse(text: &str) -> Result<Header> {
    let not_a_header = || {
        let start: String = text.trim_end().chars().take(100).collect();
        malformed(format!("its header does not give 'descr', 'fortran_order' and 'shape': {start:?}"))
    };
    let (_, pairs) = all_consuming(dictionary).parse(text).map_err(|_| not_a_header())?;
    let (mut descr, mut order, mut shape) = (None, None, None);
    for (key, value) in pairs {
        match (key, value) {
            ("descr", Value::Text(text)) => descr = Some(parse_descr(text)?),
            ("descr", Value::Records) => {
                return Err(TensorError::Unsupported {
                    found: "a NumPy array of records".into(),
                    advice: "save each field as an array of its own".into(),
                });
            }
            ("fortran_order", Value::Flag(true)) => order = Some(Order::ColumnMajor),
            ("fortran_order", Value::Flag(false)) => order = Some(Order::RowMajor),
            ("shape", Value::Numbers(dims)) => shape = Some(Shape::new(&dims)?),
            _ => return Err(not_a_header()),
        }
    }
    match (descr, order, shape) {
        (Some((dtype, big_endian)), Some(order), Some(shape)) => {
            Ok(Header { dtype, big_endian, order, shape })
        }
        _ => Err(not_a_header()),
    }
}

fn dictionary(input: &str) -> IResult<&str, Vec<(&str, Value<'_>)>> {
    let pair = separated_pair(word(quoted), word(char(':')), word(python_value));
    let records = preceded((word(char('{')), word(tag("'descr'")), word(char(':')), char('[')), rest);
    let pairs = delimited(
        word(char('{')),
        separated_list0(word(char(',')), pair),
        (opt(word(char(','))), word(char('}'))),
    );
    // NumPy writes the keys in alphabetical order, so a list of fields comes first, and the rest does not matter.
    alt((value(vec![("descr", Value::Records)], records), pairs)).parse(input)
}

fn python_value(input: &str) -> IResult<&str, Value<'_>> {
    let number = terminated(map_res(digit1, str::parse::<usize>), opt(char('L')));
    let numbers = delimited(
        word(char('(')),
        separated_list0(word(char(',')), word(number)),
        (opt(word(char(','))), char(')')),
    );
    alt((
        map(quoted, Value::Text),
        value(Value::Flag(true), tag("True")),
        value(Value::Flag(false), tag("False")),
        map(numbers, Value::Numbers),
    ))
    .parse(input)
}

fn quoted(input: &str) -> IResult<&str, &str> {
    alt((
        delimited(char('\''), take_till(|c| c == '\''), char('\'')),
        delimited(char('"'), take_till(|c| c == '"'), char('"')),
    ))
    .parse(input)
}

/// Allows whitespace around a parser.
fn word<'a, O>(
    parser: impl Parser<&'a str, Output = O, Error = nom::error::Error<&'a str>>,
) -> impl Parser<&'a str, Output = O, Error = nom::error::Error<&'a str>> {
    delimited(multispace0, parser, multispace0)
}

/// Reads exactly the length of the buffer.
pub(super) fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> Result<()> {
    reader.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => malformed("it ends too early"),
        _ => io_error("read")(error),
    })
}

pub(super) fn malformed(problem: impl Into<String>) -> TensorError {
    TensorError::Malformed { format: ".npy file", problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<Header> {
        parse(text)
    }

    #[test]
    fn headers_as_numpy_writes_them() {
        let read = header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n").unwrap();
        let want = Header {
            dtype: DType::F32,
            big_endian: false,
            order: Order::RowMajor,
            shape: Shape::new(&[2, 3]).unwrap(),
        };
        assert_eq!(read, want);
        let read = header("{'shape': (3L,), 'fortran_order':True,\"descr\": '>c16'}").unwrap();
        assert_eq!((read.dtype, read.big_endian, read.order), (DType::C128, true, Order::ColumnMajor));
        assert_eq!(
            header("{'descr': '|b1', 'fortran_order': False, 'shape': (), }").unwrap().shape,
            Shape::SCALAR
        );
    }

    #[test]
    fn broken_headers_are_errors() {
        for text in [
            "",
            "{",
            "{}",
            "[]",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), ",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} more",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
            "{'descr': '<f4', 'shape': (2,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 'x'}",
            "{'descr: '<f4', 'fortran_order': False, 'shape': (2,)}",
        ] {
            assert!(matches!(header(text), Err(TensorError::Malformed { .. })), "{text}");
        }
        assert!(header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}").is_err());
        assert!(
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}").is_err()
        );
    }

    #[test]
    fn unsupported_types_come_with_advice() {
        let text = |descr: &str| {
            let header = header(&format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}"));
            header.unwrap_err().to_string()
        };
        assert_eq!(
            text("'<u2'"),
            "NumPy type '<u2' is not supported; save the array after .astype(np.int32)"
        );
        assert!(text("'<u8'").contains("np.int64") && text("'<V2'").contains("np.float32"));
        assert!(text("'<U5'").contains("'<U5'") && text("'|O'").contains("'|O'"));
        assert!(text("[('a', '<f4'), ('b', '<i4', (2,))]").contains("each field"));
    }

    #[test]
    fn written_headers_are_aligned_and_read_back() {
        for dims in [&[][..], &[3], &[2, 3], &[1000000, 1000000, 1, 1, 1, 1, 1, 1]] {
            let shape = Shape::new(dims).unwrap();
            for dtype in DType::ALL {
                let Ok(bytes) = write(dtype, &shape) else {
                    assert!(matches!(dtype, DType::Bf16 | DType::C32));
                    continue;
                };
                let (header, len) = read(&mut &bytes[..]).unwrap();
                assert_eq!((len as usize, bytes.len() % 64), (bytes.len(), 0));
                assert_eq!((header.dtype, header.shape), (dtype, shape));
            }
        }
    }
}

//! The tests of each task of lesson 04. The bytes and numbers were written by PyTorch and PNNX.

use super::subject::{
    RuntimeAttribute, checksum, decode_floats, element_count, entry_at, extra, items, list_body,
    local_header, parse_list, parse_scalar, parse_value, sizes, starts_like_a_number, walk, zip64_extra,
};
use ixion::Limits;
use ixion::course::archive::{ArchiveError, ArchiveFile, ArchiveWriter, Entry, Header, ONES_32, Sizes};
use ixion::op::WeightSource;
use ixion::pnnx::{Attribute, Graph, Value};
use ixion::tensor::{DType, Tensor};
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// The folder of models in the repository that contains this package.
fn models() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap()
}

fn text(raw: &str) -> Value {
    Value::Str(raw.to_owned())
}

fn texts(items: &[&str]) -> Value {
    Value::Strs(items.iter().map(|&item| item.to_owned()).collect())
}

// --- task 1: values ---

#[test]
fn task1_bools_and_ints() {
    assert_eq!(parse_scalar("True"), Value::Bool(true));
    assert_eq!(parse_scalar("False"), Value::Bool(false));
    assert_eq!(parse_scalar("true"), text("true"), "PNNX writes True as Python does; `true` is a word");
    assert_eq!(parse_scalar("32"), Value::Int(32));
    assert_eq!(parse_scalar("-1"), Value::Int(-1), "a number may start with a minus and a digit");
}

#[test]
fn task1_a_float_has_a_dot_or_an_e() {
    assert_eq!(parse_scalar("2.0"), Value::Float(2.0), "`2.0` is a float although it is integral");
    assert_eq!(parse_scalar("1.000000e-05"), Value::Float(1e-5));
    assert_eq!(parse_scalar("1e5"), Value::Float(1e5), "an `e` is enough, no `.` is needed");
    assert_eq!(parse_scalar("-0.5"), Value::Float(-0.5));
    let large = 9_223_372_036_854_775_808.0;
    assert_eq!(parse_scalar("9223372036854775808"), Value::Float(large), "one more than an i64 can hold");
}

#[test]
fn task1_words_may_resemble_numbers() {
    for word in ["inf", "-inf", "nan", ".5", "+1", "zeros", "", "-", "-x"] {
        let hint = "only a digit, or `-` and a digit, starts a number, whatever Rust's `parse` accepts";
        assert!(!starts_like_a_number(word), "`{word}`: {hint}");
        assert_eq!(parse_scalar(word), text(word), "`{word}`: {hint}");
    }
    for word in ["3abc", "1E5", "1.5E3", "1.2.3", "5-", "0x10", "12e"] {
        assert_eq!(parse_scalar(word), text(word), "`{word}` starts like a number, but is not a number");
    }
}

#[test]
fn task1_commas_inside_brackets_do_not_split() {
    assert_eq!(items("1,2"), ["1", "2"]);
    assert_eq!(items("7"), ["7"]);
    let hint = "a comma splits only if no bracket is open: do closing brackets count down again?";
    assert_eq!(items("[2,1],[0,1]"), ["[2,1]", "[0,1]"], "{hint}");
    assert_eq!(items("size(@0,2),(1,(2,3)),4"), ["size(@0,2)", "(1,(2,3))", "4"], "{hint}");
    assert_eq!(
        items("1,"),
        ["1"],
        "Python writes a tuple of one element as `(1,)`: there is no second element"
    );
    assert_eq!(items("1,,2"), ["1", "", "2"], "only a comma at the end adds nothing");
    let hint = "a file may be wrong: an unmatched closing bracket must not count below 0";
    assert_eq!(items("1],2"), ["1]", "2"], "{hint}");
}

#[test]
fn task1_a_list_has_the_narrowest_kind_that_holds_all() {
    assert_eq!(parse_list("3,3"), Value::Ints(vec![3, 3]));
    assert_eq!(parse_list("True,False"), Value::Bools(vec![true, false]));
    let hint = "one float makes all elements floats, wherever it is";
    assert_eq!(parse_list("1,2.5"), Value::Floats(vec![1.0, 2.5]), "{hint}");
    assert_eq!(parse_list("2.5,1"), Value::Floats(vec![2.5, 1.0]), "{hint}");
    assert_eq!(
        parse_list("@0,2147483647"),
        texts(&["@0", "2147483647"]),
        "one word makes all elements texts"
    );
    assert_eq!(parse_list("[2,1],[0,1]"), texts(&["[2,1]", "[0,1]"]), "inner lists stay texts");
}

#[test]
fn task1_complex_numbers_come_after_real_numbers() {
    let found = parse_scalar("1.5e+00-2.0e+00j");
    let hint = "if it is not a real number, try `parse_complex`, which is given";
    assert!(matches!(found, Value::Complex(z) if (z.re, z.im) == (1.5, -2.0)), "{hint}: {found:?}");
    assert_eq!(parse_scalar("2.5"), Value::Float(2.5), "a real number is not a complex one");
    let found = parse_list("1,2.5j");
    let hint = "a real number is accepted as a complex one, as an int is as a float";
    assert!(matches!(&found, Value::Complexes(list) if list.len() == 2), "{hint}: {found:?}");
}

#[test]
fn task1_the_first_matching_rule_decides() {
    for nothing in ["None", "()", "[]"] {
        assert_eq!(parse_value(nothing), Value::None, "`{nothing}` is nothing, not an empty list");
    }
    assert_eq!(list_body("(2,2)"), Some("2,2"));
    assert_eq!(parse_value("(2,2)"), Value::Ints(vec![2, 2]));
    assert_eq!(parse_value("[2,2]"), Value::Ints(vec![2, 2]), "square brackets make a list as well");
    assert_eq!(parse_value("(2,2"), text("(2,2"), "a list must end with the matching bracket");
    assert_eq!(parse_value("(%a,%b)"), text("(%a,%b)"), "`%` comes first, even inside brackets");
    assert_eq!(parse_value("zeros"), text("zeros"));
}

#[test]
fn task1_all_parameters_of_real_models_are_typed() {
    let mut count = 0;
    for model in ["linear", "conv3", "shapes_unet", "resnet18"] {
        let path = models().join(model).join(format!("{model}.pnnx.param"));
        let graph = Graph::load(path, None, &Limits::default()).unwrap();
        for (_, operator) in graph.operators() {
            for (key, setting) in operator.params() {
                let found = parse_value(setting.raw());
                assert_eq!(&found, setting.value(), "{key}={} of {}", setting.raw(), operator.name());
                count += 1;
            }
        }
    }
    assert!(count > 200, "only {count} parameters were checked");
}

// --- task 2: records ---

/// The first bytes of `linear.pnnx.bin`: a header, the name, the zip64 block and the first bias.
const START: [u8; 77] =
    *b"PK\x03\x04\0\0\0\0\0\0\0\0\0\0\x81\xc7\xe8\x49\xff\xff\xff\xff\xff\xff\xff\xff\x0b\0\x20\0\
    linear.bias\
    \x01\0\x1c\0\0\x02\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \xa1\xae\x03\x3e";

#[test]
fn task2_the_header_of_a_real_entry() {
    let (rest, header) = local_header(&START).unwrap();
    let hint = "the CRC, bytes 14 to 17, is 0x49e8c781: is a field before it left out?";
    assert_eq!(header.crc32, 0x49e8_c781, "{hint} {:#010x}", header.crc32);
    assert_eq!((header.size, header.packed), (ONES_32, ONES_32), "both sizes are in the extra block");
    assert_eq!((header.name_length, header.extra_length), (11, 32), "bytes 26 and 28");
    assert_eq!((header.flags, header.method), (0, 0), "bytes 6 and 8");
    assert_eq!(&rest[..11], b"linear.bias", "the name begins after 30 bytes");
}

#[test]
fn task2_every_field_has_its_place() {
    let bytes = b"PK\x03\x04\x14\0\x01\0\x02\0\x03\0\x04\0\x05\0\0\0\x06\0\0\0\x07\0\0\0\x08\0\x09\0rest";
    let (rest, header) = local_header(bytes).unwrap();
    let wanted =
        Header { flags: 1, method: 2, crc32: 5, packed: 6, size: 7, name_length: 8, extra_length: 9 };
    let hint = "version, flags, method, time (3 here), date (4), CRC, packed size, size, and two lengths";
    assert_eq!(header, wanted, "{hint}");
    assert_eq!(rest, b"rest");
}

#[test]
fn task2_an_invalid_header_is_an_error() {
    let mut directory = START;
    directory[2..4].copy_from_slice(&[1, 2]);
    assert!(local_header(&directory).is_err(), "`PK\\x01\\x02` begins a record of the directory");
    assert!(local_header(&START[..29]).is_err(), "the last byte is missing");
    assert!(local_header(b"").is_err());
}

#[test]
fn task2_the_large_numbers_are_found_in_the_extra_blocks() {
    assert_eq!(extra(&START[41..]).unwrap().1.0, 1, "first the number of the block");
    let body = zip64_extra(&START[41..73]).expect("bytes 41 to 72 are the zip64 block");
    assert_eq!(body.len(), 28, "number and length, four bytes, do not belong to the body");
    assert_eq!(body[..8], [0, 2, 0, 0, 0, 0, 0, 0]);
    let after_another = [&[9, 0, 2, 0, 0xaa, 0xbb][..], &[1, 0, 3, 0, 7, 8, 9]].concat();
    assert_eq!(zip64_extra(&after_another), Some(&[7, 8, 9][..]), "is a block with another number skipped?");
    assert_eq!(zip64_extra(&[9, 0, 2, 0, 1, 0]), None, "this 1 and 0 are the body of block 9");
    assert_eq!(zip64_extra(&[1, 0, 8, 0, 7]), None, "a truncated block does not count");
    assert_eq!(zip64_extra(&[]), None);
}

fn header(packed: u32, size: u32) -> Header {
    Header { flags: 0, method: 0, crc32: 0, packed, size, name_length: 0, extra_length: 0 }
}

#[test]
fn task2_only_fields_full_of_ones_are_replaced() {
    let extras = |numbers: &[u64]| {
        let body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        [&[1, 0, body.len() as u8, 0], &body[..]].concat()
    };
    let found = sizes(&header(5, 6), 7, &[]);
    assert_eq!(found, Some(Sizes { size: 6, packed: 5, offset: 7 }), "small numbers need no extra block");
    let found = sizes(&header(ONES_32, ONES_32), ONES_32, &extras(&[6 << 32, 5 << 32, 7 << 32]));
    let hint = "the extra block has the size first, then the packed size, then the position";
    assert_eq!(found, Some(Sizes { size: 6 << 32, packed: 5 << 32, offset: 7 << 32 }), "{hint}");
    let found = sizes(&header(ONES_32, 6), 7, &extras(&[5 << 32]));
    let hint = "the extra block contains only the replaced numbers: here one, the packed size";
    assert_eq!(found, Some(Sizes { size: 6, packed: 5 << 32, offset: 7 }), "{hint}");
    assert_eq!(sizes(&header(ONES_32, ONES_32), 0, &extras(&[6])), None, "the second number is missing");
    assert_eq!(sizes(&header(ONES_32, 6), 0, &[]), None, "there is no extra block at all");
}

// --- task 3: walking ---

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
    for (name, data) in entries {
        writer.add(name, data).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn in_memory(bytes: impl Into<Vec<u8>>) -> ArchiveFile {
    ArchiveFile::from_bytes(bytes, &Limits::default())
}

fn linear() -> ArchiveFile {
    ArchiveFile::open(models().join("linear/linear.pnnx.bin"), &Limits::default()).unwrap()
}

#[test]
fn task3_the_data_begin_after_name_and_extra_blocks() {
    let entry = entry_at(&linear(), 0).unwrap();
    assert_eq!(entry.name(), "linear.bias");
    assert_eq!(entry.size(), 512, "128 biases of 4 bytes");
    assert_eq!(entry.offset(), 73, "30 bytes of header, 11 of name and 32 of extra blocks");
    assert_eq!(entry.crc32(), 0x49e8_c781);
}

#[test]
fn task3_a_wrong_header_is_an_error() {
    let bytes = archive(&[("a.weight", &[1, 2, 3, 4])]);
    let damaged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        entry_at(&in_memory(bytes), 0)
    };
    let found = damaged(&|bytes| bytes.truncate(73));
    let hint = "the file ends within the data: call `check_range`";
    assert!(matches!(found, Err(ArchiveError::Truncated { .. })), "{hint}: {found:?}");
    let found = damaged(&|bytes| bytes[42 + 7] = 0xff);
    let hint = "size and packed size differ: return an error from `corrupt`";
    assert!(matches!(found, Err(ArchiveError::Corrupt { .. })), "{hint}: {found:?}");
    let found = damaged(&|bytes| bytes[42..58].fill(0xff));
    let hint = "2⁶⁴ − 1 bytes of data are more than the file has: an error, not an overflow";
    assert!(matches!(found, Err(ArchiveError::Truncated { .. })), "{hint}: {found:?}");
    let found = damaged(&|bytes| bytes[0] = b'Q');
    let hint = "the signature is missing: return an error from `corrupt`";
    assert!(matches!(found, Err(ArchiveError::Corrupt { .. })), "{hint}: {found:?}");
    let found = damaged(&|bytes| bytes[8] = 8);
    let hint = "method 8 is compressed: call `check_supported`";
    assert!(matches!(found, Err(ArchiveError::Unsupported { .. })), "{hint}: {found:?}");
    let found = damaged(&|bytes| bytes[30] = 0xff);
    let hint = "this name is not UTF-8: read it with `name`";
    assert!(matches!(found, Err(ArchiveError::Corrupt { .. })), "{hint}: {found:?}");
}

#[test]
fn task3_all_entries_in_order() {
    let found = walk(&linear()).unwrap();
    let found: Vec<(&str, u64, u64)> =
        found.iter().map(|entry| (entry.name(), entry.offset(), entry.size())).collect();
    let hint = "the second header is at 73 + 512 = 585, its data 30 + 13 + 32 bytes later";
    assert_eq!(found, [("linear.bias", 73, 512), ("linear.weight", 660, 16_384)], "{hint}");
}

#[test]
fn task3_the_walk_ends_where_no_header_begins() {
    let bytes = archive(&[("a.weight", b"PK\x03\x04"), ("empty", b""), ("b.c.data", b"xyz")]);
    let file = in_memory(bytes);
    let entries = walk(&file).unwrap();
    let names: Vec<&str> = entries.iter().map(Entry::name).collect();
    assert_eq!(names, ["a.weight", "empty", "b.c.data"], "data that look like a header are not a header");
    let data = file.read(entries[2].offset(), 3, "data").unwrap();
    assert_eq!(data, b"xyz");
    assert!(walk(&in_memory("")).unwrap().is_empty(), "an empty file has no entries");
}

#[test]
fn task3_the_limits_are_kept() {
    let bytes = archive(&[("a", b"1"), ("b", b"2"), ("c", b"3")]);
    let file = ArchiveFile::from_bytes(bytes, &Limits { max_ops: 2, ..Limits::default() });
    let found = walk(&file).map(|entries| entries.len());
    let hint = "three entries, but only two are allowed: call `check_count` along the way";
    assert!(matches!(found, Err(ArchiveError::Limit { .. })), "{hint}, {found:?}");
}

#[test]
fn task3_checksums_show_damage() {
    let file = linear();
    for entry in [Entry::new("bias".into(), 73, 512, 0x49e8_c781), Entry::new("none".into(), 73, 0, 0)] {
        let found = checksum(&file, &entry).unwrap();
        assert_eq!(
            found,
            entry.crc32(),
            "{}: {found:08x}; do all chunks go through the hasher?",
            entry.name()
        );
    }
    let long: Vec<u8> = (0..1 << 19).map(|i: u32| (i / 7) as u8).collect();
    let entry = Entry::new("long".into(), 0, long.len() as u64, 0);
    let before = checksum(&in_memory(long.clone()), &entry).unwrap();
    assert_eq!(before, crc32fast::hash(&long), "the data come in two chunks, and have one checksum");
    let mut damaged = long;
    damaged[1] ^= 1;
    assert_ne!(checksum(&in_memory(damaged), &entry).unwrap(), before, "one bit in the first chunk is wrong");
}

// --- task 4: elements ---

#[test]
fn task4_the_number_of_elements_is_a_product() {
    assert_eq!(element_count(DType::F32, &[128, 32]), Some(4096));
    assert_eq!(element_count(DType::F32, &[]), Some(1), "a scalar has no axes and one element");
    assert_eq!(element_count(DType::F32, &[3, 0, 2]), Some(0), "an axis of size 0 leaves no elements");
}

#[test]
fn task4_a_product_that_overflows_is_refused() {
    let half = 1_usize << (usize::BITS / 2);
    assert_eq!(element_count(DType::F32, &[half, half]), None, "2³² · 2³² is 0 when it wraps around");
    let most = isize::MAX as usize / 4;
    assert_eq!(element_count(DType::F32, &[most]), Some(most), "the largest size that memory can have");
    assert_eq!(
        element_count(DType::F64, &[most]),
        None,
        "twice that many bytes: multiply by the element's size too"
    );
    assert_eq!(
        element_count(DType::F32, &[usize::MAX, 2, 0]),
        None,
        "the 0 at the end must not hide the overflow"
    );
}

#[test]
fn task4_floats_of_four_and_eight_bytes() {
    let bias = decode_floats(DType::F32, &START[73..]).unwrap();
    assert_eq!(bias, [0.128_595_84], "a1 ae 03 3e is 0x3e03aea1, the least significant byte first");
    let found = decode_floats(DType::F32, &[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]).unwrap();
    assert_eq!(found, [1.0, -2.0], "two elements of four bytes");
    let double = 0.1_f64.to_le_bytes();
    assert_eq!(decode_floats(DType::F64, &double).unwrap(), [0.1_f32], "eight bytes, rounded to f32");
}

#[test]
fn task4_floats_of_two_bytes() {
    let found = decode_floats(DType::F16, &[0x00, 0x3c, 0x00, 0xc0, 0x55, 0x35]).unwrap();
    assert_eq!(found, [1.0, -2.0, 0.333_251_95], "f16: 1 bit of sign, 5 of exponent, 10 of fraction");
    let found = decode_floats(DType::Bf16, &[0x80, 0x3f, 0x49, 0x40]).unwrap();
    assert_eq!(found, [1.0, 3.140_625], "bf16 is the upper half of an f32, not an f16");
}

#[test]
fn task4_other_elements_are_not_floats() {
    for dtype in [DType::I64, DType::U8, DType::Bool, DType::C64] {
        assert_eq!(decode_floats(dtype, &[0; 8]), None, "{dtype} is not a float");
    }
    assert_eq!(decode_floats(DType::F32, &[0; 7]).unwrap(), [0.0], "the last three bytes are not an element");
}

// --- task 5: weights ---

fn lazy(attribute: &Attribute) -> RuntimeAttribute {
    RuntimeAttribute::new(WeightSource::File(attribute.clone()))
}

fn weight(graph: &Graph, operator: &str, key: &str) -> Attribute {
    graph.operator(graph.operator_named(operator).unwrap()).attr(key).unwrap().clone()
}

/// A copy of `linear` whose bytes a test may change, and its bias.
fn changeable() -> (tempfile::TempDir, PathBuf, Attribute) {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("linear.pnnx.bin");
    std::fs::copy(models().join("linear/linear.pnnx.bin"), &bin).unwrap();
    let param = models().join("linear/linear.pnnx.param");
    let graph = Graph::load(param, Some(bin.as_path()), &Limits::default()).unwrap();
    let bias = weight(&graph, "linear", "bias");
    (folder, bin, bias)
}

/// Writes another first bias.
fn change(bin: &Path, value: f32) {
    let mut bytes = std::fs::read(bin).unwrap();
    bytes[73..77].copy_from_slice(&value.to_le_bytes());
    std::fs::write(bin, bytes).unwrap();
}

fn first(weight: &RuntimeAttribute) -> f32 {
    weight.decode().unwrap().slice::<f32>().unwrap()[0]
}

#[test]
fn task5_elements_are_read_on_demand() {
    let (_folder, bin, bias) = changeable();
    let weight = lazy(&bias);
    assert!(!weight.is_decoded(), "nothing has called `decode` yet");
    change(&bin, 2.5);
    assert_eq!(first(&weight), 2.5, "the file was changed before the first `decode`");
    assert!(weight.is_decoded());
}

#[test]
fn task5_elements_are_read_once() {
    let (_folder, bin, bias) = changeable();
    let weight = lazy(&bias);
    let address = weight.decode().unwrap().slice::<f32>().unwrap().as_ptr();
    std::fs::write(&bin, b"").unwrap();
    let again = weight.decode().expect("the second `decode` needs no file: is it read again?");
    assert_eq!(again.slice::<f32>().unwrap().as_ptr(), address, "the same elements, not a copy");
}

#[test]
fn task5_clones_share_what_was_read() {
    let (_folder, _bin, bias) = changeable();
    let weight = lazy(&bias);
    let clone = weight.clone();
    weight.decode().unwrap();
    assert!(clone.is_decoded(), "the clone was created before, and shares the cell");
}

#[test]
fn task5_clearing_leaves_clones_their_elements() {
    let (_folder, bin, bias) = changeable();
    let mut weight = lazy(&bias);
    let clone = weight.clone();
    weight.decode().unwrap();
    weight.clear();
    assert!(!weight.is_decoded(), "after `clear`, nothing is held");
    assert!(clone.is_decoded(), "the clone still needs its elements");
    change(&bin, -1.0);
    assert_eq!(first(&weight), -1.0, "the next `decode` reads the file again");
    assert_eq!(first(&clone), 0.128_595_84, "the clone keeps what it has read");
}

#[test]
fn task5_missing_elements_are_an_error_and_not_zeros() {
    let param = models().join("linear/linear.pnnx.param");
    let graph = Graph::load(param, None, &Limits::default()).unwrap();
    let weight = lazy(&weight(&graph, "linear", "weight"));
    assert!(weight.decode().is_err(), "there is no archive");
    assert!(!weight.is_decoded(), "an error is not kept: a second call tries again");
}

#[test]
fn task5_your_weights_compute_what_pytorch_computes() {
    let (param, limits) = (models().join("linear/linear.pnnx.param"), Limits::default());
    let graph = Graph::load(param, Some(&models().join("linear/linear.pnnx.bin")), &limits).unwrap();
    let linear_operator = graph.operator(graph.operator_named("linear").unwrap());
    let setting = |key: &str| parse_value(linear_operator.params()[key].raw());
    assert_eq!((setting("in_features"), setting("bias")), (Value::Int(32), Value::Bool(true)));

    let file = linear();
    let entries = walk(&file).unwrap();
    let numbers = |name: &str, shape: &[usize]| {
        let entry = entries.iter().find(|entry| entry.name() == name).unwrap();
        assert_eq!(element_count(DType::F32, shape).unwrap() as u64 * 4, entry.size(), "{name}");
        assert_eq!(checksum(&file, entry).unwrap(), entry.crc32(), "{name}");
        decode_floats(DType::F32, &file.read(entry.offset(), entry.size(), name).unwrap()).unwrap()
    };
    let (bias, rows) = (numbers("linear.bias", &[128]), numbers("linear.weight", &[128, 32]));
    let lazily = lazy(&weight(&graph, "linear", "weight")).decode().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(rows, lazily, "both methods read the same elements");

    let tensor = |name: &str| Tensor::load_npy(models().join("linear").join(name), &limits).unwrap();
    let x = tensor("in_0.npy").to_vec::<f32>().unwrap();
    let wanted = tensor("out_0.npy").to_vec::<f32>().unwrap();
    for (channel, row) in rows.chunks(32).enumerate() {
        let sum = bias[channel] + row.iter().zip(&x).map(|(w, x)| w * x).sum::<f32>();
        let sigmoid = 1.0 / (1.0 + (-sum).exp());
        let wanted = wanted[channel];
        assert!((sigmoid - wanted).abs() < 1e-5, "output {channel}: got {sigmoid}, PyTorch has {wanted}");
    }
}

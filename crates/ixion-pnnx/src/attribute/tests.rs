use super::*;
use crate::ArchiveWriter;
use ixion_tensor::Limits;
use std::io::Cursor;

const ALONE: Place = Place { number: 0, count: 1 };

fn origin() -> Origin {
    Origin::new(&"fc".into(), None, "bias")
}

fn archive(entry: &str, data: &[u8]) -> Arc<Archive> {
    let mut writer = ArchiveWriter::new(Cursor::new(Vec::new()));
    writer.add(entry, data).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    Arc::new(Archive::from_bytes(bytes, &Limits::default()).unwrap())
}

fn loaded(entry: &str, data: &[u8]) -> Attribute {
    let mut attribute = Attribute::announced(DType::I16, vec![2], origin()).unwrap();
    attribute.attach(&archive(entry, data), origin(), ALONE);
    attribute
}

#[test]
fn lengths_are_checked_and_scalars_and_empty_shapes_are_legal() {
    let scalar = Attribute::new(DType::F32, vec![], vec![0; 4]).unwrap();
    assert_eq!((scalar.elem_count(), scalar.byte_len()), (1, 4));
    let empty = Attribute::new(DType::F32, vec![0, 3], vec![]).unwrap();
    assert_eq!((empty.elem_count(), empty.bytes().unwrap().len()), (0, 0));
    let error = Attribute::new(DType::F32, vec![2, 3], vec![0; 4]).unwrap_err();
    assert!(matches!(error, WeightError::Length { expected: Some(24), found: 4, .. }), "{error}");
    let error = Attribute::new(DType::F32, vec![usize::MAX, 2], vec![]).unwrap_err();
    assert!(matches!(error, WeightError::Length { expected: None, .. }), "{error}");
    assert!(Attribute::new(DType::U8, vec![0, usize::MAX, 2], vec![]).is_err());
}

#[test]
fn bytes_are_read_from_the_archive_on_demand() {
    let attribute = loaded("fc.bias", &[1, 2, 3, 4]);
    assert!(attribute.is_present());
    assert_eq!(attribute.bytes().unwrap()[..], [1, 2, 3, 4]);
    let mut buffer = [0; 4];
    attribute.read_into(&mut buffer).unwrap();
    assert_eq!(buffer, [1, 2, 3, 4]);
    assert!(matches!(attribute.read_into(&mut [0; 3]), Err(WeightError::Buffer { wanted: 4, found: 3 })));
    attribute.read_at(1, &mut buffer[..2]).unwrap();
    assert_eq!(buffer, [2, 3, 3, 4]);
    for (start, found) in [(2, 6), (usize::MAX, usize::MAX)] {
        let error = attribute.read_at(start, &mut buffer).unwrap_err();
        assert!(matches!(error, WeightError::Buffer { wanted: 4, found: beyond } if beyond == found));
    }
    assert_eq!(attribute.checksum().unwrap(), crc32fast::hash(&[1, 2, 3, 4]));
}

#[test]
fn missing_bytes_are_reported_on_access() {
    let attribute = Attribute::announced(DType::I16, vec![2], origin()).unwrap();
    assert!(matches!(attribute.bytes(), Err(WeightError::NotLoaded { expected: 4, .. })));
    let missing = loaded("other", &[]);
    assert!(!missing.is_present());
    assert!(matches!(missing.bytes(), Err(WeightError::Missing { .. })));
    let wrong = loaded("fc.bias", &[1, 2, 3]);
    let message = wrong.defect().unwrap().to_string();
    for part in ["`fc`", "`bias`", "4 bytes", "3", "<bytes>"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn an_attribute_without_elements_needs_no_entry() {
    let mut attribute = Attribute::announced(DType::F32, vec![0, 3], origin()).unwrap();
    attribute.attach(&archive("other", &[]), origin(), ALONE);
    assert!(attribute.is_present() && attribute.bytes().unwrap().is_empty());
    attribute.attach(&archive("fc.bias", &[1]), origin(), ALONE);
    assert!(matches!(attribute.bytes(), Err(WeightError::WrongSize { expected: 0, found: 1, .. })));
}

#[test]
fn floats_are_converted_both_ways() {
    let values = [1.0_f32, -0.5, 65_504.0];
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let mut attribute = Attribute::new(dtype, vec![3], vec![0; 3 * dtype.size()]).unwrap();
        attribute.set_f32s(&values).unwrap();
        assert_eq!(attribute.to_f32s().unwrap(), values, "{dtype}");
        assert!(attribute.set_f32s(&[1.0]).is_err());
    }
    let mut rough = Attribute::new(DType::Bf16, vec![1], vec![0; 2]).unwrap();
    rough.set_f32s(&[1.003]).unwrap();
    assert_eq!(rough.to_f32s().unwrap(), [1.0]);
    let mut ints = Attribute::new(DType::I64, vec![1], vec![0; 8]).unwrap();
    assert!(matches!(ints.set_f32s(&[1.0]), Err(WeightError::NotFloat { dtype: DType::I64 })));
    assert!(matches!(ints.to_f32s(), Err(WeightError::NotFloat { .. })));
}

#[test]
fn joining_checks_types_and_axes() {
    let left = Attribute::from_f32s(vec![1, 2], &[1.0, 2.0]).unwrap();
    let right = Attribute::from_f32s(vec![2, 2], &[3.0, 4.0, 5.0, 6.0]).unwrap();
    let joined = left.concat(&right).unwrap();
    assert_eq!(joined, Attribute::from_f32s(vec![3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap());
    let other_axis = Attribute::from_f32s(vec![1, 3], &[0.0; 3]).unwrap();
    let other_type = Attribute::new(DType::I32, vec![1, 2], vec![0; 8]).unwrap();
    let scalar = Attribute::from_f32s(vec![], &[0.0]).unwrap();
    for wrong in [other_axis, other_type, scalar] {
        assert!(matches!(left.concat(&wrong), Err(WeightError::Concat { .. })));
        assert!(matches!(wrong.concat(&left), Err(WeightError::Concat { .. })));
    }
}

#[test]
fn joined_bytes_stay_in_the_archive_until_they_are_read() {
    let stored = loaded("fc.bias", &[1, 2, 3, 4]);
    let owned = Attribute::new(DType::I16, vec![1], vec![5, 6]).unwrap();
    let joined = stored.concat(&owned.concat(&stored).unwrap()).unwrap();
    let joined_again = stored.concat(&owned).unwrap().concat(&stored).unwrap();
    for joined in [&joined, &joined_again] {
        assert!(
            matches!(&*joined.inner.data, Data::Joined(parts) if parts.len() == 3) && joined.is_present()
        );
    }
    assert_eq!(joined, joined_again);
    let wanted = [1, 2, 3, 4, 5, 6, 1, 2, 3, 4];
    assert_eq!((joined.shape(), &joined.bytes().unwrap()[..]), (&[5][..], &wanted[..]));
    let mut buffer = [0; 10];
    joined.read_into(&mut buffer).unwrap();
    assert_eq!((buffer, joined.checksum().unwrap()), (wanted, crc32fast::hash(&wanted)));
    for start in 0..=wanted.len() {
        for end in start..=wanted.len() {
            let mut buffer = vec![0; end - start];
            joined.read_at(start, &mut buffer).unwrap();
            assert_eq!(buffer, wanted[start..end], "{start}..{end}");
        }
    }
    let missing = loaded("other", &[]);
    for (first, second) in [(&stored, &missing), (&missing, &stored)] {
        assert!(matches!(first.concat(second), Err(WeightError::Missing { expected: 4, .. })));
    }
}

#[test]
fn equality_compares_type_shape_and_bytes() {
    let base = Attribute::from_f32s(vec![2], &[1.0, 2.0]).unwrap();
    assert_eq!(base, base.clone());
    assert_ne!(base, Attribute::from_f32s(vec![1, 2], &[1.0, 2.0]).unwrap());
    assert_ne!(base, Attribute::from_f32s(vec![2], &[1.0, 2.5]).unwrap());
    assert_ne!(base, Attribute::new(DType::I32, vec![2], base.bytes().unwrap().into_owned()).unwrap());
    let stored = loaded("fc.bias", &[1, 2, 3, 4]);
    assert_eq!(stored, Attribute::new(DType::I16, vec![2], vec![1, 2, 3, 4]).unwrap());
    let absent = loaded("other", &[]);
    assert_ne!(absent, absent.clone(), "bytes that cannot be read equal nothing");
}

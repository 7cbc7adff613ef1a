use super::*;
use crate::Placement;

const LOGITS: [i8; 36] = [
    -2, 3, 1, -1, 9, -8, -6, 9, -7, -9, 2, -6, -3, 9, 0, -7, 0, -9, 5, 0, 3, 6, 8, 4, -9, -3, -9, 2, -9, -5,
    -1, -6, 8, -3, -8, 7,
];

fn logits(channels: usize) -> Tensor {
    let values = LOGITS.iter().take(12 * channels).map(|&value| f32::from(value)).collect();
    Tensor::from_vec(values, &[1, channels, 3, 4]).unwrap()
}

fn one(segmenter: &Segmenter, scores: &Tensor, frame: Frame) -> Vec<u8> {
    segmenter.segment(scores, &[frame]).unwrap().remove(0).classes().to_vec()
}

#[test]
#[rustfmt::skip]
fn matches_pytorch_interpolation_and_argmax() {
    let segmenter = Segmenter::new(Activation::None);
    assert_eq!(one(&segmenter, &logits(3), Frame::stretched([5, 7], [3, 4])), [
        0, 1, 1, 1, 0, 0, 2,
        0, 0, 1, 1, 1, 0, 0,
        0, 0, 2, 1, 1, 0, 0,
        1, 1, 1, 1, 1, 1, 1,
        2, 1, 1, 1, 1, 1, 2,
    ]);
    assert_eq!(one(&segmenter, &logits(3), Frame::stretched([2, 3], [3, 4])), [0, 1, 0, 2, 1, 1]);
    // The resolution of the input does not matter, only that of the scores.
    assert_eq!(one(&segmenter, &logits(3), Frame::stretched([2, 3], [96, 64])), [0, 1, 0, 2, 1, 1]);
    assert_eq!(one(&Segmenter::new(Activation::Sigmoid), &logits(1), Frame::stretched([5, 7], [3, 4])), [
        0, 0, 1, 1, 1, 0, 0,
        1, 1, 0, 0, 0, 1, 1,
        1, 1, 0, 0, 0, 1, 1,
        0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 1, 0, 0,
    ]);
}

#[test]
fn the_letterbox_is_removed() {
    // Two rows of picture between two rows of padding with a high score for class 1.
    let scores = [0.0f32, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 0.0, 0.5, 0.5, 2.0, 9.0, 9.0];
    let scores = Tensor::from_vec(scores.to_vec(), &[1, 2, 4, 2]).unwrap();
    let placement = Placement { scale: [0.5, 0.5], offset: [1.0, 0.0] };
    let frame = Frame { picture: [4, 4], input: [4, 2], placement };
    let found = one(&Segmenter::new(Activation::None), &scores, frame);
    assert_eq!(found, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn unseen_pixels_are_background_or_void() {
    let scores = Tensor::from_vec(vec![1.0f32, 1.0, 0.0, 0.0], &[1, 2, 1, 2]).unwrap();
    let placement = Placement { scale: [1.0; 2], offset: [0.0, -1.0] };
    let frame = Frame { picture: [1, 4], input: [1, 2], placement };
    let mut segmenter = Segmenter::new(Activation::None);
    assert_eq!(one(&segmenter, &scores, frame), [VOID, 0, 0, VOID]);
    segmenter.background = Some(1);
    assert_eq!(one(&segmenter, &scores, frame), [1, 0, 0, 1]);
}

#[test]
fn nan_scores() {
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    let scores = Tensor::from_vec(vec![nan, 0.0, low, nan, nan, low], &[1, 2, 1, 3]).unwrap();
    let frame = Frame::stretched([1, 3], [1, 3]);
    assert_eq!(one(&Segmenter::new(Activation::None), &scores, frame), [VOID, 0, 0]);
    let single = Tensor::from_vec(vec![nan, 0.6, 0.5], &[1, 1, 1, 3]).unwrap();
    assert_eq!(one(&Segmenter::new(Activation::None), &single, frame), [VOID, 1, 0]);
}

#[test]
fn classes_as_integers_are_copied() {
    let classes = Tensor::from_vec(vec![3i64, 7, -1, 300], &[1, 2, 2]).unwrap();
    let found = one(&Segmenter::new(Activation::None), &classes, Frame::stretched([2, 4], [2, 2]));
    assert_eq!(found, [3, 3, 7, 7, VOID, VOID, VOID, VOID]);
}

#[test]
fn outputs_that_do_not_match_the_task() {
    let says = |segmenter: &Segmenter, shape: &[usize]| {
        let zeros = Tensor::zeros(DType::F32, shape).unwrap();
        segmenter.segment(&zeros, &[Frame::stretched([2, 2], [2, 2])]).unwrap_err().to_string()
    };
    let mut three = Segmenter::new(Activation::None);
    three.classes = Some(3);
    assert!(says(&three, &[1, 3]).starts_with("output 0 has the shape 1×3, not images×classes×H×W"));
    assert_eq!(says(&three, &[1, 4, 2, 2]), "output 0 has 4 classes, but there are 3 labels");
    assert_eq!(says(&three, &[1, 1, 2, 2]), "output 0 has 2 classes, but there are 3 labels");
    assert_eq!(says(&three, &[2, 3, 2, 2]), "output 0 has a batch of 2, expected 1");
    assert!(says(&three, &[1, 300, 2, 2]).contains("at most 255 classes"));
    assert!(says(&three, &[1, 3, 0, 2]).contains("1×3×0×2"));
    assert!(says(&Segmenter::new(Activation::Softmax), &[1, 1, 2, 2]).contains("should be sigmoid"));
}

#[test]
fn a_mask_is_a_png_of_classes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mask.png");
    let map = ClassMap::new(1, 4, vec![0, 1, 7, VOID]).unwrap();
    assert_eq!(map.counts(), [(0, 1), (1, 1), (7, 1), (VOID, 1)]);
    map.save_png(&path, &[[1, 2, 3], [4, 5, 6]], Some(0)).unwrap();
    let seen = crate::Picture::load(&path, &ixion_tensor::Limits::default()).unwrap();
    let wanted = [[0, 0, 0], [4, 5, 6], crate::PALETTE[7], [255, 255, 255]];
    assert_eq!(seen.pixels(), wanted.as_flattened());
    assert!(ClassMap::new(2, 2, vec![0; 3]).is_err() && ClassMap::new(0, 2, vec![]).is_err());
}

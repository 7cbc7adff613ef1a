use super::*;

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_vec(values.to_vec(), shape).unwrap()
}

fn frame() -> Frame {
    Frame::stretched([100, 100], [100, 100])
}

fn detector(format: DetectionFormat, classes: usize) -> Detector {
    Detector { classes: Some(classes), ..Detector::new(format) }
}

/// Three rows of two classes: a box, nearly the same box, and one with too low a score.
const ROWS: [f32; 21] = [
    50.0, 40.0, 20.0, 10.0, 0.9, 0.2, 0.8, //
    51.0, 40.0, 20.0, 10.0, 0.8, 0.1, 0.8, //
    20.0, 20.0, 10.0, 10.0, 0.4, 0.6, 0.1,
];

#[test]
fn rows_of_yolov5() {
    let found =
        detector(DetectionFormat::Yolov5, 2).detect(&[tensor(&ROWS, &[1, 3, 7])], &[frame()]).unwrap();
    assert_eq!(found, [[Detection { class: 1, score: 0.9 * 0.8, rect: Rect::new(40.0, 35.0, 60.0, 45.0) }]]);
    let all = Detector { confidence: 0.2, iou: 1.0, ..Detector::new(DetectionFormat::Yolov5) };
    let found = all.detect(&[tensor(&ROWS, &[1, 3, 7])], &[frame()]).unwrap();
    let classes: Vec<usize> = found[0].iter().map(|found| found.class).collect();
    assert_eq!(classes, [1, 1, 0]);
}

#[test]
fn columns_of_yolov8() {
    // Two boxes, the first of class 0 and the second of class 2.
    let columns = [50.0, 20.0, 40.0, 30.0, 20.0, 10.0, 10.0, 10.0, 0.9, 0.1, 0.3, 0.2, 0.1, 0.6];
    let output = tensor(&columns, &[1, 7, 2]);
    let found = detector(DetectionFormat::Yolov8, 3).detect(&[output], &[frame()]).unwrap();
    assert_eq!(
        found,
        [[
            Detection { class: 0, score: 0.9, rect: Rect::new(40.0, 35.0, 60.0, 45.0) },
            Detection { class: 2, score: 0.6, rect: Rect::new(15.0, 25.0, 25.0, 35.0) },
        ]]
    );
}

#[test]
fn pictures_of_a_batch_are_separate_and_in_their_own_pixels() {
    let second = [50.0, 50.0, 20.0, 20.0, 1.0, 1.0, 0.0];
    let empty = [0.0; 14];
    let output = tensor(&[&ROWS[..], &second, &empty].concat(), &[2, 3, 7]);
    // The second picture is twice as wide as the input and letterboxed: half as large, with 25 rows above and below.
    let placement = crate::Placement { scale: [0.5, 0.5], offset: [25.0, 0.0] };
    let wide = Frame { picture: [100, 200], input: [100, 100], placement };
    let found = detector(DetectionFormat::Yolov5, 2).detect(&[output], &[frame(), wide]).unwrap();
    assert_eq!((found.len(), found[0].len(), found[1].len()), (2, 1, 1));
    assert_eq!(found[1][0].rect, Rect::new(80.0, 30.0, 120.0, 70.0));
}

#[test]
fn boxes_are_clipped_and_bad_ones_dropped() {
    let nan = f32::NAN;
    let rows = [
        [95.0, 50.0, 20.0, 20.0, 1.0, 1.0],  // half outside
        [150.0, 50.0, 20.0, 20.0, 1.0, 1.0], // entirely outside
        [50.0, 50.0, 0.0, 20.0, 1.0, 1.0],   // without an area
        [50.0, 50.0, -3.0, -4.0, 1.0, 1.0],  // swapped edges
        [nan, 50.0, 20.0, 20.0, 1.0, 1.0],   // without a position
        [20.0, 50.0, 20.0, 20.0, nan, 1.0],  // without a score
        [20.0, 50.0, 20.0, 20.0, 1.0, nan],  // without a class
        [50.0, 50.0, f32::INFINITY, 20.0, 1.0, 1.0],
    ];
    let output = tensor(rows.as_flattened(), &[1, 8, 6]);
    let found = Detector::new(DetectionFormat::Yolov5).detect(&[output], &[frame()]).unwrap();
    assert_eq!(found, [[Detection { class: 0, score: 1.0, rect: Rect::new(85.0, 40.0, 100.0, 60.0) }]]);
}

/// The values of the heads in tenths, and their decoding by YOLOv5's formulas in torch 2.15.0: class, score and box of all
/// objects above 0.4.
const HEADS: [&[i8]; 2] = [
    &[
        -10, -16, 4, -12, 20, 3, 12, -1, 8, -5, 8, -12, 4, 16, -14, -1, 19, 17, -6, -1, 14, 8, -2, 1, -16,
        -16, -6, -12, 16, -17, 15, -18, -9, -16, -12, 6, 12, 13, 2, 16, -17, -3, 13, 17, -15, 10, -19, 4, 18,
        -2, 19, 19, -8, -2, 8, -7, -11, 7, -17, -3, -20, 7, 2, 11, -2, 5, 16, 3, 14, -19, -4, 5, -19, 7, 0,
        -10, 15, -18, 20, -19, -12, -11, -17, -6, -8, 13, -13, -20, 12, -1, -5, 19, -15, -5, 13, -11, 4, 19,
        -13, 10, 1, 4, 6, -7, -18, 19, -12, 14, -1, -5, -7, -19,
    ],
    &[
        -5, -19, -14, 11, 16, 11, 6, 7, 3, -13, 16, -10, 15, 5, 0, -14, 12, -16, -1, -7, -14, -6, 1, -13,
        -12, 16, 19, -12,
    ],
];
const DECODED: [(usize, f32, [f32; 4]); 9] = [
    (1, 0.561651, [19.1907, -1.6895, 28.2165, 1.0967]),
    (0, 0.574491, [3.6698, 16.6919, 22.7124, 17.9326]),
    (0, 0.498119, [22.0883, 11.0772, 33.1124, 12.1235]),
    (0, 0.460106, [-0.5459, -0.0122, 0.5375, 6.4175]),
    (0, 0.413217, [0.4038, 2.2171, 28.9782, 9.7016]),
    (1, 0.697813, [24.4944, -2.3425, 29.1235, 12.7246]),
    (0, 0.507379, [-4.0284, 7.669, 45.6231, 13.173]),
    (0, 0.477947, [-41.6075, -20.846, 49.7701, 17.5062]),
    (1, 0.456675, [-5.5387, 11.8188, 21.5387, 21.3668]),
];

fn heads() -> (Detector, [Tensor; 2]) {
    let heads = vec![
        Head { stride: 8, anchors: vec![[10.0, 13.0], [16.0, 30.0]] },
        Head { stride: 16, anchors: vec![[33.0, 23.0], [30.0, 61.0]] },
    ];
    let values = HEADS.map(|head| head.iter().map(|&tenth| f32::from(tenth) / 10.0).collect::<Vec<_>>());
    let outputs = [tensor(&values[0], &[1, 14, 2, 4]), tensor(&values[1], &[1, 14, 1, 2])];
    let detector = Detector { confidence: 0.4, ..detector(DetectionFormat::Yolov5Heads(heads), 2) };
    (detector, outputs)
}

#[test]
fn heads_are_decoded_as_yolov5_does() {
    let (detector, outputs) = heads();
    let frame = Frame::stretched([16, 32], [16, 32]);
    let found = detector.candidates(&outputs, &[frame]).unwrap().remove(0);
    assert_eq!(found.len(), DECODED.len());
    for (found, (class, score, [left, top, right, bottom])) in found.iter().zip(DECODED) {
        let edges = [
            found.rect.left - left,
            found.rect.top - top,
            found.rect.right - right,
            found.rect.bottom - bottom,
        ];
        assert!(edges.iter().all(|edge| edge.abs() < 1e-3), "{found:?}");
        assert!(found.class == class && (found.score - score).abs() < 1e-5, "{found:?}");
    }
    // The same values with the channels last.
    let last = outputs.map(|output| {
        let [rows, cols] = [output.shape()[2], output.shape()[3]];
        output.reshape(&[1, 2, 7, rows, cols]).unwrap().permute(&[0, 1, 3, 4, 2]).unwrap()
    });
    assert_eq!(detector.candidates(&last, &[frame]).unwrap().remove(0), found);
}

#[test]
fn outputs_that_do_not_match_the_format() {
    let says = |detector: &Detector, outputs: &[Tensor]| {
        detector.detect(outputs, &[frame()]).unwrap_err().to_string()
    };
    let zeros = |shape: &[usize]| tensor(&vec![0.0; shape.iter().product()], shape);
    let rows = detector(DetectionFormat::Yolov5, 80);
    assert_eq!(
        says(&rows, &[zeros(&[1, 84, 210])]),
        "output 0 has the shape 1×84×210, not images×rows×(5+classes) for 80 labels; it fits format = \"yolov8\""
    );
    assert_eq!(says(&rows, &[zeros(&[1, 9, 9])]), "output 0 has 4 classes, but there are 80 labels");
    assert_eq!(says(&rows, &[zeros(&[2, 9, 85])]), "output 0 has a batch of 2, expected 1");
    assert!(says(&rows, &[zeros(&[1, 9])]).contains("the shape 1×9, not images×rows×(5+classes)"));
    assert!(says(&rows, &[zeros(&[1, 255, 2, 2])]).contains("yolov5-heads"));
    assert_eq!(says(&rows, &[]), "wrong number of outputs: expected 1 (for the format \"yolov5\"), got 0");
    let ints = Tensor::zeros(ixion_tensor::DType::I64, &[1, 9, 85]).unwrap();
    assert_eq!(says(&rows, &[ints]), "output 0 holds i64, not floats");
    let columns = detector(DetectionFormat::Yolov8, 80);
    assert!(says(&columns, &[zeros(&[1, 9, 85])]).ends_with("it fits format = \"yolov5\""));

    let (heads, outputs) = heads();
    assert!(
        says(&heads, &outputs[..1])
            .starts_with("wrong number of outputs: expected 2 (one for each of 2 strides), got 1")
    );
    let frame = Frame::stretched([16, 32], [16, 32]);
    let swapped = [outputs[1].clone(), outputs[0].clone()];
    let message = heads.detect(&swapped, &[frame]).unwrap_err().to_string();
    assert_eq!(
        message,
        "output 0 has the shape 1×14×1×2, not a grid of 2×4 cells for stride 8 and an input of 16×32; check that \
         `strides` and `anchors` are in the order of the outputs"
    );
    assert!(says(&heads, &[zeros(&[1, 13, 2, 4]), outputs[1].clone()]).contains("images×2·(5+classes)×H×W"));
}

#[test]
fn a_batch_without_pictures_has_no_objects() {
    let output = tensor(&[], &[0, 3, 7]);
    assert!(detector(DetectionFormat::Yolov5, 2).detect(&[output], &[]).unwrap().is_empty());
}

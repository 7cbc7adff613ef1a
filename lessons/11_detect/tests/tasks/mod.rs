//! The requirements of each task of lesson 11. Boxes and masks of models were computed with PyTorch and torchvision.

use super::subject::{
    Confusion, Detection, Frame, Placement, Rect, VOID, cell_box, decode_row, detection, highest,
    letterboxed, most_probable, suppress, surround,
};
use ixion::Limits;
use ixion::graph::RuntimeGraph;
use ixion::tensor::{Color, Fit, Picture, Preprocess, Tensor};
use ndarray::{Array2, ArrayView2, Ix4, arr1, arr2, s};
use std::path::{Path, PathBuf};

fn model_file(name: &str) -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("model_file"));
    folders.into_iter().find(|folder| folder.is_dir()).unwrap().join(name)
}

fn load(name: &str) -> Tensor {
    Tensor::load_npy(model_file(name), &Limits::default()).unwrap()
}

/// Compares four edges, with a tolerance for rounding.
#[track_caller]
fn check(rect: Rect, [left, top, right, bottom]: [f32; 4], hint: &str) {
    let pairs = [(rect.left, left), (rect.top, top), (rect.right, right), (rect.bottom, bottom)];
    let close = pairs.iter().all(|(got, want)| (got - want).abs() <= 1e-3 + 1e-4 * want.abs());
    assert!(close, "got {rect:?}, expected left {left}, top {top}, right {right}, bottom {bottom}. {hint}");
}

#[track_caller]
fn near(got: f32, want: f32, hint: &str) {
    assert!((got - want).abs() < 1e-5, "got {got}, expected {want}. {hint}");
}

/// Prepares a picture for the networks: letterboxed to 128×128, in 0..1, by the functions of task 1.
fn prepared(picture: &Picture) -> (Tensor, Frame) {
    const SIZE: [usize; 2] = [128, 128];
    let of = [picture.height(), picture.width()];
    let resized = letterboxed(of, SIZE);
    let mut rule = Preprocess::default();
    (rule.color, rule.fit, rule.size) = (Color::Rgb, Fit::Stretch, Some(resized));
    let (small, _) = rule.prepare(picture, &Limits::default()).unwrap();
    let small = small.array::<f32>().unwrap().into_dimensionality::<Ix4>().unwrap();
    let mut input = Tensor::full(&[1, 3, SIZE[0], SIZE[1]], 0f32).unwrap();
    let mut view = input.view_mut().unwrap();
    let mut array = view.array::<f32>().unwrap().into_dimensionality::<Ix4>().unwrap();
    for channel in 0..3 {
        let plane = small.slice(s![0, channel, .., ..]);
        surround(array.slice_mut(s![0, channel, .., ..]), plane, 114.0 / 255.0);
    }
    (input, Frame { picture: of, input: SIZE, placement: Placement::centered(of, resized, SIZE) })
}

fn run(name: &str, input: Tensor) -> Tensor {
    let mut graph = RuntimeGraph::new(model_file(&format!("{name}/{name}.pnnx.param")));
    graph.build().unwrap();
    graph.run_with(vec![input]).unwrap().remove(0)
}

#[test]
fn task1_a_picture_fits_inside_and_keeps_its_proportions() {
    assert_eq!(
        letterboxed([100, 200], [128, 128]),
        [64, 128],
        "128 / 200 = 0.64 fits both axes, 1.28 only one"
    );
    assert_eq!(letterboxed([200, 100], [128, 128]), [128, 64], "the same picture upright: rows come first");
    assert_eq!(letterboxed([10, 20], [128, 128]), [64, 128], "small pictures are enlarged");
    assert_eq!(letterboxed([30, 40], [60, 100]), [60, 80], "an input need not be square");
    assert_eq!(letterboxed([1, 1000], [64, 64]), [1, 64], "however flat: at least one row");
}

#[test]
fn task1_a_picture_is_centred() {
    let placement = Placement::centered([100, 200], [64, 128], [128, 128]);
    assert_eq!(placement.scale, [0.64, 0.64], "pixels of the input for one pixel of the picture");
    assert_eq!(
        placement.offset,
        [32.0, 0.0],
        "half of the 64 rows that are left over come before the picture"
    );
    assert_eq!(
        Placement::centered([3, 3], [3, 3], [6, 6]).offset,
        [1.0, 1.0],
        "of 3 pixels 1 comes before, 2 after"
    );
    let cut = Placement::centered([10, 10], [10, 10], [6, 6]);
    assert_eq!(cut.offset, [-2.0, -2.0], "a larger picture is cut off on both sides: the offset is negative");
    let odd = Placement::centered([9, 9], [9, 9], [6, 6]);
    assert_eq!(odd.offset, [-1.0, -1.0], "of −3 pixels 1 is cut off before, 2 after: −3 / 2 in integers");
}

#[test]
fn task1_points_go_there_and_back() {
    let placement = Placement { scale: [0.5, 2.0], offset: [10.0, 3.0] };
    assert_eq!(
        placement.to_input([4.0, 5.0]),
        [12.0, 13.0],
        "first multiply by the scale, then add the offset"
    );
    assert_eq!(
        placement.to_picture([12.0, 13.0]),
        [4.0, 5.0],
        "backwards: first subtract the offset, then divide by the scale"
    );
}

#[test]
fn task1_a_border_surrounds_the_picture() {
    let mut target = Array2::from_elem((4, 3), 9.0);
    surround(target.view_mut(), arr2(&[[1.0, 2.0, 3.0]]).view(), 0.5);
    let want = arr2(&[[0.5; 3], [1.0, 2.0, 3.0], [0.5; 3], [0.5; 3]]);
    assert_eq!(target, want, "3 rows are left over: 1 before, 2 after, as in `Placement::centered`");
}

#[test]
fn task1_the_input_equals_the_frameworks() {
    let picture = Picture::load(model_file("shapes_detector/samples/1.png"), &Limits::default()).unwrap();
    let mut rule = Preprocess::default();
    (rule.fit, rule.size, rule.pad_value) = (Fit::Letterbox, Some([128, 128]), 114.0);
    let (want, _) = rule.prepare(&picture, &Limits::default()).unwrap();
    let comparison = prepared(&picture).0.allclose(&want, 0.0, 1e-6, false).unwrap();
    assert!(comparison.holds(), "{comparison}");
}

#[test]
fn task2_an_area_is_never_negative() {
    assert_eq!(Rect::new(1.0, 2.0, 5.0, 5.0).area(), 12.0, "4 wide and 3 high");
    let hint = "inverted, it covers nothing; two negative lengths must not make a positive area";
    assert_eq!(Rect::new(5.0, 5.0, 1.0, 2.0).area(), 0.0, "{hint}");
    assert_eq!(Rect::new(5.0, 2.0, 1.0, 5.0).area(), 0.0, "{hint}");
}

#[test]
fn task2_what_two_rectangles_have_in_common() {
    let (a, b) = (Rect::new(0.0, 0.0, 4.0, 3.0), Rect::new(2.0, 1.0, 6.0, 4.0));
    check(a.intersection(&b), [2.0, 1.0, 4.0, 3.0], "the picture of the page");
    check(b.intersection(&a), [2.0, 1.0, 4.0, 3.0], "the same from the other side");
    assert_eq!(a.intersection(&Rect::new(5.0, 0.0, 6.0, 3.0)).area(), 0.0, "disjoint rectangles");
}

#[test]
fn task2_intersection_over_union() {
    let (a, b) = (Rect::new(0.0, 0.0, 4.0, 3.0), Rect::new(2.0, 1.0, 6.0, 4.0));
    near(a.iou(&b), 0.2, "4 in common; the union is 12 + 12 − 4, since the intersection was counted twice");
    near(b.iou(&a), 0.2, "the same from the other side");
    near(a.iou(&a), 1.0, "a rectangle with itself");
    near(a.iou(&Rect::new(1.0, 1.0, 2.0, 2.0)), 1.0 / 12.0, "one inside the other");
    near(a.iou(&Rect::new(10.0, 10.0, 12.0, 12.0)), 0.0, "far apart");
    let flat = Rect::new(1.0, 1.0, 1.0, 2.0);
    near(flat.iou(&flat), 0.0, "no area, no union: 0 / 0 is NaN, and every comparison with NaN is false");
}

#[test]
fn task2_a_box_ends_where_the_picture_ends() {
    let clipped = Rect::new(-5.0, 90.0, 230.0, 120.0).clipped([100, 200]);
    check(clipped, [0.0, 90.0, 200.0, 100.0], "100 rows and 200 columns: left and right are columns");
}

#[test]
fn given_rectangles_and_frames() {
    let placement = Placement { scale: [0.64, 0.64], offset: [32.0, 0.0] };
    let frame = Frame { picture: [100, 200], input: [128, 128], placement };
    assert_eq!((frame.picture, frame.input), ([100, 200], [128, 128]));
    assert_eq!(Rect::centered([10.0, 20.0], [4.0, 6.0]), Rect::new(8.0, 17.0, 12.0, 23.0));
}

#[test]
fn task3_a_cell_predicts_a_box() {
    let hint = "σ(0) = 0.5: the centre is (1 − 0.5 + cell) × 8, and the lengths are the anchor's.";
    check(cell_box([0.0; 4], [10.0, 13.0], [2, 3], 8), [23.0, 13.5, 33.0, 26.5], hint);
    let large = f32::INFINITY;
    let hint = "σ(∞) = 1: at most 1.5 cells further, and (2 × 1)² = 4 times as large.";
    check(cell_box([large; 4], [10.0, 20.0], [0, 0], 16), [4.0, -16.0, 44.0, 64.0], hint);
    check(
        cell_box([-large; 4], [10.0, 20.0], [1, 1], 16),
        [8.0; 4],
        "σ(−∞) = 0: half a cell back, and no size",
    );
}

#[test]
fn task3_the_most_probable_class() {
    assert_eq!(most_probable([0.1, 0.7, 0.2].into_iter()), Some((1, 0.7)), "its index and its probability");
    assert_eq!(
        most_probable([0.4, 0.4].into_iter()),
        Some((0, 0.4)),
        "the first of equal ones: is it `>` or `>=`?"
    );
    let hint = "NaN is above nothing, and nothing is above NaN: is it kept if it comes first?";
    assert_eq!(most_probable([f32::NAN, 0.2].into_iter()), Some((1, 0.2)), "{hint}");
    assert_eq!(most_probable([f32::NAN].into_iter()), None, "NaN alone gives no class");
}

#[test]
fn task3_the_score_is_a_product() {
    let rect = Rect::new(0.0, 0.0, 2.0, 2.0);
    let found = |presence, confidence| detection(rect, presence, [0.2, 0.5].into_iter(), confidence);
    let best = found(0.5, 0.2).expect("0.5 × 0.5 = 0.25 is above 0.2");
    assert_eq!(
        (best.class, best.score, best.rect),
        (1, 0.25, rect),
        "the presence times the probability of the class"
    );
    assert!(found(0.5, 0.25).is_none(), "0.25 is not above 0.25");
    assert!(found(0.5, 0.4).is_none(), "0.5 alone is above 0.4, but the score is 0.25");
    assert!(found(f32::NAN, 0.1).is_none(), "NaN is above nothing");
}

#[test]
fn task3_a_row_of_yolov5() {
    let row = arr1(&[50.0, 40.0, 20.0, 10.0, 0.9, 0.2, 0.8]);
    let found = decode_row(row.view(), 0.25).expect("0.9 × 0.8 is above 0.25");
    check(found.rect, [40.0, 35.0, 60.0, 45.0], "centre column, centre row, width, height");
    assert_eq!(found.class, 1, "classes begin after the fifth number");
    near(found.score, 0.72, "0.9 × 0.8");
    assert!(decode_row(row.view(), 0.72).is_none(), "not above the confidence");
}

fn found(class: usize, score: f32, left: f32) -> Detection {
    Detection { class, score, rect: Rect::new(left, 0.0, left + 10.0, 10.0) }
}

#[test]
fn task4_the_best_of_those_that_overlap() {
    let kept = suppress(vec![found(0, 0.5, 1.0), found(0, 0.9, 0.0), found(0, 0.4, 20.0)], 0.45, 300);
    let scores: Vec<f32> = kept.iter().map(|found| found.score).collect();
    assert_eq!(scores, [0.9, 0.4], "the best first; 0.5 overlaps it; 0.4 stands alone");
}

#[test]
fn task4_classes_do_not_suppress_each_other() {
    let kept = suppress(vec![found(0, 0.9, 0.0), found(1, 0.8, 0.0)], 0.45, 300);
    assert_eq!(kept.len(), 2, "a star in front of a circle is still a star");
}

#[test]
fn task4_only_what_is_kept_suppresses() {
    // The second overlaps the first by 7/13, and the third the second; the third and the first only by 4/16.
    let chain = vec![found(0, 0.9, 0.0), found(0, 0.8, 3.0), found(0, 0.7, 6.0)];
    let scores: Vec<f32> = suppress(chain, 0.45, 300).iter().map(|found| found.score).collect();
    assert_eq!(scores, [0.9, 0.7], "a suppressed box suppresses nothing");
}

#[test]
fn task4_corner_cases() {
    let pair = vec![found(0, 0.9, 0.0), found(0, 0.8, 5.0)];
    assert_eq!(
        suppress(pair.clone(), 1.0 / 3.0, 300).len(),
        2,
        "5/15 is not more than 1/3: is it `>` or `>=`?"
    );
    assert_eq!(suppress(pair.clone(), 0.33, 300).len(), 1, "5/15 is more than 0.33");
    assert_eq!(suppress(pair, 1.0, 1).len(), 1, "at most `most`");
    assert_eq!(
        suppress(vec![found(0, f32::NAN, 0.0), found(0, 0.1, 0.0)], 0.5, 9).len(),
        1,
        "NaN is not a score"
    );
    let ties = suppress(vec![found(0, 0.5, 0.0), found(0, 0.5, 1.0)], 0.45, 9);
    assert_eq!(ties[0].rect.left, 0.0, "equal scores keep their order");
    let mut many = vec![found(0, 0.9, 0.0); 30_000];
    many.insert(0, found(0, 0.1, 50.0));
    assert_eq!(suppress(many, 0.45, 9).len(), 1, "only the best 30,000 are considered: `MAX_CANDIDATES`");
}

/// The rows that PyTorch computes for a scene, of which `torchvision.ops.batched_nms` keeps these.
#[test]
fn task4_six_objects_of_a_hundred_candidates() {
    let rows = load("shapes_detector/out_0.npy");
    let rows = rows.narrow(0, 0, 1).unwrap().reshape(&[1008, 9]).unwrap();
    let rows = rows.array::<f32>().unwrap();
    let rows = rows.into_dimensionality::<ndarray::Ix2>().unwrap();
    let candidates: Vec<Detection> = rows.outer_iter().filter_map(|row| decode_row(row, 0.4)).collect();
    assert_eq!(candidates.len(), 138, "candidates above 0.4");
    let want = [
        (0, 0.9761, [6.89, 23.04, 47.87, 64.11]),
        (0, 0.9524, [67.84, 57.04, 99.81, 88.86]),
        (0, 0.9491, [79.96, 95.23, 108.58, 124.0]),
        (1, 0.9376, [46.45, 2.66, 83.23, 39.51]),
        (1, 0.905, [39.61, 88.63, 68.04, 117.08]),
        (2, 0.8744, [20.71, 66.49, 38.58, 84.35]),
    ];
    let kept = suppress(candidates, 0.45, 300);
    assert_eq!(kept.len(), want.len(), "torchvision keeps six of them");
    for (found, (class, score, edges)) in kept.iter().zip(want) {
        assert!(
            found.class == class && (found.score - score).abs() < 1e-3,
            "got {found:?}, expected class {class} with {score}"
        );
        let edges_found = [found.rect.left, found.rect.top, found.rect.right, found.rect.bottom];
        assert!(edges_found.iter().zip(edges).all(|(got, want)| (got - want).abs() < 0.02), "{found:?}");
    }
}

/// From a picture of 128×192 to boxes in its own pixels. The scene is rendered, so its contents are known exactly.
#[test]
fn task4_from_a_picture_to_boxes() {
    let picture = Picture::load(model_file("shapes_detector/samples/1.png"), &Limits::default()).unwrap();
    let (input, frame) = prepared(&picture);
    let output = run("shapes_detector", input).reshape(&[1008, 9]).unwrap();
    let rows = output.array::<f32>().unwrap().into_dimensionality::<ndarray::Ix2>().unwrap();
    let candidates = rows.outer_iter().filter_map(|row| decode_row(row, 0.4)).collect();
    let kept = suppress(candidates, 0.45, 300);
    assert_eq!(kept.len(), TRUTH.len(), "as many objects as the scene has");
    for (class, [left, top, right, bottom]) in TRUTH {
        let truth = Rect::new(left, top, right, bottom);
        let is_it = |found: &Detection| {
            found.class == class && frame.to_picture(&found.rect).clipped(frame.picture).iou(&truth) > 0.8
        };
        assert!(
            kept.iter().any(is_it),
            "class {class} at {truth:?} was not found: are boxes mapped back to the picture?"
        );
    }
}

/// Class, left, top, right and bottom of each object in the picture.
const TRUTH: [(usize, [f32; 4]); 2] = [(0, [39.0, 57.0, 90.0, 108.0]), (3, [148.0, 36.0, 169.0, 57.0])];

#[test]
fn task5_the_highest_score_wins() {
    let scores = arr2(&[
        [0.1, 0.5, f32::NAN, -1.0],
        [0.7, 0.5, f32::NAN, f32::NEG_INFINITY],
        [0.2, 0.1, f32::NAN, -2.0],
    ]);
    let hint = "one class for each pixel: the first of the highest, or VOID where all are NaN";
    assert_eq!(highest(scores.view()), [1, 0, VOID, 0], "{hint}");
    let lost = arr2(&[[f32::NAN], [f32::NEG_INFINITY]]);
    assert_eq!(highest(lost.view()), [1], "−∞ is still a score, NaN is not");
}

#[test]
fn task5_how_well_masks_agree() {
    let mut confusion = Confusion::new(3);
    confusion.add(&[0, 0, 0, 1, 1, 2], &[0, 0, 1, 1, 2, 2]).unwrap();
    assert_eq!(
        confusion.count(0, 1),
        1,
        "one pixel of class 0 was predicted as class 1: rows are the true classes"
    );
    assert_eq!(confusion.count(1, 0), 0, "no pixel of class 1 was predicted as class 0");
    let hint = "2 right; 3 are of class 0, and 2 were predicted as it: 2 / (3 + 2 − 2)";
    assert_eq!(confusion.iou(0), Some(2.0 / 3.0), "{hint}");
    assert_eq!(confusion.iou(1), Some(1.0 / 3.0), "1 / (2 + 2 − 1)");
    assert_eq!(confusion.iou(2), Some(1.0 / 2.0), "1 / (1 + 2 − 1)");
    confusion.add(&[0], &[1]).unwrap();
    assert_eq!(confusion.iou(0), Some(0.5), "a second picture adds to the first: 2 / (4 + 2 − 2)");
}

#[test]
fn task5_pixels_that_do_not_count() {
    let mut confusion = Confusion::new(3);
    confusion.add(&[VOID, 0, 0], &[1, 0, VOID]).unwrap();
    assert_eq!(
        confusion.iou(0),
        Some(0.5),
        "pixels that are truly VOID do not count; predicting VOID for class 0 is wrong"
    );
    assert_eq!(
        (confusion.iou(1), confusion.iou(2)),
        (None, None),
        "neither present nor predicted: there is no IoU"
    );
    assert!(confusion.add(&[0, 1], &[0]).is_err(), "both masks must have the same length");
    assert!(confusion.add(&[0, 1], &[0, 3]).is_err(), "class 3 is not among 0, 1, 2");
    assert_eq!(confusion.iou(0), Some(0.5), "a rejected call counts nothing");
}

/// Scores as classes × pixels.
fn pixels(scores: &Tensor) -> Tensor {
    scores.reshape(&[5, 128 * 128]).unwrap()
}

#[test]
fn task5_the_mask_equals_pytorchs() {
    let scores = pixels(&load("shapes_unet/out_0.npy"));
    let scores: ArrayView2<'_, f32> = scores.array::<f32>().unwrap().into_dimensionality().unwrap();
    let mask = highest(scores);
    let counts = [0u8, 1, 2, 3, 4].map(|class| mask.iter().filter(|&&found| found == class).count());
    assert_eq!(counts, [12148, 2717, 1346, 170, 3], "background, circles, squares, triangles, stars");
}

#[test]
fn task5_from_a_picture_to_a_mask() {
    let scores = pixels(&run("shapes_unet", load("shapes_unet/in_0.npy")));
    let scores: ArrayView2<'_, f32> = scores.array::<f32>().unwrap().into_dimensionality().unwrap();
    let known = pixels(&load("shapes_unet/out_0.npy"));
    let known: ArrayView2<'_, f32> = known.array::<f32>().unwrap().into_dimensionality().unwrap();
    let mut confusion = Confusion::new(5);
    confusion.add(&highest(known), &highest(scores)).unwrap();
    let mean = confusion.mean_iou().unwrap();
    assert!(mean > 0.99, "the mask that Ixion computes must agree with PyTorch's: mean IoU {mean}");
}

use super::canvas::{Area, Canvas};
use super::text::{Font, Labels};
use super::*;
use crate::{ClassMap, Detection, PALETTE, Rect, VOID};
use crate::{Color, Picture};
use proptest::prelude::*;

const GREY: u8 = 90;

fn picture(height: usize, width: usize) -> Picture {
    Picture::new(height, width, Color::Gray, vec![GREY; height * width]).unwrap()
}

fn pixel(picture: &Picture, row: usize, col: usize) -> [u8; 3] {
    let start = (row * picture.width() + col) * 3;
    picture.pixels()[start..start + 3].try_into().unwrap()
}

fn found(class: usize, edges: [f32; 4]) -> Detection {
    let [left, top, right, bottom] = edges;
    Detection { class, score: 0.93, rect: Rect { left, top, right, bottom } }
}

#[test]
fn a_box_has_the_colour_of_its_class_and_a_label() {
    let drawn =
        draw_detections(&picture(300, 400), &[found(1, [100.0, 100.0, 300.0, 200.0])], &[], &[]).unwrap();
    assert_eq!((drawn.height(), drawn.width(), drawn.color()), (300, 400, Color::Rgb));
    for (row, col) in [(100, 250), (199, 150), (150, 100), (150, 299)] {
        assert_eq!(pixel(&drawn, row, col), PALETTE[1], "{row} {col}");
    }
    assert_eq!((pixel(&drawn, 150, 200), pixel(&drawn, 50, 50)), ([GREY; 3], [GREY; 3]));
    // The label is above the box, in the same colour, with black letters.
    let label: Vec<[u8; 3]> = (82..98)
        .flat_map(|row| (100..140).map(move |col| (row, col)))
        .map(|(row, col)| pixel(&drawn, row, col))
        .collect();
    assert!(label.iter().filter(|color| **color == PALETTE[1]).count() > label.len() / 3);
    assert!(label.contains(&[0; 3]));
}

#[test]
fn small_pictures_are_enlarged() {
    let drawn =
        draw_detections(&picture(64, 128), &[found(0, [10.0, 20.0, 60.0, 50.0])], &[], &[[1, 2, 3]]).unwrap();
    assert_eq!((drawn.height(), drawn.width()), (256, 512));
    assert_eq!((pixel(&drawn, 150, 40), pixel(&drawn, 199, 100)), ([1, 2, 3], [1, 2, 3]));
    let empty = draw_detections(&picture(1, 1), &[], &[], &[]).unwrap();
    assert_eq!((empty.height(), pixel(&empty, 511, 511)), (512, [GREY; 3]));
}

#[test]
fn a_mask_is_transparent_within_its_edge() {
    let classes = (0..300 * 300)
        .map(|at| {
            if at % 300 < 150 {
                0
            } else if at < 150 * 300 {
                1
            } else {
                VOID
            }
        })
        .collect();
    let mask = ClassMap::new(300, 300, classes).unwrap();
    let drawn = draw_mask(&picture(300, 300), &mask, &[], &[], Some(0)).unwrap();
    assert_eq!((pixel(&drawn, 20, 20), pixel(&drawn, 290, 290)), ([GREY; 3], [GREY; 3]));
    assert_eq!((pixel(&drawn, 20, 150), pixel(&drawn, 149, 250)), (PALETTE[1], PALETTE[1]));
    let mixed = pixel(&drawn, 20, 250);
    let wanted = PALETTE[1].map(|value| (f32::from(value) * 115.0 + f32::from(GREY) * 140.0) / 255.0);
    assert!(mixed.iter().zip(wanted).all(|(got, want)| (f32::from(*got) - want).abs() <= 1.0), "{mixed:?}");
    let error = draw_mask(&picture(300, 301), &mask, &[], &[], None).unwrap_err().to_string();
    assert_eq!(error, "expected a mask of 300×301 like the picture, got 300×300");
}

#[test]
fn long_names_are_shortened_and_labels_do_not_overlap() {
    let canvas = Canvas::new(&picture(300, 100 * 4));
    let font = Font::of(&canvas);
    let text = font.fitting(&canvas, &"long ".repeat(40), " 93%");
    assert!(text.ends_with(".. 93%") && font.label_width(&text) <= canvas.width());
    let mut labels = Labels::new(&canvas, font);
    let corners = [[100, 50], [200, 50]];
    let (first, second) = (labels.place("one", &corners), labels.place("two", &corners));
    assert_eq!((first.top, second.top, first.common(&second)), (100, 200, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_is_drawn_outside_and_labels_stay_inside(
        size in [1usize..300, 1usize..300], edges in prop::array::uniform4(-1e3f32..1e3), corner in [-500i64..900, -500i64..900],
    ) {
        let given = picture(size[0], size[1]);
        let drawn = draw_detections(&given, &[found(3, edges), found(4, edges.map(|edge| edge * 1e30))], &["a name".into()], &[]);
        prop_assert!(drawn.is_ok());
        let canvas = Canvas::new(&given);
        let font = Font::of(&canvas);
        let text = font.fitting(&canvas, "name", " 7%");
        let label = Labels::new(&canvas, font).place(&text, &[corner]);
        prop_assert!(label.left >= 0 && label.top >= 0);
        if font.label_width(&text) <= canvas.width() && font.label_height() <= canvas.height() {
            prop_assert_eq!(label.common(&Area { left: 0, top: 0, right: canvas.width(), bottom: canvas.height() }),
                font.label_width(&text) * font.label_height());
        }
    }
}

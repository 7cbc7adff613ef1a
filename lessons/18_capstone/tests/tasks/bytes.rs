//! Task 5: state in a plan.

use super::*;

/// An int8 state that can be written down by hand.
fn small_state() -> Configuration {
    let quantized =
        QuantizedWeights { scales: [0.5, 0.25], steps: vec![2.0], bias: vec![-3], weights: vec![-1, 7] };
    Configuration { input: [1, 2, 1, 1], output: [1, 1, 1, 1], int8: Some(Arc::new(quantized)) }
}

#[test]
fn task5_a_state_of_f32_is_65_bytes() {
    let bytes = encode(&Configuration { input: [1, 2, 300, 4], output: [1, 3, 5, 6], int8: None });
    assert_eq!(bytes.len(), 65, "a byte for the version, and eight for each of eight lengths");
    assert_eq!(bytes[0], 1, "the version comes first");
    assert_eq!(
        bytes[17..25],
        [44, 1, 0, 0, 0, 0, 0, 0],
        "300 is 1·256 + 44, the least significant byte first"
    );
    assert_eq!([bytes[1], bytes[9], bytes[33], bytes[41]], [1, 2, 1, 3], "first the input, then the output");
}

#[test]
fn task5_a_state_of_int8_is_complete() {
    let bytes = encode(&small_state());
    assert_eq!(bytes.len(), 65 + 8 + 8 + 8 + 4 + 2, "scales, number of channels, steps, biases, weights");
    assert_eq!(bytes[65..69], 0.5f32.to_le_bytes(), "the scale of the input");
    assert_eq!(bytes[73..81], [1, 0, 0, 0, 0, 0, 0, 0], "one channel");
    assert_eq!(bytes[81..89], 2f64.to_le_bytes(), "its step");
    assert_eq!(bytes[89..], [253, 255, 255, 255, 255, 7], "−3, −1 and 7 in two's complement");
}

#[test]
fn task5_bytes_become_what_they_were() {
    let real = Configuration { int8: None, ..small_state() };
    for state in [small_state(), real] {
        assert_eq!(
            decode(&encode(&state)),
            Some(state),
            "read everything in the order in which it was written"
        );
    }
}

#[test]
fn task5_other_bytes_are_rejected() {
    let bytes = encode(&small_state());
    assert_eq!(decode(&[]), None, "no bytes are no state");
    assert_eq!(decode(&bytes[..64]), None, "a length is missing");
    assert_eq!(decode(&bytes[..90]), None, "a bias is missing");
    let mut other = bytes.clone();
    other[0] = 2;
    assert_eq!(decode(&other), None, "another version has another layout");
    let mut other = bytes;
    other[73..81].fill(255);
    assert_eq!(decode(&other), None, "2⁶⁴ − 1 channels must not make it allocate that much memory");
}

#[test]
fn task5_a_rebuilt_layer_gives_the_same_bits() {
    let x = noise(&[1, 2, 5, 7], 5);
    let quantized_x = Tensor::from_vec(x.iter().map(|x| *x as i8).collect(), &[1, 2, 5, 7]).unwrap();
    for (scales, x) in [(None, tensor(&x)), (Some([0.5f32, 12.0]), quantized_x)] {
        let mut first = file().conv();
        configure(&mut first, &[1, 2, 5, 7], &[1, 3, 5, 3], scales);
        let wanted = run(&mut first, &x, &[1, 3, 5, 3]);
        let mut second = file().conv();
        second.deserialize(&first.serialize().unwrap()).unwrap();
        assert_eq!(
            configuration(&second),
            configuration(&first),
            "`deserialize` should put the state into `self.state.0`"
        );
        assert_eq!(run(&mut second, &x, &[1, 3, 5, 3]), wanted, "without `configure`, the same bits");
    }
}

#[test]
fn task5_a_state_belongs_to_its_convolution() {
    let mut first = file().conv();
    configure(&mut first, &[1, 2, 5, 7], &[1, 3, 5, 3], Some([0.5, 0.25]));
    let bytes = first.serialize().unwrap();
    let mut other = file().with("stride", "(1,1)").conv();
    let hint = "with another stride the output has another shape: check with `fits`";
    assert!(matches!(other.deserialize(&bytes), Err(LayerError::Unsupported(_))), "{hint}");
    let hint = "one weight less than the layer has: the file is damaged; check with `fits`";
    let cut = &bytes[..bytes.len() - 1];
    assert!(matches!(file().conv().deserialize(cut), Err(LayerError::Unsupported(_))), "{hint}");
    assert!(first.deserialize(&[]).is_ok(), "no bytes are the state of a layer that was never configured");
    assert_eq!(first.state.0, None, "no bytes are the state of a layer that was never configured");
}
